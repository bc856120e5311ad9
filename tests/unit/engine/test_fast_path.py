"""Events that differ from an earlier one by their text alone: told without parsing, and never wrongly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.engine.events import Chunk, Text, Unchanged
from proxy.engine.fast_path import Template, learn
from proxy.engine.task import Task
from tests.support.helpers import offered


def chunk(text: str, *, blanks: bool = False, key: str = "content", **extra: object) -> Chunk:
    body: dict[str, Any] = {"id": "a", "choices": [{"index": 0, "delta": {key: text}, "finish_reason": None}], **extra}
    written = json.dumps(body, ensure_ascii=False, separators=(", ", ": ") if blanks else (",", ":"))
    return Chunk(body, b"data: " + written.encode() + b"\n\n")


def learnt(text: str = "one", *, blanks: bool = False) -> Template:
    template = learn(chunk(text, blanks=blanks), 0, text, reasoning=False)
    assert template is not None
    return template


@pytest.mark.parametrize("blanks", [False, True])
@pytest.mark.parametrize("text", ["two", " ", " zwölf 🙂", "a, b: {c}"])
def test_an_event_of_the_same_shape_gives_its_text(text: str, blanks: bool) -> None:
    assert learnt(blanks=blanks).text(chunk(text, blanks=blanks).raw) == text.encode()


@pytest.mark.parametrize(
    "other",
    [
        chunk('with "quotes"'),
        chunk("a\nline"),
        chunk("two", blanks=True),
        chunk("two", usage=None),
        chunk("two", key="reasoning"),
        chunk(""),
        Chunk({}, b"data: [DONE]\n\n"),
        Chunk({}, b""),
    ],
)
def test_an_event_of_another_shape_gives_none(other: Chunk) -> None:
    assert learnt().text(other.raw) is None


def counted(text: str, tokens: int, **more: object) -> Chunk:
    """An event of a server that counts on with each of them (`continuous_usage_stats`)."""
    return chunk(text, usage={"prompt_tokens": 103, "total_tokens": 103 + tokens, "completion_tokens": tokens, **more})


def test_the_numbers_of_a_usage_may_differ() -> None:
    first = counted("one", 1)
    template = learn(first, 0, "one", reasoning=False)
    assert template is not None
    assert template.text(counted("two", 12345).raw) == b"two"
    for other in (
        counted('"usage":{"prompt_tokens":1', 2),
        counted("two", 2, more=1),
        counted("two", -2),
        chunk("two", usage={"prompt_tokens": 103}),
        chunk("two"),
        chunk("two", usage=None),
        Chunk({}, first.raw.replace(b"}\n\n", b",1}\n\n")),
        Chunk({}, b'data: {"usage":{"prompt_tokens":103,"total_tokens":104,"completion_tokens":1}}\n\n'),
    ):
        assert template.text(other.raw) is None


def test_an_event_shorter_than_its_own_frame_gives_none() -> None:
    """Before and after may overlap in the bytes."""
    template = Template(b'data: {"a":"', b'"a":"', 0, False)
    assert template.text(b'data: {"a":"') is None


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
    assert learn(given, 0, text, reasoning=False) is None


def test_the_engine_lets_events_of_a_known_shape_pass_unparsed_and_stops_where_a_call_may_begin() -> None:
    """Contract C1, C2: the same events as by parsing."""
    engine = Engine(Task(tools=offered(), seed=b"s"))
    first, second, opener = chunk("a "), chunk("b "), chunk("<tool_")
    assert engine.fast_path(first.raw) is None
    engine.feed(first)
    assert engine.fast_path(second.raw) == Unchanged(second.raw, (Text(0, "b "),))
    assert engine.fast_path(opener.raw) is None
    assert engine.feed(opener) == ()
    assert engine.fast_path(second.raw) is None
