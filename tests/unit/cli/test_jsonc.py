"""JSON files of people, with the comments that some agents take: edited in place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli.configuration import Format
from proxy.cli.merging import NotMergeableError, json_loads, json_without, merged
from tests.unit.cli.test_merging import CONTENT, file


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("{}", '{\n  "model": "m"\n}'),
        ("{ }\n", '{\n  "model": "m"\n}\n'),
        ('{"a": 1}', '{"a": 1,\n  "model": "m"\n}'),
        ('{\n    "a": 1\n}\n', '{\n    "a": 1,\n    "model": "m"\n}\n'),
        ('{\n\t"a": 1,\n}\n', '{\n\t"a": 1,\n\t"model": "m"\n}\n'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "model": "m"\n}'),
        ('{\n  "a": 1, // one\n  /* two */\n}', '{\n  "a": 1, // one\n  /* two */\n  "model": "m"\n}'),
        ('{\r\n  "a": 1\r\n}\r\n', '{\r\n  "a": 1,\r\n  "model": "m"\r\n}\r\n'),
        ('{"model" : "old", "a": 1} // end', '{"model" : "m", "a": 1} // end'),
        ('{"model": "m", "a": 1.50}', '{"model": "m", "a": 1.50}'),
        ('// {\n{"model": ["}"], "b": "//"}', '// {\n{"model": "m", "b": "//"}'),
        # Comments in a value that is replaced go.
        ('{\n  "model": [ // one\n    "x", /* two\n */\n  ] // three\n}\n', '{\n  "model": "m" // three\n}\n'),
    ],
)
def test_one_member_is_set_and_nothing_else_moves(text: str, after: str) -> None:
    assert merged(text, file(Format.JSON, {"model": "m"})) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"e": {"A": "1", "B": 2}}', '{"e": {"B": 2}}'),
        ('{"e": {"B": 2, "A": "1"}}', '{"e": {"B": 2 }}'),
        ('{"e": {"A": "1"}}', '{"e": {}}'),
        ('{"e": {"A": {"x": [1]},}}', '{"e": {}}'),
        ('{\n  "e": {\n    "A": "1",\n    "B": 2\n  }\n}\n', '{\n  "e": {\n    "B": 2\n  }\n}\n'),
        ('{\n  "e": {\n    "B": 2,\n    "A": "1"\n  }\n}\n', '{\n  "e": {\n    "B": 2\n  }\n}\n'),
        ('{\r\n "e": {\r\n  "B": 2, // b\r\n  "A": "1"\r\n }}', '{\r\n "e": {\r\n  "B": 2 // b\r\n }}'),
        ('{"e": {\n  "A": "1" /* a */, // mine\n  "B": 2}}', '{"e": {\n   /* a */ // mine\n  "B": 2}}'),
    ],
)
def test_a_member_is_taken_out_and_what_is_said_beside_it_stays(text: str, after: str) -> None:
    assert json_without(text, ("e", "A")) == after


def test_objects_are_merged_and_lists_replaced() -> None:
    text = '{\n  "a": {\n    "b": {"c": 1},\n    "l": [1, 2]\n  }\n}\n'
    after = merged(text, file(Format.JSON, {"a": {"b": {"d": 2}, "l": [3]}}))
    assert json.loads(after) == {"a": {"b": {"c": 1, "d": 2}, "l": [3]}}


@pytest.mark.parametrize(("old", "new"), [(True, 1), (1, 1.0), ("1", 1), (None, False), ({}, [])])
def test_a_value_of_another_type_is_another(old: Any, new: Any) -> None:
    after = merged(json.dumps({"a": old}), file(Format.JSON, {"a": new}))
    assert repr(json.loads(after)["a"]) == repr(new)


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "7", "{", '{"a": }', "{'a': 1}", "{a: 1}", '{"a": 1 "b": 2}', '{"a": 1}}'),
        *('{"a": [,]}', "/* {}", '{"a": "\n"}'),
        *('{"a": 1, "a": 2}', '{"b": {"a": 1, "a": 2}}', '{"a": 0x10}', '{"a": nan}', "[" * 200, '{"a":' * 200),
    ],
)
def test_what_cannot_be_read_safely_is_left_alone(text: str) -> None:
    with pytest.raises(NotMergeableError):
        merged(text, file(Format.JSON))


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from([None, 0, 1, 4]),
)
def test_whatever_json_says_is_read_and_kept(value: Any, indent: int | None) -> None:
    text = json.dumps({"a": value}, indent=indent)
    assert json_loads(text) == {"a": value}
    assert json.loads(merged(text, file(Format.JSON))) == {"a": value, **CONTENT}
