"""What the clients of `make cluster-test` take for a success, and what not: real answers, and the same with a fault."""

from __future__ import annotations

import json

import pytest

from tests.cluster.client import DIALECTS, Kind, Wanted, judge
from tests.conftest import Inside
from tests.faults.bench import MODELS
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    USAGE,
    Upstream,
    answer,
    chunked,
    completion,
    finish,
    stream,
    text,
)

WORDS = ("A/p1", " w0", " w1", " w2")
FAILED = b'data: {"error": {"message": "gone", "type": "x", "code": 500}}\n\n'
dialects = pytest.mark.parametrize("dialect", DIALECTS)


def given(inside: Inside, dialect: str, *events: bytes, streamed: bool = True) -> bytes:
    """The body that the proxy makes of these events in a dialect, or of all words as a whole answer."""
    script = stream(ROLE, *events) if streamed else [answer(completion("".join(WORDS)))]
    with Upstream(script) as server:
        server.paths["/v1/models"] = [MODELS]
        body = DIALECTS[dialect].ask(streamed=streamed, tools=False)
        data: bytes = inside(server.url).post(DIALECTS[dialect].path, json=body).data
    return data


def kind(dialect: str, data: bytes, *, streamed: bool = True) -> Kind:
    return judge(data, Wanted("r1", "c1", dialect, streamed)).kind


def sent(data: bytes, end: bytes = LAST) -> bytes:
    """A stream as it comes over the wire, an event a chunk."""
    return SSE + b"".join(chunked(each + b"\n\n") for each in data.split(b"\n\n")[:-1]) + end


@dialects
@pytest.mark.parametrize("words", [WORDS, WORDS[:-1], WORDS[:1], (*WORDS, " w2"), (*WORDS[:2], " w2", " w1"), ("x",)])
def test_only_a_stream_with_all_words_and_its_end_is_a_success(
    inside: Inside, dialect: str, words: tuple[str, ...]
) -> None:
    data = given(inside, dialect, *map(text, words), finish(), USAGE, DONE)
    found = judge(sent(data), Wanted("r1", "c1", dialect))
    assert (found.kind, found.served) == ((Kind.OK, "A/p1") if words == WORDS else (Kind.FALSE, found.served))
    assert kind(dialect, sent(data, end=b"")) is Kind.FALSE


@dialects
def test_an_error_event_is_told_and_one_with_an_end_behind_it_is_a_false_success(inside: Inside, dialect: str) -> None:
    failed = given(inside, dialect, *map(text, WORDS[:2]), FAILED)
    ended = given(inside, dialect, *map(text, WORDS), finish(), DONE)
    assert kind(dialect, sent(failed)) is Kind.EVENT
    assert kind(dialect, sent(failed + ended.split(b"\n\n")[-2] + b"\n\n")) is Kind.FALSE


@dialects
def test_a_stream_without_its_last_chunk_broke_off_wherever_it_is_cut(inside: Inside, dialect: str) -> None:
    data = given(inside, dialect, *map(text, WORDS[:2]), FAILED)
    data = sent(b"\n\n".join([*data.split(b"\n\n")[:-3], b""]), end=b"")
    assert {kind(dialect, data[:size]) for size in range(0, len(data), 7)} == {Kind.BROKEN}


@dialects
def test_a_whole_answer_is_a_success_only_with_all_words(inside: Inside, dialect: str) -> None:
    data = given(inside, dialect, streamed=False)
    wrong = (data.replace(b" w2", b""), Kind.FALSE), (b"<html>", Kind.FALSE), (data, Kind.OK)
    assert [kind(dialect, answer(body), streamed=False) for body, _ in wrong] == [expected for _, expected in wrong]
    assert kind(dialect, answer(data)[:-1], streamed=False) is Kind.BROKEN


@dialects
@pytest.mark.parametrize("streamed", [True, False])
def test_an_error_status_needs_the_dialects_body(dialect: str, streamed: bool) -> None:
    error = {"type": "error", "error": {"message": "gone", "type": "api_error"}}
    found = judge(answer(json.dumps(error).encode(), 503, {"Retry-After": "5"}), Wanted("r1", "c1", dialect, streamed))
    assert (found.kind, found.status, found.retry_after) == (Kind.STATUS, 503, "5")
    assert kind(dialect, answer(b"<html>", 502), streamed=streamed) is Kind.FALSE
    assert kind(dialect, answer({}, 502), streamed=streamed) is Kind.FALSE
