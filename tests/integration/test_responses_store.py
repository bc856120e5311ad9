"""Stored responses, from the client to the file and back: continuing, reading and deleting them, and their owners."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest
from flask.testing import FlaskClient

from proxy.config.api_keys import ClientKey, Keys, digest_of
from proxy.dialects.responses.kept import ADVICE
from proxy.server import shared_file
from proxy.server.shared_file import FILE_NAME
from tests.conftest import Inside, start
from tests.support.messages_client import HERMES, reply, serving
from tests.support.responses_checker import calls_of, check_error, text_of
from tests.support.responses_client import RESPONSES, TOOL, ask, response_of
from tests.support.scripted import Upstream

pytestmark = pytest.mark.once

MODES = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
Keeping = Callable[[str], FlaskClient]


@pytest.fixture
def keeping(inside: Inside, tmp_path: Path) -> Keeping:
    return lambda url: inside(url, runtime=tmp_path)


def sent_messages(server: Upstream, number: int) -> Any:
    return server.seen[number].json["messages"]


@MODES
def test_a_conversation_continues_from_a_stored_response(keeping: Keeping, streamed: bool) -> None:
    """The model server receives the whole conversation: the second request starts with the first one's bytes (C8)."""
    with serving(reply(streamed, f"I run it.{HERMES}"), reply(streamed, "Done")) as server:
        client = keeping(server.url)
        first = response_of(client.post(RESPONSES, json=ask(stream=streamed, tools=[TOOL])))
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "written"}
        goes_on = {"previous_response_id": first["id"]}
        second = response_of(client.post(RESPONSES, json=ask([output], stream=streamed, tools=[TOOL], **goes_on)))
        assert sent_messages(server, 1)[: len(sent_messages(server, 0))] == sent_messages(server, 0)
        assert [message["role"] for message in sent_messages(server, 1)] == ["user", "assistant", "tool"]
        assert sent_messages(server, 1)[1]["content"] == "I run it."
    assert (text_of(second), second["store"]) == ("Done", True)
    assert second["previous_response_id"] == goes_on.get("previous_response_id")
    assert calls_of(first)


@MODES
def test_a_stored_response_can_be_read_until_it_is_deleted(keeping: Keeping, streamed: bool) -> None:
    with serving(reply(streamed, "Hello")) as server:
        client = keeping(server.url)
        made = response_of(client.post(RESPONSES, json=ask("Hi", stream=streamed)))
    path = f"{RESPONSES}/{made['id']}"
    assert made["background"] is False
    assert client.get(path).json == made
    assert "comes whole" in check_error(client.get(f"{path}?stream=true").data, 400)["message"]
    assert client.delete(path).json == {"id": made["id"], "object": "response", "deleted": True}
    for method in ("GET", "DELETE"):
        response = client.open(path, method=method)
        assert response.status_code == 404
        assert check_error(response.data, 404)["message"] == f"there is no response {made['id']!r}: {ADVICE}"


def test_a_response_is_not_stored_with_store_false(keeping: Keeping, tmp_path: Path) -> None:
    """The file is not even created: requests that do not need it do not touch it."""
    with serving(reply(True, "Hello")) as server:
        client = keeping(server.url)
        made = response_of(client.post(RESPONSES, json=ask("Hi", store=False)))
    assert made["store"] is False and [*tmp_path.iterdir()] == []
    assert client.get(f"{RESPONSES}/{made['id']}").status_code == 404


def test_nothing_is_stored_if_the_setting_is_off(inside: Inside, tmp_path: Path) -> None:
    with serving(reply(True, "Hello")) as server:
        client = inside(server.url, runtime=tmp_path, store="off")
        made = response_of(client.post(RESPONSES, json=ask("Hi")))
        refused = client.post(RESPONSES, json=ask(previous_response_id=made["id"]))
    assert made["store"] is False and [*tmp_path.iterdir()] == []
    for answer in (client.get(f"{RESPONSES}/{made['id']}"), refused):
        assert "this server keeps no responses" in check_error(answer.data, 400)["message"]


@MODES
def test_every_item_of_earlier_turns_can_be_a_reference(keeping: Keeping, streamed: bool) -> None:
    """The Vercel AI SDK sends references by default (6.0: for messages, while calls are sent in full)."""
    with serving(reply(streamed, f"I run it.{HERMES}"), reply(streamed, "Done"), reply(streamed, "Bye")) as server:
        client = keeping(server.url)
        given: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]
        for answer in ("written", None):
            made = response_of(client.post(RESPONSES, json=ask(given, stream=streamed, tools=[TOOL])))
            given += [{"type": "item_reference", "id": item["id"]} for item in made["output"]]
            given += [
                {"type": "function_call_output", "call_id": item["call_id"], "output": answer}
                for item in made["output"]
                if item["type"] == "function_call"
            ]
        given.append({"role": "user", "content": [{"type": "input_text", "text": "Thanks"}]})
        response_of(client.post(RESPONSES, json=ask(given, stream=streamed, tools=[TOOL])))
        messages = sent_messages(server, 2)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[1]["tool_calls"][0]["function"]["name"] == "write_file" and messages[3]["content"] == "Done"


@MODES
def test_a_large_response_is_not_stored(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture, streamed: bool
) -> None:
    monkeypatch.setattr(shared_file, "STORE_BYTES", 2**20)
    with serving(reply(streamed, "Hello")) as server:
        client = keeping(server.url)
        made = response_of(client.post(RESPONSES, json=ask("Hi " * 400_000, stream=streamed)))
    assert (text_of(made), made["store"]) == ("Hello", False)
    assert "a response is not kept" in logged.text
    assert client.get(f"{RESPONSES}/{made['id']}").status_code == 404


@pytest.mark.parametrize("fields", [{"background": True}, {"conversation": "conv_1"}, {"conversation": {"id": "c"}}])
def test_other_state_is_rejected_even_with_a_store(keeping: Keeping, fields: dict[str, Any]) -> None:
    (name,) = fields
    with serving() as server:
        response = keeping(server.url).post(RESPONSES, json=ask(**fields))
        assert server.seen == []
    error = check_error(response.data, 400)
    assert error["param"] == name and error["message"].startswith(f"{name}: this server ")


def test_a_missing_response_returns_its_error_code(keeping: Keeping) -> None:
    with serving() as server:
        response = keeping(server.url).post(RESPONSES, json=ask(previous_response_id="resp_0"))
        assert server.seen == []
    error = check_error(response.data, 404)
    assert (response.status_code, error["code"]) == (404, "previous_response_not_found")
    assert error["message"] == f"previous_response_id: 'resp_0' is not kept here: {ADVICE}"


def test_a_key_cannot_read_responses_of_another_key(inside: Inside, tmp_path: Path) -> None:
    """This holds for keys that the proxy knows and for unknown keys that clients send."""
    keys = Keys(tuple(ClientKey(name, digest_of(f"key-of-{name}".encode())) for name in ("alice", "bob")))
    for known in (keys, None):
        with serving(reply(False, "Secret")) as server:
            client = inside(server.url, "", known, runtime=tmp_path)
            alice, bob = ({"Authorization": f"Bearer key-of-{name}"} for name in ("alice", "bob"))
            made = response_of(client.post(RESPONSES, json=ask(stream=False), headers=alice))
            path = f"{RESPONSES}/{made['id']}"
            assert client.get(path, headers=alice).status_code == 200
            statuses = [client.get(path, headers=bob).status_code, client.delete(path, headers=bob).status_code]
            reference = {"type": "item_reference", "id": made["output"][0]["id"]}
            for body in (ask(previous_response_id=made["id"]), ask([reference])):
                statuses.append(client.post(RESPONSES, json=body, headers=bob).status_code)
            assert (statuses, len(server.seen)) == ([404] * 4, 1)
            assert client.get(path, headers=alice).json == made


@MODES
def test_an_unusable_file_is_an_error_with_a_reason(inside: Inside, tmp_path: Path, streamed: bool) -> None:
    """The reply is complete and says that it is not stored. Requests that need the file fail."""
    with serving(reply(streamed, "Hello")) as server:
        client = inside(server.url, runtime=tmp_path / "nowhere")
        made = response_of(client.post(RESPONSES, json=ask(stream=streamed, store=True)))
        assert (text_of(made), made["status"], made["store"]) == ("Hello", "completed", False)
        goes_on = client.post(RESPONSES, json=ask(stream=streamed, previous_response_id=made["id"]))
        assert len(server.seen) == 1
    for answer in (client.get(f"{RESPONSES}/resp_1"), client.delete(f"{RESPONSES}/resp_1"), goes_on):
        words = check_error(answer.data, 503)["message"]
        assert "the file that the workers share cannot be used: no such file" in words
        assert str(tmp_path) not in words


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.slow
def test_workers_share_what_survives_a_restart(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every worker has every response, and so has the next process while the runtime directory exists."""
    runtime = tmp_path / "run"
    runtime.mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(runtime))
    flags = ("--workers", "2")
    scripts = [reply(False, str(number)) for number in range(12)]
    with serving(*scripts) as server:
        with ExitStack() as first:
            proxy = start(server.url, *flags, folder=tmp_path / "first", stack=first)
            ids = [_create(proxy.url).id for _ in range(8)]
            proxy.logged(f"responses are kept for a day in {runtime / FILE_NAME}; store: off turns it off")
            workers = {proxy.health()["worker"] for _ in range(60)}
            assert len(workers) == 2
            for id_ in ids:
                assert {_texts(proxy.url, id_) for _ in range(6)} == {_texts(proxy.url, id_)}
        proxy = start(server.url, *flags, folder=tmp_path / "second", stack=stack)
        assert [_texts(proxy.url, id_) for id_ in ids] == [str(number) for number in range(8)]
        goes_on = _create(proxy.url, previous_response_id=ids[0])
        assert goes_on.previous_response_id == ids[0]
        contents = [message["content"] for message in server.seen[-1].json["messages"]]
        assert contents == ["Hi", "0", "Hi"]
    kept = [path for path in runtime.iterdir() if path.name.startswith(FILE_NAME)]
    assert kept and {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


@pytest.mark.slow
def test_a_new_worker_finds_stored_responses(tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes the successor of a killed worker."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with serving(reply(False, "Hello")) as server:
        proxy = start(server.url, folder=tmp_path / "proxy", stack=stack)
        id_ = _create(proxy.url).id
        worker = proxy.health()["worker"]
        os.kill(worker, signal.SIGKILL)
        proxy.workers(but=(worker,), count=1)
        assert _texts(proxy.url, id_) == "Hello"


def _client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, _strict_response_validation=True)


def _create(url: str, **more: Any) -> Any:
    with _client(url) as client:
        return client.responses.create(model="tiny", input="Hi", **more)


def _texts(url: str, id_: str) -> str:
    with _client(url) as client:
        return client.responses.retrieve(id_).output_text
