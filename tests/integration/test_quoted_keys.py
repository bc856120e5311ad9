"""A model server that quotes the key that it does not like: no part of it reaches the client, the log or a capture.

What the model itself writes reaches the client as it is: a key may be a placeholder that stands in the code it edits.
"""

from __future__ import annotations

import gzip
import html
import json
import logging
import random
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from werkzeug.test import TestResponse

from proxy.codec.redaction import Redactor, redact
from proxy.config.api_keys import Keys
from proxy.config.settings import Settings
from proxy.web.app import make_app
from proxy.worker.logging_setup import JsonLines, TextLines
from tests.conftest import Inside, Start
from tests.support.helpers import random_cut
from tests.support.messages_ask import ask
from tests.support.scripted import (
    DONE,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Upstream,
    answer,
    arguments,
    chat,
    chunked,
    completion,
    delta,
    event,
    finish,
    head,
    opened,
    text,
)
from tests.support.worker_state import make_state, read_rules

# Eight characters in a row are never hexadecimal digits alone: a request's random id cannot hold them.
KEY = "Key-01234x56789-abcdefghijklmnopqrstuvwxyz"
# No part of so many characters may be anywhere.
PART = 8
HEADERS = {"Authorization": f"Bearer {KEY}"}
JSON = {"Content-Type": "application/json"}
PLAIN = {"Content-Type": "text/plain"}


def parts_of(key: str) -> Iterator[str]:
    for at in range(len(key) - PART + 1):
        yield key[at : at + PART]


def quotes(where: str, key: str = KEY) -> bool:
    """True if a part of the key is there, plain or in escapes."""
    plain = re.sub(r"\\+(?:u00|x)([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), where)
    texts = (plain, where, html.unescape(where), unquote(where))
    return any(part in text for part in parts_of(key) for text in texts)


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
    return [head(status, named), *[each for piece in pieces for each in (piece, 0.004)][:-1]]


def escaped(key: str, every: int = 1, form: str = "\\u{:04x}") -> str:
    """The key with each so-many-th of its characters as an escape, of JSON if nothing else is said."""
    return "".join(form.format(ord(letter)) if not at % every else letter for at, letter in enumerate(key))


LONG = error("x" * 65_520 + f" {KEY} " + "y" * 30_000 + f" {KEY}")
ESCAPED = error(KEY).replace(KEY.encode(), "".join(f"\\u{ord(letter):04x}" for letter in KEY).encode())
ERRORS: dict[str, list[Any]] = {
    "JSON": [answer(error(f"no key {KEY}!"), 401)],
    "JSON in two": in_two(error(f"no key {KEY}!")),
    "JSON in escapes": [answer(ESCAPED, 401)],
    "in a page": [answer(f"<p>no key {escaped(KEY, 1, '&#{};')}</p>".encode(), 403, {"Content-Type": "text/html"})],
    "in a link": [answer(error(f"no key {escaped(KEY, 1, '%{:02X}')}").replace(f"bad key {KEY}".encode(), b"x"), 401)],
    "as Python": [answer({"detail": f"no key {escaped(KEY, 2, chr(92) + 'x{:02x}')}"}, 401)],
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


def without_ids(data: bytes) -> bytes:
    """A body without the ids that the proxy makes at random."""
    return re.sub(rb"(call|msg|toolu)_[0-9a-f]{24}", b"ID", data)


@dataclass
class Case:
    """A proxy whose log and captures are looked at."""

    inside: Inside
    log: pytest.LogCaptureFixture
    folder: Path

    def ask(self, script: list[Any], path: str, body: Any) -> TestResponse:
        """The answer to a request with the key, if nothing of that is anywhere."""
        response = self._ask(script, path, body)
        assert not quotes(response.get_data(as_text=True))
        return response

    def ask_model(self, script: list[Any], path: str, body: Any) -> TestResponse:
        """The answer to a request with the key, if nothing of that is anywhere else, and if the body is the very one
        that a client without a key gets.
        """
        response = self._ask(script, path, body)
        with Upstream(script) as server:
            server.paths["/v1/models"] = [answer({"data": []})]
            plain = self.inside(server.url).post(path, json=body)
        assert response.status_code == plain.status_code == 200
        assert without_ids(response.data) == without_ids(plain.data)
        return response

    def _ask(self, script: list[Any], path: str, body: Any) -> TestResponse:
        with Upstream(*[script] * 4) as server:
            if body is not None:
                server.paths["/v1/models"] = [answer({"data": []})]
            client = self.inside(server.url, capture=str(self.folder))
            method = "GET" if body is None else "POST"
            response = client.open(path, method=method, json=body, headers=HEADERS)
            assert server.seen and server.seen[0].headers["Authorization"] == f"Bearer {KEY}"
        assert not quotes(str(response.headers))
        assert not quotes(self.log.text)
        for file in self.folder.iterdir():
            assert not quotes(file.read_bytes().decode("utf-8", "replace"))
        return response


@pytest.fixture
def case(inside: Inside, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Case:
    """The same."""
    caplog.set_level(logging.DEBUG)
    return Case(inside, caplog, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("script", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("way", PATHS.values(), ids=PATHS)
def test_no_part_of_it_gets_out(case: Case, way: tuple[str, Any], script: list[Any]) -> None:
    path, body = way
    response = case.ask(script, path, body)
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
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
def test_no_part_of_it_gets_out_of_a_stream(case: Case, path: str, script: list[Any], tools: bool) -> None:
    body = chat(**({"tools": [WRITE_FILE]} if tools else {})) if path.endswith("completions") else ask(stream=True)
    assert b"error" in case.ask(script, path, body).data


def test_a_key_in_a_fact_that_is_too_long_is_not_cut_in_two(inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for size in (470, 490, 495):
        inside("http://127.0.0.1:1").get("/" + "x" * size + KEY, headers=HEADERS)
    assert "xxx" in caplog.text and not quotes(caplog.text)


FORMS = {
    "plain": KEY,
    "the first": escaped(KEY, len(KEY)),
    "some": escaped(KEY, 3),
    "all": escaped(KEY),
    "upper case": escaped(KEY, 1, "\\u{:04X}"),
    "within JSON": escaped(KEY, 2, "\\\\u{:04x}"),
    "URL": escaped(KEY, 3, "%{:02x}"),
    "HTML": escaped(KEY, 3, "&#x{:02x};"),
}
EACH_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def cut(data: bytes, form: str, frame: Callable[[bytes], bytes] = bytes) -> list[Any]:
    """The pieces in which data comes: cut before, within and right behind what quotes the key."""
    at = data.index(form.encode())
    ends = [0, at, at + 1, at + len(form) // 2, at + len(form) - 1, at + len(form), len(data)]
    pieces = [frame(data[begin:end]) for begin, end in pairwise(ends)]
    return [each for piece in pieces for each in (piece, 0.004)][:-1]


def framed(data: bytes, form: str, way: str, content_type: str = "application/json") -> list[Any]:
    """An answer of status 200."""
    named = {"Content-Type": content_type, "X-Request-Id": f"r-{KEY}"}
    if way == "length":
        return [head(200, {**named, "Content-Length": str(len(data))}), *cut(data, form)]
    if way == "chunked":
        return [head(200, {**named, "Transfer-Encoding": "chunked"}), *cut(data, form, chunked), LAST]
    return [head(200, named), *cut(data, form), Act.CLOSE]


WAYS = pytest.mark.parametrize("way", ["length", "chunked", "close"])


PASSED_ERRORS = {
    "error": b'{"data": [], "error": "no key KEY!"}',
    "error as an object": b'{"error": {"message": "no key KEY!", "code": 401}}',
    "detail": b'{"detail": [{"loc": ["header"], "msg": "no key KEY!"}]}',
    "object": b'{"object": "error", "message": "no key KEY!"}',
    "type": b'{"type": "error", "message": "no key KEY!"}',
    "words": b"no key KEY!",
    "half an object": b'{"data": [], "note": "no key KEY!',
}
ERROR_BODIES = pytest.mark.parametrize("data", PASSED_ERRORS.values(), ids=PASSED_ERRORS)


@pytest.mark.slow
@EACH_FORM
@WAYS
@ERROR_BODIES
def test_no_part_of_it_gets_out_of_an_error_that_passes(case: Case, form: str, way: str, data: bytes) -> None:
    script = framed(with_key(data, form), form, way)
    response = case.ask(script, "/v1/embeddings", {"input": "a"})
    assert response.status_code == 200
    assert response.data == with_key(data, "*" * len(form))


PASSED_ANSWERS = {
    "an array": b'[{"text": "you are KEY"}]',
    "of a model": b'{"choices": [{"text": "you are KEY, I know"}], "error": null, "detail": null}',
    "long": b'{"text": "' + b"x" * 70_000 + b'KEY", "error": null}',
}


@pytest.mark.slow
@EACH_FORM
@WAYS
@pytest.mark.parametrize("data", PASSED_ANSWERS.values(), ids=PASSED_ANSWERS)
def test_an_answer_that_passes_is_the_model_s(case: Case, form: str, way: str, data: bytes) -> None:
    data = with_key(data, form)
    response = case.ask_model(framed(data, form, way), "/v1/completions", {"prompt": "a"})
    assert response.data == data


PASSED_EVENTS = {
    "a comment": b": you are KEY\n\n",
    "a comment beside a chunk": b': you are KEY\ndata: {"choices": []}\n\n',
    "error": b'data: {"error": {"message": "no key KEY!"}}\n\n',
    "detail": b'data: {"detail": "no key KEY!"}\n\n',
    "object": b'data: {"object": "error", "message": "no key KEY!"}\n\n',
    "type": b'data: {"type": "error", "message": "no key KEY!"}\n\n',
    "event": b'event: error\ndata: {"message": "no key KEY!"}\n\n',
    "a failure of Responses": b'data: {"type": "response.failed", "response": {"error": {"message": "KEY"}}}\n\n',
    "words": b"data: no key KEY!\n\n",
    "no data": b"id: KEY\n\n",
    "CRLF": b'data: {"error":\r\ndata: "no key KEY!"}\r\n\r\n',
}


@pytest.mark.slow
@EACH_FORM
@WAYS
@pytest.mark.parametrize("odd", PASSED_EVENTS.values(), ids=PASSED_EVENTS)
def test_no_part_of_it_gets_out_of_a_stream_that_passes(case: Case, form: str, way: str, odd: bytes) -> None:
    data = with_key(text("So. ") + odd + text("Yes.") + DONE, form)
    script = framed(data, form, way, "text/event-stream")
    response = case.ask(script, "/v1/completions", {"prompt": "a"})
    assert response.data == data.replace(form.encode(), b"*" * len(form))


PASSED_CHUNKS = {
    "completions": b'data: {"choices": [{"index": 0, "text": "KEY", "finish_reason": null}], "you": "KEY"}\n\n',
    "Responses": b"event: response.function_call_arguments.delta\n"
    b'data: {"type": "response.function_call_arguments.delta", "delta": "{\\"path\\": \\"KEY", "item_id": "a"}\n\n',
    "the end of Responses": b'data: {"type": "response.completed", "response": {"error": null, "output": ["KEY"]}}\n\n',
    "llama.cpp": b'data: {"content": "KEY", "stop": false}\r\n\r\n',
}


@pytest.mark.slow
@EACH_FORM
@WAYS
@pytest.mark.parametrize("said", PASSED_CHUNKS.values(), ids=PASSED_CHUNKS)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/rerank"])
def test_what_the_model_says_in_a_stream_that_passes_is_its_own(
    case: Case, path: str, form: str, way: str, said: bytes
) -> None:
    data = with_key(said * 2, form) + DONE
    script = framed(data, form, way, "text/event-stream")
    assert case.ask_model(script, path, {"prompt": "a", "stream": True}).data == data


@pytest.mark.parametrize("missing", [1, 5, 20])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions"])
def test_a_key_that_the_end_of_the_body_cuts_is_none(case: Case, path: str, missing: int) -> None:
    data = b'{"note": "you are ' + KEY.encode()
    script = [head(200, JSON), data[:-missing], Act.CLOSE]
    case.ask(script, path, {"input": "a"} if path.endswith("embeddings") else chat(stream=False))


ODD: dict[str, Callable[[str], bytes]] = {
    "a comment": lambda form: b": you are %b\n\n" % form.encode(),
    "an error that is no JSON": lambda form: b"event: error\ndata: no key %b!\n\n" % form.encode(),
    "an error": lambda form: with_key(event({"error": {"message": "no key KEY!"}}), form),
    "detail": lambda form: with_key(event({"detail": "no key KEY!"}), form),
    "an object": lambda form: with_key(event({"object": "error", "message": "no key KEY!"}), form),
}
SAID: dict[str, Callable[[str], bytes]] = {
    "the finish reason": lambda form: with_key(delta({"content": "!"}, "KEY"), form),
    "an unknown field": lambda form: with_key(delta({"content": "!"}, you="KEY"), form),
    "within the choice": lambda form: with_key(delta({"content": "!", "you": ["KEY"]}), form),
    "the text": lambda form: with_key(text("you are KEY!"), form),
    "the reasoning": lambda form: with_key(delta({"reasoning": "you are KEY!"}), form),
    "an argument": lambda form: with_key(
        opened(0, "c1", "write_file") + arguments(0, '{"path": "KEY", "content": "a"}') + finish("tool_calls"), form
    ),
}


def with_key(data: bytes, form: str) -> bytes:
    return data.replace(b"KEY", form.encode())


@pytest.mark.slow
@EACH_FORM
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_no_part_of_it_gets_out_of_any_event(case: Case, path: str, odd: Callable[[str], bytes], form: str) -> None:
    data = ROLE + text("So. ") + odd(form) + finish() + DONE
    script = [SSE, *cut(data, form, chunked), LAST]
    body = chat(tools=[WRITE_FILE]) if path.endswith("completions") else ask(stream=True)
    response = case.ask(script, path, body)
    assert response.status_code == 200 and b"So. " in response.data


@pytest.mark.slow
@EACH_FORM
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_what_the_model_says_in_any_event_is_its_own(
    case: Case, path: str, said: Callable[[str], bytes], form: str
) -> None:
    told = said(form)
    ending = b"" if b'"finish_reason": "' in told else finish()
    data = ROLE + text("So. ") + told + ending + DONE
    script = [SSE, *cut(data, form, chunked), LAST]
    body = chat(tools=[WRITE_FILE]) if path.endswith("completions") else ask(stream=True)
    response = case.ask_model(script, path, body)
    assert b"So. " in response.data and b"****" not in response.data
    if path.endswith("completions"):
        assert response.data.count(form.encode()) == data.count(form.encode())


@EACH_FORM
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_the_model_says_in_a_whole_answer_is_its_own(case: Case, path: str, form: str, stream: bool) -> None:
    data = with_key(json.dumps(completion("you are KEY!", note="KEY")).encode(), form)
    body = chat(stream=stream) if path.endswith("completions") else ask(stream=stream)
    script = [head(200, {**JSON, "X-Request-Id": f"r-{KEY}", "Content-Length": str(len(data))}), *cut(data, form)]
    response = case.ask_model(script, path, body)
    assert b"you are *" not in response.data and quotes(response.get_data(as_text=True).replace("\\\\", "\\"))


PLACEHOLDERS = ["lm-studio", "not-needed", "token-abc123", "sk-no-key-required"]
CODE = 'client = OpenAI(base_url=URL, api_key="%s")\n'


def arguments_of(path: str, response: TestResponse) -> str:
    """The arguments of the only call in a reply, whole or streamed."""
    if not response.content_type.startswith("text/event-stream"):
        body = json.loads(response.data)
        if path.endswith("completions"):
            return str(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
        return json.dumps(next(block["input"] for block in body["content"] if block["type"] == "tool_use"))
    found = ""
    for line in response.get_data(as_text=True).splitlines():
        if not line.startswith("data: {"):
            continue
        body = json.loads(line.removeprefix("data: "))
        for choice in body.get("choices", ()):
            for call in choice["delta"].get("tool_calls", ()):
                found += call["function"].get("arguments", "")
        if body.get("type") == "content_block_delta":
            found += body["delta"].get("partial_json", "")
    return found


@pytest.mark.parametrize("key", PLACEHOLDERS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_tool_call_writes_the_client_s_placeholder_key(inside: Inside, key: str, path: str, stream: bool) -> None:
    """A masked call would write stars into the file."""
    said = {"path": "client.py", "content": CODE % key}
    written = json.dumps(said)
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": written}}
    whole = completion({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")
    pieces = [arguments(0, written[at : at + 7]) for at in range(0, len(written), 7)]
    script = streamed(opened(0, "c1", "write_file"), *pieces, finish("tool_calls")) if stream else [answer(whole)]
    tool = {"name": "write_file", "input_schema": WRITE_FILE["function"]["parameters"]}
    body = chat(stream=stream, tools=[WRITE_FILE]) if path.endswith("completions") else ask(stream=stream, tools=[tool])
    with Upstream(script) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        client = inside(server.url)
        response = client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})
    assert json.loads(arguments_of(path, response)) == said
    if path.endswith("completions"):
        assert arguments_of(path, response) == written


def test_what_the_operator_s_key_is_no_error_tells_the_client(inside: Inside) -> None:
    errors: list[list[Any]] = [[answer(error(KEY))], [SSE, chunked(ROLE), chunked(event(json.loads(error(KEY)))), LAST]]
    said = json.dumps(completion(f"you are {KEY}")).encode()
    with Upstream(*errors, [answer(said)]) as server:
        app = make_app(make_state(Settings(upstream=server.url), read_rules(None), keys=Keys(upstream=KEY)))
        for path, body in (("/v1/embeddings", {}), ("/v1/chat/completions", chat())):
            headers = {"Authorization": "Bearer another-key"}
            response = app.test_client().post(path, json=body, headers=headers, buffered=True)
            assert b"bad key *****" in response.data and not quotes(response.get_data(as_text=True))
        assert app.test_client().post("/v1/chat/completions", json=chat(stream=False), buffered=True).data == said
        assert {seen.headers["Authorization"] for seen in server.seen} == {f"Bearer {KEY}"}


CARRIERS = {
    "a bare Authorization": ({"Authorization": KEY}, ""),
    "another scheme": ({"Authorization": f"Token {KEY}"}, ""),
    "a scheme with fields": ({"Authorization": f'Token id=7, token="{KEY}"'}, ""),
    "x-api-key": ({"X-Api-Key": KEY}, ""),
    "api-key": ({"Api-Key": KEY}, ""),
    "x-goog-api-key": ({"X-Goog-Api-Key": KEY}, ""),
    "a token": ({"X-Auth-Token": KEY}, ""),
    "a scheme in another header": ({"Proxy-Authorization": f"Bearer {KEY}"}, ""),
    "the query": ({}, f"?alt=sse&key={KEY}"),
}


@pytest.mark.parametrize(("headers", "query"), CARRIERS.values(), ids=CARRIERS)
def test_a_key_counts_as_one_wherever_it_comes(
    inside: Inside, caplog: pytest.LogCaptureFixture, headers: dict[str, str], query: str
) -> None:
    caplog.set_level(logging.DEBUG, "proxy")
    done, quoting = [answer(completion("a"))], [answer(error(KEY), 401)]
    with Upstream(done, quoting, done, quoting) as server:
        client = inside(server.url)
        for path in ("/v1/chat/completions", "/v1/embeddings"):
            for _ in range(2):
                body = chat(stream=False, model=KEY)
                response = client.post(path + query, json=body, headers={**headers, "X-Request-Id": KEY})
                assert not quotes(response.get_data(as_text=True)) and not quotes(str(response.headers))
        server.paths["/v1/models"] = [answer({"data": []})]
        metrics = client.get("/metrics", headers={"Host": "localhost"}).get_data(as_text=True)
    assert not quotes(metrics) and not quotes(caplog.text)


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


@pytest.mark.slow
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
    expected = {"other": 1, "tiny": 1} if listed else {"other": 2}
    assert dict(re.findall(r'requests_total{.*model="([^"]+)",status="200"} ([0-9]+)', text)) == {
        model: str(count) for model, count in expected.items()
    }


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


VLLM = answer({"data": [{"id": "tiny", "owned_by": "vllm"}]})
USED = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 40, "total_tokens": 41}})


def streamed(*events: bytes) -> list[Any]:
    return [SSE, *map(chunked, (ROLE, *events, DONE)), LAST]


def unclosed(said: str, content: str = "a") -> bytes:
    """A call that is repaired: the audit file has what it was, and what it is."""
    return opened(0, "c1", "write_file") + arguments(0, f'{{"path": "{said}", "content": "{content}"') + finish("stop")


REFUSAL = {"message": f'no {KEY}: "auto" tool choice requires --enable-auto-tool-choice', "type": "x", "code": 400}


@pytest.mark.slow
@pytest.mark.parametrize("form", [KEY, FORMS["some"], FORMS["all"]], ids=["plain", "some", "all"])
@pytest.mark.parametrize("lines", ["text", "json"])
def test_no_part_of_it_gets_into_what_a_running_proxy_writes(
    proxy: Start, tmp_path: Path, lines: str, form: str
) -> None:
    """The log, repairs with their values in the audit file, and captures."""
    audit, folder = tmp_path / "audit.jsonl", tmp_path / "captures"
    scripts = [
        streamed(unclosed(form)),
        streamed(unclosed("a", "x" * (10_000 - 36 - PART) + form)),
        [answer({"error": REFUSAL}, 400)],
        streamed(text("a"), finish()),
        streamed(finish(), USED),
        streamed(text("a"), finish()),
        [answer(error(form), 401)],
    ]
    with Upstream(*scripts) as server:
        server.paths["/v1/models"] = [VLLM]
        flags = ("--log-format", lines, "--audit-file", str(audit), "--capture", str(folder))
        running = proxy(server.url, *flags)
        for number, model in enumerate(("tiny", "tiny", KEY, KEY, KEY)):
            body = json.dumps(chat(tools=[WRITE_FILE], model=model)).encode()
            with closing(HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE)) as client:
                client.request("POST", "/v1/chat/completions", body, {**HEADERS, **JSON})
                response = client.getresponse()
                # What the model wrote in a call is its own.
                assert quotes(response.read().decode()) == (number < 2) and not quotes(str(response.headers))
        running.logged('"status": 401' if lines == "json" else "status=401")
        assert running.idle()
        written = running.log.read_text()
    assert "repair" in written and "cannot parse" in written and not quotes(written)
    assert '"path\\": \\"****' in audit.read_text() and not quotes(audit.read_text())
    kept = [file.read_bytes().decode() for file in folder.iterdir()]
    assert len(kept) == 7 and not any(map(quotes, kept))


def test_what_nobody_expected_is_logged_without_it(inside: Inside) -> None:
    """The words of an exception."""
    record = logging.LogRecord("proxy", logging.ERROR, "x.py", 1, "failed: %s", (FORMS["some"],), None)
    try:
        raise ValueError(f"what is {KEY}?")
    except ValueError:
        record.exc_info = sys.exc_info()
    inside("http://127.0.0.1:1").get("/health", headers=HEADERS)
    for formatter in (TextLines(), JsonLines()):
        line = formatter.format(record)
        assert "ValueError: what is ****" in line and not quotes(line)
    inside("http://127.0.0.1:1").get("/health")
    assert quotes(TextLines().format(record))  # another request of this thread has other secrets
