"""`background: true` with `--store`: begun, asked for, cancelled, deleted; and what becomes of it if it cannot end."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest
from flask.testing import FlaskClient

from proxy.codec.json_text import JsonObject
from proxy.config.api_keys import ClientKey, Keys
from proxy.web import background
from proxy.worker import response_store
from proxy.worker.response_store import ResponseStore
from tests.conftest import Inside, start
from tests.support.messages_client import MODELS, cards, reply, serving
from tests.support.responses_checker import check_error, check_fields, check_response, check_stream, text_of
from tests.support.responses_client import RESPONSES, ask
from tests.support.scripted import PATIENCE, Act, Script, Upstream, answer

pytestmark = pytest.mark.once

Keeping = Callable[..., FlaskClient]


@pytest.fixture
def keeping(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeping]:
    """The application, which keeps responses and looks often whether they are still wanted."""
    monkeypatch.setattr(background, "BEAT", 0.02)
    yield lambda url, *more, **settings: inside(url, *more, store=str(tmp_path / "kept.db"), **settings)
    ended()


def ended() -> None:
    """Wait for all that is being made."""
    for thread in threading.enumerate():
        if thread.name == "background-response":
            thread.join(PATIENCE)
            assert not thread.is_alive()


def begun(client: FlaskClient, given: object = "Hi", **more: Any) -> str:
    """The path of a response that was begun in the background."""
    headers = more.pop("headers", {})
    response = client.post(RESPONSES, json=ask(given, stream=False, background=True, **more), headers=headers)
    assert response.status_code == 200, response.data
    made = response.json
    assert made is not None
    check_fields(made)
    assert (made["status"], made["output"], made["background"], made["store"]) == ("queued", [], True, True)
    return f"{RESPONSES}/{made['id']}"


def told(client: FlaskClient, path: str) -> dict[str, Any]:
    made = client.get(path).json
    assert made is not None
    check_fields(made)
    return dict(made)


def held(upstream: Upstream) -> Any:
    """A script that waits, and then answers."""
    gate = upstream.gate()
    upstream.play([gate, *reply(False, "Hello")])
    upstream.paths[MODELS] = cards("tiny")
    return gate


def test_it_is_begun_and_asked_for_until_it_has_ended(keeping: Keeping) -> None:
    with serving() as server:
        gate = held(server)
        client = keeping(server.url)
        path = begun(client)
        gate.wait()
        made = told(client, path)
        assert (made["status"], made["output"], made["background"]) == ("in_progress", [], True)
        gate.open()
        ended()
        made = check_response(client.get(path).data)
        assert (made["status"], text_of(made), made["background"]) == ("completed", "Hello", True)
        assert f"{RESPONSES}/{made['id']}" == path
        assert server.seen[0].json["messages"] == [{"role": "user", "content": "Hi"}]
        assert client.post(f"{path}/cancel").json == made
        items: Any = client.get(f"{path}/input_items").json
        assert [item["content"] for item in items["data"]] == [[{"type": "input_text", "text": "Hi"}]]


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_what_is_wanted_no_more_is_broken_off(keeping: Keeping, how: str) -> None:
    with serving() as server:
        gate = held(server)
        client = keeping(server.url)
        path = begun(client)
        gate.wait()
        if how == "cancel":
            made: Any = client.post(f"{path}/cancel").json
            assert made["status"] == "cancelled"
        else:
            assert client.delete(path).status_code == 200
        ended()
        gate.open()
        assert server.seen[0].closed.wait(PATIENCE)
        last = client.get(path)
        if how == "cancel":
            assert last.json == made
        else:
            assert last.status_code == 404


FAILURES: dict[str, tuple[Script, str, str]] = {
    "refused": ([answer({"error": {"message": "no", "type": "x", "code": 400}}, 400)], "invalid_prompt", "no"),
    "broken off": ([Act.RST], "server_error", "the connection to the model server"),
    "no room": ([answer({"error": {"message": "wait", "type": "x", "code": 429}}, 429)], "rate_limit_exceeded", "wait"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_cannot_end_has_failed_and_says_why(keeping: Keeping, name: str) -> None:
    script, code, words = FAILURES[name]
    with serving(script) as server:
        client = keeping(server.url)
        path = begun(client)
        ended()
        made = told(client, path)
    assert (made["status"], made["error"]["code"]) == ("failed", code)
    assert made["error"]["message"].startswith(words)


def test_an_incomplete_one_is_told_as_it_is(keeping: Keeping) -> None:
    with serving(reply(False, "Hel", end="length")) as server:
        client = keeping(server.url)
        path = begun(client)
        ended()
        made = check_response(client.get(path).data)
    assert (made["status"], text_of(made)) == ("incomplete", "Hel")


def test_a_request_that_cannot_be_is_refused_at_once(keeping: Keeping) -> None:
    with serving() as server:
        client = keeping(server.url)
        response = client.post(RESPONSES, json=ask(stream=False, background=True, max_output_tokens=0))
        assert check_error(response.data, 400)["message"].startswith("max_output_tokens: must be")
        unkept = client.post(RESPONSES, json=ask(stream=False, background=True, store=False))
        assert check_error(unkept.data, 400)["message"].startswith("background: needs `store: true`")
        assert server.seen == []


@pytest.mark.parametrize("by", ["previous_response_id", "conversation"])
def test_nothing_goes_on_from_what_has_not_ended(keeping: Keeping, by: str) -> None:
    with serving() as server:
        gate = held(server)
        client = keeping(server.url)
        path = begun(client, conversation="c")
        gate.wait()
        value = "c" if by == "conversation" else path.removeprefix(f"{RESPONSES}/")
        error = check_error(client.post(RESPONSES, json=ask(stream=False, **{by: value})).data, 400)
        assert error["message"].startswith(f"{by}: the response 'resp_") and "has not ended" in error["message"]
        gate.open()


def test_a_key_that_may_have_one_request_under_way_has_it(keeping: Keeping) -> None:
    """It counts for the key while it is made, and the client's own request no more."""
    keys = Keys((ClientKey("one", hashlib.sha256(b"key").digest(), requests_per_minute=2, streams=1),))
    headers = {"Authorization": "Bearer key"}
    with serving() as server:
        gate = held(server)
        client = keeping(server.url, "", keys)
        path = begun(client, headers=headers)
        gate.wait()
        more = client.post(RESPONSES, json=ask(stream=False), headers=headers)
        assert check_error(more.data, 429)["code"] == "rate_limit_exceeded"
        gate.open()
        ended()
        assert client.get(path, headers=headers).status_code == 429  # two requests in this minute, and not three


def test_a_stream_streams_and_is_kept(keeping: Keeping) -> None:
    with serving(reply(True, "Hello")) as server:
        client = keeping(server.url)
        made = check_stream(client.post(RESPONSES, json=ask(background=True)).data)
        assert (made["status"], made["background"]) == ("completed", True)
        assert client.get(f"{RESPONSES}/{made['id']}").json == made


def test_without_a_store_it_is_refused_in_words(inside: Inside) -> None:
    with serving() as server:
        response = inside(server.url).post(RESPONSES, json=ask(stream=False, background=True))
    assert check_error(response.data, 400)["message"].startswith("background: this server keeps no responses")


def test_what_nobody_makes_any_more_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy was killed: its last beat is long ago."""
    store = ResponseStore(str(tmp_path / "kept.db"), "a", 10, 86400.0, 2**30)
    response: JsonObject = {"id": "resp_1", "status": "queued", "error": None}
    store.begin(response, [], "")
    assert store.response("resp_1") == response
    assert store.beat("resp_1") is True
    monkeypatch.setattr(response_store, "LOST_AFTER", -1.0)
    lost: Any = store.response("resp_1")
    assert lost["status"] == "failed"
    assert lost["error"]["message"] == "the proxy that made this response ended before the response did; ask again"


def test_another_key_neither_sees_nor_ends_it(tmp_path: Path) -> None:
    path = str(tmp_path / "kept.db")
    mine, other = (ResponseStore(path, owner, 10, 86400.0, 2**30) for owner in "ab")
    response: JsonObject = {"id": "resp_1", "status": "queued"}
    mine.begin(response, [], "")
    assert (other.response("resp_1"), other.cancel("resp_1"), other.delete("resp_1")) == (None, None, False)
    assert other.beat("resp_1") is False
    other.change({**response, "status": "in_progress"})
    other.end({**response, "status": "completed"}, [], "")
    assert mine.response("resp_1") == response


def test_what_was_cancelled_stays_so(tmp_path: Path) -> None:
    store = ResponseStore(str(tmp_path / "kept.db"), "a", 10, 86400.0, 2**30)
    response: JsonObject = {"id": "resp_1", "status": "queued", "error": None}
    store.begin(response, [], "")
    store.change({**response, "status": "in_progress"})
    cancelled = store.cancel("resp_1")
    assert cancelled == {**response, "status": "cancelled"}
    store.change({**response, "status": "in_progress"})
    store.end({**response, "status": "completed"}, [], "")
    assert store.beat("resp_1") is False
    assert store.response("resp_1") == store.cancel("resp_1") == cancelled


@pytest.mark.slow
def test_whichever_worker_is_asked_ends_it(tmp_path: Path) -> None:
    """And a worker that is to end does so, with what it makes."""
    with ExitStack() as stack, serving() as server:
        gate = held(server)
        flags = ("--workers", "2", "--store", str(tmp_path / "kept.db"))
        proxy = start(server.url, *flags, folder=tmp_path / "proxy", stack=stack)
        with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
            made = client.responses.create(model="tiny", input="Hi", background=True)
            assert made.status == "queued"
            gate.wait()
            assert {client.responses.retrieve(made.id).status for _ in range(20)} == {"in_progress"}
            assert client.responses.cancel(made.id).status == "cancelled"
            assert server.seen[0].closed.wait(PATIENCE)
            assert {client.responses.retrieve(made.id).status for _ in range(20)} == {"cancelled"}
        gate.open()


def test_what_is_made_ends_with_its_worker_and_the_next_one_tells(tmp_path: Path) -> None:
    flags = ("--store", str(tmp_path / "kept.db"))
    with ExitStack() as stack, serving() as server:
        gate = held(server)
        with ExitStack() as first:
            proxy = start(server.url, *flags, folder=tmp_path / "first", stack=first)
            with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
                made = client.responses.create(model="tiny", input="Hi", background=True)
            gate.wait()
        gate.open()
        proxy = start(server.url, *flags, folder=tmp_path / "second", stack=stack)
        with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
            last = client.responses.retrieve(made.id)
    assert (last.status, last.error and last.error.code) == ("failed", "server_is_overloaded")
