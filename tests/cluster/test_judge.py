"""What the clients of `make cluster-test` take for a success, and what not: each answer, and the same with a fault."""

from __future__ import annotations

import json

import pytest

from tests.cluster.client import DIALECTS, Kind, Wanted, judge
from tests.support.scripted import DONE, LAST, ROLE, SSE, answer, chunked, completion, event, finish, text

WORDS = ("A/p1", " w0", " w1", " w2")
CHAT_ERROR = {"error": {"message": "gone", "type": "api_error"}}
ERROR = {"type": "error", **CHAT_ERROR}


def named(type_: str, **more: object) -> bytes:
    """An event of a Messages stream."""
    return f"event: {type_}\n".encode() + event({"type": type_, **more})


def message_delta(word: str) -> bytes:
    return named("content_block_delta", index=0, delta={"type": "text_delta", "text": word})


def text_delta(word: str) -> bytes:
    return named("response.output_text.delta", delta=word)


WORD = {"chat": text, "messages": message_delta, "responses": text_delta}
FIRST = {
    "chat": ROLE,
    "messages": named("message_start", message={}),
    "responses": named("response.created", response={"status": "in_progress"}),
}
FINISH = {
    "chat": finish(),
    "messages": named("message_delta", delta={"stop_reason": "end_turn"}),
    "responses": named("response.output_item.done", item={"status": "completed"}),
}
END = {
    "chat": DONE,
    "messages": named("message_stop"),
    "responses": named("response.completed", response={"status": "completed"}),
}
FAILED = {
    "chat": event(CHAT_ERROR),
    "messages": named("error", **{"error": CHAT_ERROR["error"]}),
    "responses": named("response.failed", response={"status": "failed", **CHAT_ERROR}),
}
MESSAGE = {"content": [{"type": "text", "text": "".join(WORDS)}], "stop_reason": "end_turn"}
ITEMS = [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "".join(WORDS)}]}]
RESPONSE = {"status": "completed", "output": ITEMS}
WHOLE = {"chat": completion("".join(WORDS)), "messages": MESSAGE, "responses": RESPONSE}
dialects = pytest.mark.parametrize("dialect", DIALECTS)


def streamed(*events: bytes, end: bytes = LAST) -> bytes:
    return SSE + b"".join(map(chunked, events)) + end


def said(dialect: str, words: tuple[str, ...] = WORDS) -> list[bytes]:
    return [FIRST[dialect], *map(WORD[dialect], words)]


def kind(dialect: str, data: bytes, *, stream: bool = True) -> Kind:
    return judge(data, Wanted("r1", "c1", dialect, stream)).kind


@dialects
def test_a_stream_with_all_words_and_its_end_is_a_success(dialect: str) -> None:
    found = judge(streamed(*said(dialect), FINISH[dialect], END[dialect]), Wanted("r1", "c1", dialect))
    assert (found.kind, found.served) == (Kind.OK, "A/p1")


@dialects
@pytest.mark.parametrize("words", [WORDS[:-1], WORDS[:1], (*WORDS, " w2"), ("A/p1", " w0", " w2", " w1"), ()])
def test_a_stream_with_other_words_and_its_end_is_none(dialect: str, words: tuple[str, ...]) -> None:
    assert kind(dialect, streamed(*said(dialect, words), FINISH[dialect], END[dialect])) is Kind.FALSE


@dialects
def test_an_error_event_is_told_and_one_with_an_end_behind_it_is_a_false_success(dialect: str) -> None:
    assert kind(dialect, streamed(*said(dialect, WORDS[:2]), FAILED[dialect])) is Kind.EVENT
    assert kind(dialect, streamed(*said(dialect, WORDS[:2]), FAILED[dialect], END[dialect])) is Kind.FALSE
    assert kind(dialect, streamed(*said(dialect, WORDS[:2]), FINISH[dialect], FAILED[dialect])) is Kind.FALSE


@dialects
def test_a_stream_without_its_last_chunk_broke_off_wherever_it_is_cut(dialect: str) -> None:
    data = streamed(*said(dialect, WORDS[:3]), end=b"")
    assert {kind(dialect, data[:size]) for size in range(len(data))} == {Kind.BROKEN}


@dialects
def test_a_whole_answer_is_a_success_only_with_all_words(dialect: str) -> None:
    half = json.loads(json.dumps(WHOLE[dialect]).replace(" w2", ""))
    assert kind(dialect, answer(WHOLE[dialect]), stream=False) is Kind.OK
    assert kind(dialect, answer(half), stream=False) is Kind.FALSE
    assert kind(dialect, answer(WHOLE[dialect])[:-1], stream=False) is Kind.BROKEN
    assert kind(dialect, answer(b"<html>"), stream=False) is Kind.FALSE


@dialects
@pytest.mark.parametrize("stream", [True, False])
def test_an_error_status_needs_the_dialects_body(dialect: str, stream: bool) -> None:
    found = judge(answer(ERROR, 503, {"Retry-After": "5"}), Wanted("r1", "c1", dialect, stream))
    assert (found.kind, found.status, found.retry_after) == (Kind.STATUS, 503, "5")
    assert kind(dialect, answer(b"<html>", 502), stream=stream) is Kind.FALSE
    assert kind(dialect, answer({}, 502), stream=stream) is Kind.FALSE
