"""`--store`: responses that are kept, from client to file and back: going on, asking for them, whose they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest
from flask.testing import FlaskClient

from proxy.config.api_keys import ClientKey, Keys
from tests.conftest import Inside, start
from tests.support.messages_client import HERMES, reply, serving
from tests.support.responses_checker import calls_of, check_error, check_stream, text_of
from tests.support.responses_client import INPUT_TOKENS, RESPONSES, TOOL, ask, response_of
from tests.support.scripted import Upstream

pytestmark = pytest.mark.once

MODES = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
Keeping = Callable[[str], FlaskClient]


@pytest.fixture
def keeping(inside: Inside, tmp_path: Path) -> Keeping:
    """The application, which keeps responses."""
    return lambda url: inside(url, store=str(tmp_path / "kept.db"))


def said(server: Upstream, number: int) -> Any:
    """The messages of a request that the model server got."""
    return server.seen[number].json["messages"]


@MODES
def test_a_conversation_goes_on_from_what_is_kept(keeping: Keeping, streamed: bool) -> None:
    """The model server gets all of it: the second turn begins with the first one's bytes (C8)."""
    with serving(reply(streamed, f"I run it.{HERMES}"), reply(streamed, "Done")) as server:
        client = keeping(server.url)
        first = response_of(client.post(RESPONSES, json=ask(stream=streamed, tools=[TOOL])))
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "written"}
        goes_on = {"previous_response_id": first["id"]}
        second = response_of(client.post(RESPONSES, json=ask([output], stream=streamed, tools=[TOOL], **goes_on)))
        assert said(server, 1)[: len(said(server, 0))] == said(server, 0)
        assert [message["role"] for message in said(server, 1)] == ["user", "assistant", "tool"]
        assert said(server, 1)[1]["content"] == "I run it."
    assert (text_of(second), second["store"]) == ("Done", True)
    assert second["previous_response_id"] == goes_on.get("previous_response_id")
    assert calls_of(first)


@MODES
def test_what_is_kept_can_be_asked_for(keeping: Keeping, streamed: bool) -> None:
    """The response as it was, what was given for it, and neither once it is deleted."""
    with serving(reply(streamed, "Hello")) as server:
        client = keeping(server.url)
        made = response_of(client.post(RESPONSES, json=ask("Hi", stream=streamed)))
    path = f"{RESPONSES}/{made['id']}"
    assert made["background"] is False
    assert client.get(path).json == made
    items = client.get(f"{path}/input_items").json
    assert items is not None and [item["content"] for item in items["data"]] == [[{"type": "input_text", "text": "Hi"}]]
    assert client.delete(path).json == {"id": made["id"], "object": "response", "deleted": True}
    for method, where in (("GET", path), ("DELETE", path), ("GET", f"{path}/input_items")):
        response = client.open(where, method=method)
        assert response.status_code == 404
        assert "there is no response" in check_error(response.data, 404)["message"]


def test_an_item_can_be_referred_to(keeping: Keeping) -> None:
    with serving(reply(False, "Hello"), reply(False, "Yes")) as server:
        client = keeping(server.url)
        made = response_of(client.post(RESPONSES, json=ask("Hi", stream=False)))
        items = ["Hi", {"type": "item_reference", "id": made["output"][0]["id"]}, "And?"]
        given = [{"role": "user", "content": item} if isinstance(item, str) else item for item in items]
        response_of(client.post(RESPONSES, json=ask(given, stream=False)))
        assert [message["content"] for message in said(server, 1)] == ["Hi", "Hello", "And?"]


def test_what_is_not_to_be_kept_is_not(keeping: Keeping, tmp_path: Path) -> None:
    with serving(reply(True, "Hello")) as server:
        client = keeping(server.url)
        made = response_of(client.post(RESPONSES, json=ask("Hi", store=False)))
    assert made["store"] is False
    assert client.get(f"{RESPONSES}/{made['id']}").status_code == 404


@MODES
def test_one_that_is_too_large_to_be_kept_is_an_error_in_words(inside: Inside, tmp_path: Path, streamed: bool) -> None:
    """As where the disk is full; asked with `store: false` it comes."""
    with serving(reply(streamed, "Hello"), reply(streamed, "Hello")) as server:
        client = inside(server.url, store=str(tmp_path / "kept.db"), store_bytes=2**20)
        large = "Hi " * 400_000
        response = client.post(RESPONSES, json=ask(large, stream=streamed))
        if streamed:
            words = check_stream(response.data)["error"]["message"]
        else:
            assert response.status_code == 500
            words = check_error(response.data, 500)["message"]
        assert "and 1,048,576 can be kept here at most" in words
        unkept = response_of(client.post(RESPONSES, json=ask(large, stream=streamed, store=False)))
    assert text_of(unkept) == "Hello"


@pytest.mark.parametrize("fields", [{"background": True}, {"conversation": "conv_1"}, {"conversation": {"id": "c"}}])
def test_other_state_is_refused_also_where_responses_are_kept(keeping: Keeping, fields: dict[str, Any]) -> None:
    (name,) = fields
    with serving() as server:
        response = keeping(server.url).post(RESPONSES, json=ask(**fields))
        assert server.seen == []
    error = check_error(response.data, 400)
    assert error["param"] == name and error["message"].startswith(f"{name}: this server ")


def test_a_response_that_is_gone_is_told_by_its_code(keeping: Keeping) -> None:
    with serving() as server:
        response = keeping(server.url).post(RESPONSES, json=ask(previous_response_id="resp_0"))
        assert server.seen == []
    assert check_error(response.data, 400)["code"] == "previous_response_not_found"


def test_tokens_are_counted_of_the_whole_conversation(keeping: Keeping) -> None:
    with serving(reply(False, "Hello")) as server:
        client = keeping(server.url)
        made = response_of(client.post(RESPONSES, json=ask("Hi " * 200, stream=False)))
        counts = [
            client.post(INPUT_TOKENS, json={"model": "tiny", "input": "Hi", **more}).json["input_tokens"]  # type: ignore[index]
            for more in ({}, {"previous_response_id": made["id"]})
        ]
    assert counts[1] > counts[0] + 50


def test_one_key_does_not_read_anothers(inside: Inside, tmp_path: Path) -> None:
    """Neither where the proxy knows the keys, nor where clients only send them."""
    keys = Keys(tuple(ClientKey(name, hashlib.sha256(f"key-of-{name}".encode()).digest()) for name in ("alice", "bob")))
    for known in (keys, None):
        with serving(reply(False, "Secret")) as server:
            client = inside(server.url, "", known, store=str(tmp_path / "kept.db"))
            alice, bob = ({"Authorization": f"Bearer key-of-{name}"} for name in ("alice", "bob"))
            made = response_of(client.post(RESPONSES, json=ask(stream=False), headers=alice))
            path = f"{RESPONSES}/{made['id']}"
            assert client.get(path, headers=alice).status_code == 200
            statuses = [
                client.get(path, headers=bob).status_code,
                client.get(f"{path}/input_items", headers=bob).status_code,
                client.delete(path, headers=bob).status_code,
            ]
            goes_on = client.post(RESPONSES, json=ask(previous_response_id=made["id"]), headers=bob)
            assert (statuses, goes_on.status_code, len(server.seen)) == ([404] * 3, 400, 1)
            assert client.get(path, headers=alice).json == made


@MODES
def test_a_file_that_cannot_be_used_is_an_error_in_words(inside: Inside, tmp_path: Path, streamed: bool) -> None:
    """A client that wants its response kept is told that it was not; one that does not gets it."""
    with serving(reply(streamed, "Hello"), reply(streamed, "Hello")) as server:
        client = inside(server.url, store=str(tmp_path / "nowhere" / "kept.db"))
        response = client.post(RESPONSES, json=ask(stream=streamed))
        if streamed:
            failed = check_stream(response.data)
            assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
            words = failed["error"]["message"]
        else:
            assert response.status_code == 500
            words = check_error(response.data, 500)["message"]
        assert "cannot use the file in which it keeps responses: no such file" in words and "kept.db" not in words
        unkept = response_of(client.post(RESPONSES, json=ask(stream=streamed, store=False)))
    assert text_of(unkept) == "Hello"
    error = check_error(client.get(f"{RESPONSES}/resp_1").data, 500)
    assert "cannot use the file" in error["message"]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.slow
def test_a_restart_keeps_it_and_two_workers_share_it(tmp_path: Path, stack: ExitStack) -> None:
    """Each worker has each response, and so has the next process."""
    flags = ("--workers", "2", "--store", str(tmp_path / "kept.db"))
    scripts = [reply(False, str(number)) for number in range(12)]
    with serving(*scripts) as server:
        with ExitStack() as first:
            proxy = start(server.url, *flags, folder=tmp_path / "first", stack=first)
            ids = [_asked(proxy.url).id for _ in range(8)]
            workers = {proxy.health()["worker"] for _ in range(60)}
            assert len(workers) == 2
            for id_ in ids:
                assert {_texts(proxy.url, id_) for _ in range(6)} == {_texts(proxy.url, id_)}
        proxy = start(server.url, *flags, folder=tmp_path / "second", stack=stack)
        assert [_texts(proxy.url, id_) for id_ in ids] == [str(number) for number in range(8)]
        goes_on = _asked(proxy.url, previous_response_id=ids[0])
        assert goes_on.previous_response_id == ids[0]
        contents = [message["content"] for message in server.seen[-1].json["messages"]]
        assert contents == ["Hi", "0", "Hi"]


def _client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, _strict_response_validation=True)


def _asked(url: str, **more: Any) -> Any:
    with _client(url) as client:
        return client.responses.create(model="tiny", input="Hi", **more)


def _texts(url: str, id_: str) -> str:
    with _client(url) as client:
        given = client.responses.input_items.list(id_)
        assert [json.loads(item.model_dump_json())["role"] for item in given.data] == ["user"]
        return client.responses.retrieve(id_).output_text
