"""The lane: which bytes are whole events that differ from one that was parsed by their text alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.engine.events import CallArguments, Chunk, Reasoning, Text
from proxy.engine.lane import ANY_TEXT, IN_STRING, Lane, Template, lane_of, learn, unescaped
from proxy.engine.task import Task
from tests.support.helpers import calls, delta, ends, new_engine, piece, says
from tests.support.helpers import chunk as spaced

BEFORE = b'data: {"choices":[{"index":0,"delta":{"content":"'
AFTER = b'"}}]}\n\n'


def template(before: bytes = BEFORE, after: bytes = AFTER, *, reasoning: bool = False) -> Template:
    return Template(before, after, Reasoning(0, "") if reasoning else Text(0, ""))


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
    learnt = learn(type(first)(first.body, counted("a", 1)), Text(0, "a"))
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
    learnt = learn(type(first)(first.body, counted("a", 1)[:-1]), Text(0, "a"))
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
    call = lane_of(Template(BEFORE, AFTER, CallArguments(1, 2, "")), IN_STRING)
    assert call is not None and call.events(rb"\\n") == (CallArguments(1, 2, "\\n"),)


def chunk(text: str, *, blanks: bool = False, key: str = "content", **extra: object) -> Chunk:
    body: dict[str, Any] = {"id": "a", "choices": [{"index": 0, "delta": {key: text}, "finish_reason": None}], **extra}
    written = json.dumps(body, ensure_ascii=False, separators=(", ", ": ") if blanks else (",", ":"))
    return Chunk(body, b"data: " + written.encode() + b"\n\n")


def learnt(text: str = "one", *, blanks: bool = False) -> Template:
    template = learn(chunk(text, blanks=blanks), Text(0, text))
    assert template is not None
    return template


def text_in(template: Template, raw: bytes) -> bytes | None:
    """Return the text of an event of the template's shape, or None for any other event."""
    lane = lane_of(template, ANY_TEXT)
    assert lane is not None
    texts = lane.texts(raw)
    return texts[0] if texts else None


@pytest.mark.parametrize("blanks", [False, True])
@pytest.mark.parametrize("text", ["two", " ", " zwölf 🙂", "a, b: {c}"])
def test_an_event_of_the_same_shape_gives_its_text(text: str, blanks: bool) -> None:
    assert text_in(learnt(blanks=blanks), chunk(text, blanks=blanks).raw) == text.encode()


@pytest.mark.parametrize(
    "other",
    [
        chunk("two", blanks=True),
        chunk("two", usage=None),
        chunk("two", key="reasoning"),
        chunk(""),
        Chunk({}, b"data: [DONE]\n\n"),
        Chunk({}, b""),
    ],
)
def test_an_event_of_another_shape_gives_none(other: Chunk) -> None:
    assert text_in(learnt(), other.raw) is None


def counting_chunk(text: str, tokens: int, **more: object) -> Chunk:
    """An event of a server that counts on with each of them (`continuous_usage_stats`)."""
    return chunk(text, usage={"prompt_tokens": 103, "total_tokens": 103 + tokens, "completion_tokens": tokens, **more})


def test_the_numbers_of_a_usage_may_differ() -> None:
    first = counting_chunk("one", 1)
    template = learn(first, Text(0, "one"))
    assert template is not None
    assert text_in(template, counting_chunk("two", 12345).raw) == b"two"
    for other in (
        counting_chunk("two", 2, more=1),
        counting_chunk("two", -2),
        chunk("two", usage={"prompt_tokens": 103}),
        chunk("two"),
        chunk("two", usage=None),
        Chunk({}, first.raw.replace(b"}\n\n", b",1}\n\n")),
        Chunk({}, b'data: {"usage":{"prompt_tokens":103,"total_tokens":104,"completion_tokens":1}}\n\n'),
    ):
        assert text_in(template, other.raw) is None


def test_an_event_shorter_than_its_own_frame_gives_none() -> None:
    """Before and after may overlap in the bytes."""
    template = Template(b'data: {"a":"', b'"a":"\n\n', Text(0, ""))
    assert text_in(template, b'data: {"a":"\n\n') is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (chunk('a "b"'), 'a "b"'),
        (chunk("a\\b"), "a\\b"),
        (Chunk({}, b'data: {"content":"a","content":"a"}\n\n'), "a"),
        (Chunk({}, b'data: {"x":"a"}\n\n'), "a"),
        (Chunk({}, b'data: {"content":null}\n\n'), ""),
        (Chunk({}, b'data: {"content":"\\u0061"}\n\n'), "a"),
    ],
)
def test_what_does_not_tell_where_its_text_stands_teaches_nothing(given: Chunk, text: str) -> None:
    assert learn(given, Text(0, text)) is None


# The lane of a call that is held.
def begun(*texts: str, **task: Any) -> Engine:
    engine = new_engine(**task)
    for text in ('<tool_call>{"name": "bash", "arguments": {"command": "', *texts):
        assert not engine.feed(says(text))
    return engine


def test_the_lane_is_open_while_a_call_is_held() -> None:
    engine, one = begun("l"), says("s")
    lane = engine.held_lane()
    assert lane is not None and lane.held == says("l") and lane.texts(one.raw) == [b"s"]
    assert engine.hold(lane, [("s", one)]) == ()
    assert lane.texts(says("</").raw) is None
    assert engine.held_lane() is not None
    [_, arguments, *_] = engine.feed(says('"}}</tool_call>'))
    assert arguments == CallArguments(0, 0, '{"command": "ls"}')


@pytest.mark.parametrize(
    "more",
    [
        spaced(delta(content="one", reasoning="so")),
        spaced(delta(content="one", refusal="no")),
        spaced(delta(content="one"), usage={"completion_tokens": 1}),
        spaced(delta(content="one"), x_extra=1),
        spaced({**delta(content="one"), "logprobs": {"content": [{"token": "one"}]}}),
        spaced(delta(content="one"), delta(1)),
        calls(piece(0, "{}")),
        says("\\"),
        says("x", choice=1),
        ends(),
    ],
)
def test_what_says_more_than_a_text_or_has_no_plain_one_teaches_nothing(more: Chunk) -> None:
    engine = begun("l")
    engine.feed(more)
    assert engine.held_lane() is None


def test_it_has_no_more_room_than_the_call() -> None:
    """C7."""
    lane = begun("l", max_held=200).held_lane()
    assert lane is not None and lane.room < 200


def test_a_call_that_is_complete_leaves_though_it_came_by_the_lane() -> None:
    engine = begun("l")
    lane = engine.held_lane()
    assert lane is not None
    [_, arguments, *_] = engine.hold(lane, [('"}}</tool_call>', says("x"))])
    assert arguments == CallArguments(0, 0, '{"command": "l"}')


def test_pieces_of_a_call_of_which_no_tool_was_offered_have_no_lane() -> None:
    engine = Engine(Task(tools=None, seed=b"s"))
    engine.feed(calls(piece(0, "x")))
    assert engine.lane() is None
