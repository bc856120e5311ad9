"""The lane: which bytes are whole events that differ from one that was parsed by their text alone."""

from __future__ import annotations

import json

import pytest

from proxy.engine.call_delta import CallDelta
from proxy.engine.events import CallArguments, Reasoning, Text
from proxy.engine.fast_path import CallTemplate, Template, learn
from proxy.engine.lane import ANY_TEXT, IN_STRING, Lane, lane_of, unescaped
from tests.support.helpers import says

BEFORE = b'data: {"choices":[{"index":0,"delta":{"content":"'
AFTER = b'"}}]}\n\n'


def template(before: bytes = BEFORE, after: bytes = AFTER, *, reasoning: bool = False) -> Template:
    return Template(before, after, 0, reasoning)


def lane(before: bytes = BEFORE, after: bytes = AFTER) -> Lane:
    made = lane_of(template(before, after), ANY_TEXT)
    assert made is not None
    return made


def event(text: bytes) -> bytes:
    return BEFORE + text + AFTER


def test_whole_events_are_their_texts() -> None:
    assert lane().texts(event(b" it")) == [b" it"]
    assert lane().texts(event(b"a") + event("ü".encode()) + event(rb"\n")) == [b"a", "ü".encode(), rb"\n"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        event(b"a")[:-1],
        event(b"a") + BEFORE,
        event(b"a")[1:],
        BEFORE[:-1] + AFTER,
        event(b""),
        event(b"a") + b": ping\n\n" + event(b"b"),
        event(b'"'),
        event(b'a","tool_calls":"b'),
        event(b"\\"),
        event(b"\x01"),
        event(b"\xff"),
        event("ü".encode()[:1]) + event("ü".encode()[1:]),
        event(b"a").replace(b'"index":0', b'"index":1'),
    ],
    ids=[
        *("nothing", "cut at the end", "a half one behind", "cut at the beginning", "no room", "no text", "a comment"),
        *("a mark", "another field", "half an escape", "a control", "no UTF-8", "half a character", "another choice"),
    ],
)
def test_all_else_is_left_to_who_parses(body: bytes) -> None:
    assert lane().texts(body) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"content":"', AFTER),
        (BEFORE, b'"}}]}\n'),
        (b"data: {\n" + BEFORE, AFTER),
        (b"data: {\r" + BEFORE, AFTER),
        (BEFORE, b'"}}]}\r\n\n'),
        (BEFORE, b'"}}\n\ndata: ]}\n\n'),
    ],
    ids=["no field", "no end", "two lines", "an odd end", "another end", "two events"],
)
def test_events_whose_ends_are_not_plain_to_see_have_no_lane(before: bytes, after: bytes) -> None:
    assert lane_of(template(before, after), ANY_TEXT) is None


def counted(text: str, tokens: int) -> bytes:
    """An event that counts its tokens."""
    body = {"choices": [{"index": 0, "delta": {"content": text}}], "usage": {"completion_tokens": tokens}}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def counting() -> Lane:
    first = says("a")
    learnt = learn(type(first)(first.body, counted("a", 1)), 0, "a", reasoning=False)
    assert learnt is not None and learnt.counts is not None
    made = lane_of(learnt, ANY_TEXT)
    assert made is not None
    return made


def test_events_that_count_on_differ_by_their_numbers_too() -> None:
    assert counting().texts(counted("b", 2) + counted("c", 1000)) == [b"b", b"c"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        counted("b", 2)[:-1],
        counted("b", 2).replace(b"2", b'"2"'),
        counted("b", 2).replace(b"completion", b"prompt"),
        counted("b", 2) + event(b"c"),
        counted("", 2),
        counted("\x01", 2).replace(b"\\u0001", b"\x01"),
        counted("b", 2).replace(b"b", b"\xff"),
    ],
)
def test_of_those_that_count_all_else_is_left_too(body: bytes) -> None:
    assert counting().texts(body) is None


def test_what_counts_and_has_no_end_has_no_lane() -> None:
    first = says("a")
    learnt = learn(type(first)(first.body, counted("a", 1)[:-1]), 0, "a", reasoning=False)
    assert learnt is not None and lane_of(learnt, ANY_TEXT) is None


@pytest.mark.parametrize("text", [b"it", rb"\n", "ü".encode(), rb"\/"])
def test_a_text_may_say_anything(text: bytes) -> None:
    assert ANY_TEXT.fullmatch(text)


@pytest.mark.parametrize("text", [b"", b'"', b"\\", b"\n", rb"\x", rb"\u00e4", rb"\ud83d"])
def test_what_is_no_text_of_a_json_string_or_may_be_half_a_character_is_left_out(text: bytes) -> None:
    assert not ANY_TEXT.fullmatch(text)


@pytest.mark.parametrize("text", [b"it", rb"\\n", rb"\\\"", rb"\\\\", rb"\\u00e4"])
def test_what_goes_on_a_string_of_arguments_stays_within_it(text: bytes) -> None:
    assert IN_STRING.fullmatch(text)


@pytest.mark.parametrize("text", [rb"\"", rb"\n", rb"\\", rb"\\x", rb"\\u00"])
def test_what_may_end_it_or_stands_for_half_an_escape_does_not(text: bytes) -> None:
    """`\\"` is a quotation mark of the arguments, which ends their string."""
    assert not IN_STRING.fullmatch(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"it", "it"), ("ü".encode(), "ü"), (rb"a\nb\u00e4", "a\nbä"), (rb"\ud83d\ude00", "😀"), (b"\xff", "\ufffd")],
)
def test_a_text_stands_for_what_json_says(text: bytes, said: str) -> None:
    assert unescaped(text) == said


def test_the_texts_joined_are_one_event_of_the_engine() -> None:
    assert lane().events(rb"a\nb") == (Text(0, "a\nb"),)
    thought = lane_of(template(reasoning=True), ANY_TEXT)
    assert thought is not None and thought.events(b"hm") == (Reasoning(0, "hm"),)
    call = lane_of(CallTemplate(BEFORE, AFTER, 1, 2, CallDelta()), IN_STRING)
    assert call is not None and call.events(rb"\\n") == (CallArguments(1, 2, "\\n"),)
