"""What else a server says of a call: what of it waits, and what is said together."""

from __future__ import annotations

import pytest

from proxy.codec.json_text import JsonObject
from proxy.engine.call_fields import CallFields, UnsaidFields, other_fields
from proxy.errors import UpstreamBroken


def of(**entry: object) -> CallFields:
    return CallFields(entry, {})  # type: ignore[arg-type]


def unsaid(*fields: CallFields) -> UnsaidFields:
    made = UnsaidFields()
    for each in fields:
        made.add(each)
    return made


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ({"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}, None),
        ({"function": {"name": "f", "parsed_arguments": {}, "args": 1, "input": 2}, "name": "f", "args": 3}, None),
        ({"function": {}, "x": None}, CallFields({"x": None}, {})),
        ({"function": {"id": 1}, "x": 2}, CallFields({"x": 2}, {"id": 1})),
        ({"name": "f", "arguments": "", "x": 2}, CallFields({"x": 2}, {})),
    ],
)
def test_other_fields_are_those_that_are_said_in_no_other_way(entry: JsonObject, wanted: CallFields | None) -> None:
    function = entry.get("function", entry)
    assert isinstance(function, dict)
    assert other_fields(entry, function) == wanted


@pytest.mark.parametrize(
    ("came", "taken"),
    [
        ([of(x=1), of(y=2)], [of(x=1, y=2)]),
        ([of(x=1), of(x=1, y=2)], [of(x=1, y=2)]),
        ([of(x=1), of(x=2)], [of(x=1), of(x=2)]),
        ([of(x=1), of(x=2), of(x=1)], [of(x=1), of(x=2), of(x=1)]),
        ([CallFields({}, {"x": 1}), of(x=2)], [CallFields({"x": 2}, {"x": 1})]),
    ],
)
def test_no_value_is_said_in_the_place_of_another(came: list[CallFields], taken: list[CallFields]) -> None:
    fields = unsaid(*came)
    assert fields.take() == taken
    assert (fields.waits, fields.size, fields.take()) == (False, 0, [])


def test_what_has_left_is_not_said_again() -> None:
    fields = unsaid(of(x=1), of(y=2))
    fields.leave(of(x=1))
    fields.leave(of(z=3))
    fields.add_new(of(x=1, y=2, z=4))
    assert fields.take() == [of(y=2, z=4)]
    fields.add_new(of(x=1, z=4))
    assert not fields.waits


def test_what_a_server_says_with_each_piece_waits_once() -> None:
    assert unsaid(*[of(x="y" * 50)] * 100).size < 100


def test_what_is_nested_too_deeply_is_told_as_such() -> None:
    deep: object = 0
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UpstreamBroken, match="nested too deeply"):
        unsaid(of(x=deep))
