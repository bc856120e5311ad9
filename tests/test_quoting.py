"""A model server that quotes the key that it does not like: no part of it reaches the client, the log or a capture."""

from __future__ import annotations

import gzip
import json
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from proxy.redact import Redactor, redact
from tests.conftest import Inside
from tests.helpers import random_cut
from tests.messages_ask import ask
from tests.scripted import (
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    event,
    head,
    text,
)

KEY = "Key-0123456789-abcdefghijklmnopqrstuvwxyz"
# No part of so many characters may be anywhere.
PART = 8
HEADERS = {"Authorization": f"Bearer {KEY}"}
JSON = {"Content-Type": "application/json"}
PLAIN = {"Content-Type": "text/plain"}


def parts_of(key: str) -> Iterator[str]:
    for at in range(len(key) - PART + 1):
        yield key[at : at + PART]


def quotes(where: str) -> bool:
    """True if a part of the key is there."""
    return any(part in where for part in parts_of(KEY))


def error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": f"bad key {KEY}", "code": 401}}).encode()


def in_two(data: bytes, status: int = 401, headers: dict[str, str] | None = None) -> list[Any]:
    """An answer that comes in pieces, each of them cut in the middle of a key."""
    pieces, at = [], 0
    while (found := data.find(KEY.encode(), at)) >= 0:
        middle = found + len(KEY) // 2
        pieces.append(data[at:middle])
        at = middle
    pieces.append(data[at:])
    named = {**JSON, **(headers or {}), "Content-Length": str(len(data))}
    return [head(status, named), *[each for piece in pieces for each in (piece, 0.02)][:-1]]


LONG = error("x" * 65_520 + f" {KEY} " + "y" * 30_000 + f" {KEY}")
ESCAPED = error(KEY).replace(KEY.encode(), "".join(f"\\u{ord(letter):04x}" for letter in KEY).encode())
ERRORS: dict[str, list[Any]] = {
    "JSON": [answer(error(f"no key {KEY}!"), 401)],
    "JSON in two": in_two(error(f"no key {KEY}!")),
    "JSON in escapes": [answer(ESCAPED, 401)],
    "a string": [answer({"error": f"no key {KEY}!"}, 401)],
    "a string that is cut": [answer({"error": "x" * 285 + KEY}, 401)],
    "a detail that is cut": [answer({"detail": [{"loc": ["x" * 280], "msg": KEY}]}, 422)],
    "flat": [answer({"message": f"no key {KEY}!", "object": "error"}, 401)],
    "words": [answer(f"no key {KEY}!".encode(), 403, PLAIN)],
    "words that are cut": [answer(b"x" * 280 + KEY.encode(), 403, PLAIN)],
    "long": [answer(LONG, 401)],
    "long, in two": in_two(LONG),
    "long words": in_two(b"x" * 65_520 + KEY.encode() + b"y" * 99, headers=PLAIN),
    "without a length": [head(400, JSON) + error(f"no key {KEY[:20]}"[:-20]), KEY.encode() + b"!", Act.CLOSE],
    "compressed": [answer(gzip.compress(error(KEY)), 401, {"Content-Encoding": "gzip"})],
    "a header": [answer(error("no"), 401, {"X-Request-Id": f"r-{KEY}", "Retry-After": KEY})],
    "500": [answer(error(KEY), 500)],
    "cut off": [head(500, {**JSON, "Content-Length": "999"}) + error(KEY), Act.CLOSE],
}
PATHS = {
    "chat": ("/v1/chat/completions", chat(stream=False)),
    "chat, streamed": ("/v1/chat/completions", chat(tools=[])),
    "messages": ("/v1/messages", ask()),
    "messages, streamed": ("/v1/messages", ask(stream=True)),
    "count": ("/v1/messages/count_tokens", ask()),
    "passed": ("/v1/embeddings", {"input": "a"}),
    "models": ("/v1/models", None),
}


@dataclass
class Case:
    """A proxy whose log and captures are looked at."""

    inside: Inside
    log: pytest.LogCaptureFixture
    folder: Path

    def ask(self, script: list[Any], path: str, body: Any, *, observe: bool = False) -> TestResponse:
        """The answer to a request with the key, if nothing of that is anywhere."""
        with Upstream(*[script] * 4) as server:
            if body is not None:
                server.paths["/v1/models"] = [answer({"data": []})]
            client = self.inside(server.url, capture=str(self.folder), verbose=True, observe=observe)
            method = "GET" if body is None else "POST"
            response = client.open(path, method=method, json=body, headers=HEADERS)
            assert server.seen and server.seen[0].headers["Authorization"] == f"Bearer {KEY}"
        assert not quotes(response.get_data(as_text=True)) and not quotes(str(response.headers))
        assert not quotes(self.log.text)
        for file in self.folder.iterdir():
            assert not quotes(file.read_bytes().decode("utf-8", "replace"))
        return response


@pytest.fixture
def case(inside: Inside, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Case:
    """The same."""
    caplog.set_level(logging.DEBUG)
    return Case(inside, caplog, tmp_path)


@pytest.mark.parametrize("observe", [False, True], ids=["", "observe"])
@pytest.mark.parametrize("script", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("way", PATHS.values(), ids=PATHS)
def test_no_part_of_it_gets_out(case: Case, way: tuple[str, Any], script: list[Any], observe: bool) -> None:
    path, body = way
    response = case.ask(script, path, body, observe=observe)
    assert response.status_code >= 400 or path.endswith("count_tokens")


FAILED = error(f"no key {KEY}!")
STREAMS: dict[str, list[Any]] = {
    "first": [SSE, chunked(event(json.loads(FAILED))), LAST],
    "later": [SSE, chunked(ROLE + text("So. ")), chunked(event(json.loads(FAILED))), LAST],
    "in two": [
        *(SSE, chunked(ROLE + text("So. "))),
        *(chunked(b"data: " + FAILED[: FAILED.index(KEY.encode()) + 20]), 0.02),
        *(chunked(FAILED[FAILED.index(KEY.encode()) + 20 :] + b"\n\n"), LAST),
    ],
    "in escapes": [SSE, chunked(ROLE + text("So. ")), chunked(b"data: " + ESCAPED + b"\n\n"), LAST],
}


@pytest.mark.parametrize("script", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("observe", [False, True], ids=["", "observe"])
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
def test_no_part_of_it_gets_out_of_a_stream(
    case: Case, path: str, script: list[Any], observe: bool, tools: bool
) -> None:
    body = chat(**({"tools": [WRITE_FILE]} if tools else {})) if path.endswith("completions") else ask(stream=True)
    assert b"error" in case.ask(script, path, body, observe=observe).data


def test_a_key_in_a_fact_that_is_too_long_is_not_cut_in_two(inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for size in (470, 490, 495):
        inside("http://127.0.0.1:1").get("/" + "x" * size + KEY, headers=HEADERS)
    assert "xxx" in caplog.text and not quotes(caplog.text)


SHAPES: dict[str, Callable[[random.Random], bytes]] = {
    "the key": lambda rng: KEY.encode(),
    "a shape": lambda rng: b"sk-" + b"abcDEF0123456789" * rng.randint(1, 4),
    "nothing": lambda rng: b"",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_comes_in_parts_is_cleaned_as_if_it_came_at_once(shape: Callable[[random.Random], bytes]) -> None:
    rng = random.Random(7)
    for _ in range(20):
        data = b"".join(b"word " * rng.randint(0, 8000) + shape(rng) + b" " for _ in range(8))
        redactor = Redactor((KEY,))
        found = b"".join(map(redactor.feed, random_cut(data, rng))) + redactor.finish()
        assert found == redact(data, (KEY,)) and len(found) == len(data)


def test_what_waits_of_parts_is_bounded() -> None:
    redactor, given = Redactor((KEY,)), 0
    for _ in range(300):
        given += len(redactor.feed(b"x" * 10_000))
    assert given > 3_000_000 - 100_000
    endless = Redactor((KEY,))
    given = sum(len(endless.feed(b"sk-" + b"a" * 100_000 if not n else b"a" * 100_000)) for n in range(40))
    assert given > 2_000_000


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
@pytest.mark.parametrize("named", [KEY, f"x-{KEY}", f"Bearer {KEY}"])
def test_a_key_in_the_place_of_a_model_is_no_label(inside: Inside, path: str, listed: bool, named: str) -> None:
    """Some servers take every name."""
    done = [answer(completion("a"))]
    with Upstream(done, done) as server:
        models = [{"id": "tiny", "object": "model", "owned_by": "llamacpp"}] if listed else []
        server.paths["/v1/models"] = [answer({"data": models})]
        client = inside(server.url)
        for model in (named, "tiny"):
            body = chat(stream=False, model=model) if path.endswith("completions") else ask(model=model)
            assert client.post(path, json=body, headers=HEADERS).status_code == 200
        text = client.get("/metrics", headers={"Host": "localhost"}).get_data(as_text=True)
    assert not quotes(text)
    assert 'model="other",status="200"} 1.0' in text and 'model="tiny",status="200"} 1.0' in text


def test_a_name_that_only_a_client_knows_is_no_label(inside: Inside) -> None:
    done = [answer(completion("a"))]
    with Upstream(done, done) as server:
        server.paths["/v1/models"] = [answer({"data": [{"id": "tiny"}]})]
        client = inside(server.url)
        for model in ("another-tenants-key-1234", "tiny"):
            assert client.post("/v1/chat/completions", json=chat(stream=False, model=model)).status_code == 200
        text = client.get("/metrics", headers={"Host": "localhost"}).get_data(as_text=True)
        assert server.asked == ["/v1/models"]
    assert "tenant" not in text and 'model="tiny"' in text


def test_the_admins_key_does_not_go_up_with_a_scrape(inside: Inside) -> None:
    with Upstream() as server:
        server.play([answer({"data": [{"id": "tiny"}]})])
        inside(server.url).get("/metrics", headers={"Host": "localhost", **HEADERS})
        assert [seen.path for seen in server.seen] == ["/v1/models"]
        assert "Authorization" not in server.seen[0].headers
