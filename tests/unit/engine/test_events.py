"""The shared types, and JSON in and out: strict, and without a crash on what models write."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import get_args

import pytest

from proxy.engine import events
from proxy.engine.events import Chunk, Event, Text
from proxy.json import Json, dump_json, load_chunk, load_json
from proxy.repair.record import Repair

LOADED: list[tuple[str, Json]] = [
    ("{}", {}),
    ('{"a": [1, -2.5, true, false, null, "x"]}', {"a": [1, -2.5, True, False, None, "x"]}),
    (' "a\\n\\u00e9" ', "a\né"),
    ('"naïve 🙂"', "naïve 🙂"),
    ('{"a": 1, "a": 2}', {"a": 2}),
    ('"\\ud83d\\ude42"', "🙂"),
    ('"\\ud83d"', "\ud83d"),
    ('{"\\udc00": 1}', {"\udc00": 1}),
    ("18446744073709551615", 18446744073709551615),
]

REFUSED = [
    "",
    "{",
    "{} x",
    "{'a': 1}",
    '{"a": 1,}',
    "NaN",
    "Infinity",
    '{"a": -Infinity}',
    "01",
    '"a\nb"',
    '"\\x"',
    "[" * 100_000,
    "[" * 100_000 + "]" * 100_000,
    "\ufeff{}",
]


@pytest.mark.parametrize(("text", "value"), LOADED)
def test_strict_json_is_read_from_text_and_from_bytes(text: str, value: Json) -> None:
    assert load_json(text) == value
    assert load_json(text.encode()) == value
    assert load_chunk(text.encode()) == (value, True)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:12]))
def test_what_is_no_strict_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        load_json(text)


@pytest.mark.parametrize("data", [b"\xff", b'"\xff"', b'{"a": "\xed\xa0"}', b'"a'])
def test_bytes_that_are_no_json_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        load_json(data)


@pytest.mark.parametrize("text", ["1e999", '{"a": -1e999}'])
def test_a_number_too_large_to_say_again_is_refused_or_stays_finite(text: str) -> None:
    """RFC 8259 has no infinity, and what is read must be sayable again."""
    try:
        value = load_json(text)
    except ValueError:
        return
    number = value["a"] if isinstance(value, dict) else value
    assert isinstance(number, float)
    assert math.isfinite(number)


def test_a_huge_integer_is_not_changed_on_its_way() -> None:
    """C1: a body that is written anew says the number that it said before."""
    text = '{"n":123456789012345678901234567890}'
    assert dump_json(load_json(text)) == text.encode()


@pytest.mark.parametrize(("text", "value"), LOADED)
def test_what_was_read_can_be_written_and_read_again(text: str, value: Json) -> None:
    assert load_json(dump_json(value)) == value
    assert load_json(dump_json(load_json(text))) == value


def test_json_is_written_compact_and_as_utf8() -> None:
    assert dump_json({"a": [1, "naïve"], "b": None}) == '{"a":[1,"naïve"],"b":null}'.encode()


@pytest.mark.parametrize("value", ["\ud83d", {"a": ["x\udc00"]}, 2**80, {"\ud800": -(2**70)}])
def test_lone_surrogates_and_huge_integers_are_written_escaped(value: Json) -> None:
    data = dump_json(value)
    assert data.isascii()
    assert json.loads(data) == value


@pytest.mark.parametrize("depth", [100, 250, 900])
def test_what_is_nested_deeply_and_can_be_read_can_be_written(depth: int) -> None:
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        assert dump_json(load_json(text)) == text.encode()


def test_each_event_is_frozen_and_slotted() -> None:
    for kind in (*get_args(Event), events.Call, Repair, Chunk):
        assert dataclasses.is_dataclass(kind)
        assert "__slots__" in vars(kind)
        assert kind.__hash__ is not None
    event = Text(0, "a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.text = "b"  # type: ignore[misc]
