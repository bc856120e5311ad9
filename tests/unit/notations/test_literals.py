"""Literals as models write them: JSON and Python are parsed, and anything else stays text (F30)."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.notations.literals import MAX_DEPTH, Literals, literal, typed
from proxy.notations.schema import Schema, compile_schema, or_anything, type_of
from proxy.notations.source import NoCall, Source
from tests.support.rows import rows
from tests.support.work import over_soon


@rows(__file__, "case,text,value")
def test_a_literal_is_parsed(case: str, text: str, value: Any) -> None:
    found = literal(text)
    assert (found, found.__class__) == (value, value.__class__), case


def test_the_deepest_literal_is_parsed() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert literal(text) == json.loads(text)


@rows(__file__, "case,text")
def test_text_that_is_not_a_literal_stays_text_and_is_never_evaluated(case: str, text: str) -> None:
    assert literal(text) == text, case


@pytest.mark.parametrize("text", ["9" * 10_000, "[" * (2 * MAX_DEPTH + 2) + "]" * (2 * MAX_DEPTH + 2), "[" * 100_000])
def test_text_over_the_limits_stays_text(text: str) -> None:
    assert literal(text) == text


MARKED: dict[str, tuple[str, Any]] = {
    "a value": ('{a:<|"|>b<|"|>}', {"a": "b"}),
    "a key": ('{<|"|>a<|"|>:1}', {"a": 1}),
    "keys without any": ("{a:1, b-c : [true]}", {"a": 1, "b-c": [True]}),
    "escapes are literal": (r'{a:<|"|>\n"\<|"|>}', {"a": r'\n"\ '.strip()}),
    "brackets inside": ("{a:<escape>}],{<escape>,b:[<escape><escape>]}", {"a": "}],{", "b": [""]}),
    "the other mark inside": ('{a:<escape><|"|><escape>}', {"a": '<|"|>'}),
}


def read(text: str, schema: Schema | None = None) -> Any:
    """Parse a whole text by a schema. Raises NoCall if it is not a value."""
    source = Source(text, True)
    value, end = Literals(source, schema or compile_schema({})).whole(0)
    if not source.at_end(end):
        raise NoCall("more follows")
    return value


@pytest.mark.parametrize("name", MARKED)
def test_strings_may_be_delimited_by_special_tokens(name: str) -> None:
    """F15."""
    text, expected = MARKED[name]
    assert read(text) == expected


def test_an_unclosed_string_in_special_tokens_is_refused() -> None:
    with pytest.raises(NoCall):
        read('{a:<|"|>b}')


def test_missing_array_brackets_are_accepted_if_the_schema_requires_an_array() -> None:
    """F14: only for arrays of objects."""
    schema = compile_schema({"properties": {"todos": {"type": "array"}, "other": {}, "b": {}}})
    text = '{"todos": {"a": 1}, {"a": 2}, "b": 3}'
    assert read(text, schema) == {"todos": [{"a": 1}, {"a": 2}], "b": 3}
    assert read('{"todos": [{"a": 1}]}', schema) == {"todos": [{"a": 1}]}
    for refused in (text.replace("todos", "other"), '{"todos": 1, 2}'):
        with pytest.raises(NoCall):
            read(refused, schema)


_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_SCALARS = st.none() | st.booleans() | st.integers() | _FLOATS | st.text("ab 1é🙂\n{}[]:,.-#/")
_KEYS = st.text("ab é-.", min_size=1)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(_KEYS, inner), max_leaves=12)


@pytest.mark.slow
@settings(max_examples=300, derandomize=True)
@given(_VALUES, st.sampled_from([None, 1]), st.booleans())
def test_any_json_or_python_value_is_read_back_equal(value: Any, indent: int | None, ascii_: bool) -> None:
    for text in (json.dumps(value, indent=indent, ensure_ascii=ascii_), repr(value)):
        found = literal(text)
        assert (found, repr(found)) == (value, repr(value)), text


_PIECES = st.sampled_from(
    [*"{}[]()\"'\\,:=-+.0 1e\n#<ü", "true", "None", "\\u", "\\x4", '<|"|>', "<escape>", "\ud83d", "a"]
)


@settings(max_examples=500, derandomize=True)
@given(st.text(max_size=40) | st.lists(_PIECES, max_size=24).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    json.dumps(literal(text), allow_nan=False)
    with suppress(NoCall):
        json.dumps(read(text), allow_nan=False)


UNITS = [
    *('"', "\\", '\\"', "'", "[", "{", "{}", "[1, ", '{"a": ', "1", "a", ", ", " "),
    *('"a", ', "\\u00e9", '<|"|>', "{a:1},"),
]
STARTS = ["", '"', "[", '{"a": ', '{"a": [', '{a:<|"|>']


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_long_text_is_read_or_refused_quickly(unit: str) -> None:
    """C7."""
    for start in STARTS:
        with over_soon():
            literal(start + unit * ((1 << 17) // len(unit)))


def test_many_undeclared_keys_are_read_quickly() -> None:
    """C7."""
    schema = compile_schema({"type": "object", "properties": {"a": {"type": "string"}}})
    text = "{" + "".join(f'"k{number}": 1, ' for number in range(1 << 16)) + "}"
    with over_soon():
        read(text, schema)


def test_many_items_without_array_brackets_are_read_quickly() -> None:
    """C7."""
    schema = compile_schema({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}})
    with over_soon():
        assert len(read('{"a": {}' + ", {}" * (1 << 18) + "}", schema)["a"]) == (1 << 18) + 1


def test_c9_escapes_that_only_python_knows_stay_text_in_json_strings() -> None:
    for text in ("\\033[1m", "\\0", "\\app", "\\vendor", "\\xadmin", "\\Users", "a \\\n b"):
        assert read(f'{{"a": "{text}",}}') == {"a": text}
    assert literal("{'a': '\\033[1m', 'b': \"\\x41\"}") == {"a": "\033[1m", "b": "A"}


def compiled(schema: Any) -> Schema:
    """Return the schema of one parameter."""
    root: dict[str, Any] = {"$defs": {"count": {"type": "integer"}}}
    return or_anything(compile_schema({**root, "properties": {"value": schema}}).properties["value"])


@rows(__file__, "schema,text,value")
def test_raw_text_becomes_a_value_only_if_it_is_an_exact_literal_of_an_allowed_type(
    schema: Any, text: str, value: Any
) -> None:
    """F24, C3: if the schema allows a string, the text stays."""
    found = typed(compiled(schema), text)
    assert (found, type_of(found)) == (value, type_of(value))


@pytest.mark.parametrize("open_part", [{}, True, {"pattern": "^1"}, {"$ref": "https://example.com/schema"}])
def test_raw_text_stays_if_one_alternative_allows_anything(open_part: Any) -> None:
    """C3: a value that the schema allows is never repaired."""
    assert typed(compiled({"anyOf": [open_part, {"type": "integer"}]}), "10") == "10"


@pytest.mark.parametrize("text", ["1e999", "-1e999"])
def test_a_typed_number_can_be_written_as_json(text: str) -> None:
    """No client reads `Infinity`."""
    value = typed(compiled({"type": "number"}), text)
    assert isinstance(value, str) or math.isfinite(float(str(value)))


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_all_digits_of_a_huge_number_are_kept(kind: str) -> None:
    """C3: only exact literals are converted; a float would change the number."""
    text = "123456789012345678901234567890"
    assert json.dumps(typed(compiled({"type": kind}), text)).strip('"') == text


def test_a_type_in_the_notation_takes_precedence_over_the_schema() -> None:
    """A value that the notation marks as a string stays a string."""
    integer, text = compiled({"type": "integer"}), compiled({"type": "string"})
    assert (typed(integer, "1", "string"), typed(text, "1", "number"), typed(text, "x", "number")) == ("1", 1, "x")
    assert (typed(text, "{'x': None}", "object"), typed(text, "null", "null")) == ({"x": None}, None)
