"""What is put right in a call's values, by the tool's own schema (F7, F15, F22 to F24, F33 to F35)."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.codec.json_text import Json, JsonObject
from proxy.repair.arguments import read_arguments
from proxy.repair.schema_fixes import FIXES, Fix, apply_fixes
from proxy.tools.schema import compile_schema, type_of
from proxy.tools.validator import Validator, violations
from tests.support.random_schemas import KEYS, KINDS, TEXTS, VALUES, Kind


def mended(schema: JsonObject, value: Json, fixes: tuple[Fix, ...] = FIXES) -> tuple[Json, list[str]]:
    """The value after all fixes, and the ids of those that did something."""
    found, steps = apply_fixes(value, compile_schema(schema), fixes)
    return found, [step.fix.id for step in steps]


def members(**properties: Json) -> JsonObject:
    """A closed object with these members."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
def test_each_fix_does_what_its_example_says(fix: Fix) -> None:
    schema, before, after = fix.example
    shape = compile_schema(schema)
    assert violations(before, shape) > 0
    assert fix.apply(before, shape, Validator()) == after
    assert mended(schema, before, (fix,)) == (after, [fix.id])
    assert violations(after, shape) == 0
    assert mended(schema, before, tuple(other for other in FIXES if other is not fix))[0] != after


def test_the_ids_of_the_fixes_differ() -> None:
    assert len({fix.id for fix in FIXES}) == len(FIXES)


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
@settings(max_examples=30, derandomize=True)
@given(kind=KINDS, value=VALUES)
def test_each_fix_is_pure_and_twice_is_once(fix: Fix, kind: Kind, value: Json) -> None:
    shape, before = compile_schema(kind.schema), deepcopy(value)
    once, _ = apply_fixes(value, shape, (fix,))
    assert value == before
    twice, steps = apply_fixes(once, shape, (fix,))
    assert twice is once
    assert steps == ()


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
@settings(max_examples=30, derandomize=True)
@given(kind=KINDS, value=VALUES)
def test_each_function_gives_the_very_same_value_where_it_has_nothing_to_do(fix: Fix, kind: Kind, value: Json) -> None:
    """Then what it gives is a fixed point of it, too."""
    shape = compile_schema(kind.schema)
    once = fix.apply(value, shape, Validator())
    if once is not value and fix.id not in ("unwrapped", "literal"):  # what was in it may be wrapped once more
        assert fix.apply(once, shape, Validator()) is once
    if once == value and type(once) is type(value):
        assert once is value


@settings(max_examples=100, derandomize=True)
@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), kind.values)))
def test_what_the_schema_accepts_is_the_very_same_object(given_: tuple[Kind, Any]) -> None:
    """C1 and C3: a fix is never even asked."""
    kind, value = given_
    shape = compile_schema(kind.schema)
    if not violations(value, shape):
        assert apply_fixes(value, shape, FIXES)[0] is value


@settings(max_examples=100, derandomize=True)
@given(KINDS, VALUES)
def test_the_fixes_together_only_ever_make_it_better_and_twice_is_once(kind: Kind, value: Json) -> None:
    shape, before = compile_schema(kind.schema), deepcopy(value)
    once, steps = apply_fixes(value, shape, FIXES)
    assert value == before
    judge = Validator()
    assert judge.score(once, shape) <= judge.score(before, shape)
    assert bool(steps) is (once is not value)
    assert apply_fixes(once, shape, FIXES) == (once, ())


@pytest.mark.parametrize(
    ("key", "schema"),
    [
        ("path</arg_key>", TEXT),
        ("<arg_key>path", TEXT),
        ("<parameter=path>", TEXT),
        ('<parameter name="path">', TEXT),
        ("<|path|>path", TEXT),
        ('"path"', TEXT),
        ('\\"path\\"', TEXT),
        (" path\n", TEXT),
    ],
)
def test_f7_f15_markup_and_quotation_marks_in_keys_go(key: str, schema: JsonObject) -> None:
    assert mended(members(path=schema), {key: "a"}) == ({"path": "a"}, ["key_markup"])


def test_f7_a_key_that_the_schema_knows_stays_whatever_it_looks_like() -> None:
    schema = members(**{"<b>": TEXT, "b": INTEGER})
    assert mended(schema, {"<b>": "x", "b": "1"}) == ({"<b>": "x", "b": 1}, ["literal"])


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "array"}, '[{"a": 1}]', [{"a": 1}]),
        ({"type": "array"}, "['a', True]", ["a", True]),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": ["array", "null"]}, "[]", []),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, " [1]\n", [1]),
        ({"$ref": "#/$defs/list", "$defs": {"list": {"type": "array"}}}, "[1]", [1]),
    ],
)
def test_f22_arrays_and_objects_as_strings_are_read(schema: JsonObject, text: str, value: Json) -> None:
    assert mended(schema, text) == (value, ["literal"])


def test_f22_in_what_was_read_the_fixes_go_on() -> None:
    todos: JsonObject = {"type": "array", "items": members(id=INTEGER, status={"enum": ["pending", "done"]})}
    found, ids = mended(members(todos=todos), {"todos": '[{"ID": "1", "status": "Done"}]'})
    assert found == {"todos": [{"id": 1, "status": "done"}]}
    assert sorted(ids) == ["enum_case", "key_spelling", "literal", "literal"]


def test_f23_an_object_or_a_number_becomes_a_string_where_one_is_wanted() -> None:
    assert mended(TEXT, {"a": "größe"}) == ('{"a": "größe"}', ["text"])
    assert mended(TEXT, 10) == ("10", ["text"])
    assert mended({"type": ["string", "null"]}, 1.5) == ("1.5", ["text"])


@pytest.mark.parametrize("value", [["a"], True, None])
def test_f23_nothing_else_does(value: Json) -> None:
    assert mended(TEXT, value)[0] is value


def test_f23_what_is_wrong_inside_an_object_that_is_allowed_makes_no_text_of_it() -> None:
    """A schema without a `type` allows texts as well."""
    schema: JsonObject = {"properties": {"a": INTEGER, "b": {"items": INTEGER}}, "required": ["c"]}
    assert mended(schema, {"a": "1", "b": ["x"]})[0] == {"a": 1, "b": ["x"]}
    assert mended({"type": ["integer", "string"], "maximum": 3}, 5) == (5, [])


def test_f23_a_number_becomes_the_very_digits_that_were_written() -> None:
    read = read_arguments('{"a": 1.10, "b": 1e5}')
    schema = members(a=TEXT, b=TEXT)
    assert read is not None
    assert apply_fixes(read.values, compile_schema(schema), FIXES)[0] == {"a": "1.10", "b": "1e5"}
    read = read_arguments('{"a": {"b": [1.10, 1e400]}}')
    assert read is not None
    assert mended(schema, read.values) == ({"a": '{"b": [1.10, 1e400]}'}, ["text"])


@pytest.mark.parametrize(
    ("kinds", "text", "value"),
    [
        ("integer", "10", 10),
        ("integer", " -3 ", -3),
        ("integer", "10.0", 10.0),
        ("number", "1.5e3", 1500.0),
        ("number", "7", 7),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("null", "null", None),
        ("null", "None", None),
        (["integer", "boolean"], "true", True),
    ],
)
def test_f24_exact_literals_are_read(kinds: Json, text: str, value: Json) -> None:
    found, ids = mended({"type": kinds}, text)
    assert (found, type_of(found), ids) == (value, type_of(value), ["literal"])


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        ("integer", "ten"),
        ("integer", "10 apples"),
        ("integer", "1.5"),
        ("integer", "0x10"),
        ("integer", "1,000"),
        ("integer", "true"),
        ("boolean", "yes"),
        ("boolean", "1"),
        ("boolean", "TRUE"),
        ("number", "NaN"),
        ("number", "1e400"),
        ("number", "1" * 10_000),
        ("object", "[1]"),
        ("object", "{"),
    ],
)
def test_f24_garbage_stays_what_it_is(kinds: Json, text: str) -> None:
    """The client's error teaches the model."""
    assert mended({"type": kinds}, text) == (text, [])


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {},
        {"type": ["string", "integer"]},
        {"anyOf": [INTEGER, TEXT]},
        {"oneOf": [{"type": "boolean"}, {"type": "array"}, TEXT]},
        {"enum": ["10", 10]},
        {"type": "object", "nullable": True, "anyOf": [{}]} | {"type": ["object", "string"]},
    ],
)
@pytest.mark.parametrize("text", ["10", "true", "null", "[1]", '{"a": 1}', "1.10"])
def test_f24_where_a_string_is_allowed_it_stays_one(schema: JsonObject, text: str) -> None:
    """C3: never where the schema allows the value as it stands."""
    if "enum" not in schema or text == "10":
        assert mended(schema, text) == (text, [])


def test_f33_where_two_keys_can_be_meant_none_is() -> None:
    schema: JsonObject = {**members(path_a=TEXT, path_b=TEXT), "required": ["path_a", "path_b"]}
    assert mended(schema, {"path_c": "x"}, FIXES) == ({"path_c": "x"}, [])


@pytest.mark.parametrize("key", ["filePath", "FILE_PATH", "file-path", "FilePath", "filepath", "_file_path"])
def test_f34_another_spelling_of_a_key(key: str) -> None:
    """The other keys keep their places."""
    found, ids = mended(members(file_path=TEXT, a=TEXT, b=TEXT), {"a": "1", key: "x", "b": "2"})
    assert (found, ids) == ({"file_path": "x", "a": "1", "b": "2"}, ["key_spelling"])
    assert isinstance(found, dict) and [*found] == ["a", "file_path", "b"]


def test_f34_only_if_one_key_can_be_meant_and_it_is_not_there() -> None:
    twice: JsonObject = {"filePath": "x", "FILE_PATH": "y"}
    for schema, values in (
        (members(file_path=TEXT), {"file_path": "x", "filePath": "y"}),
        (members(file_path=TEXT), twice),
        (members(file_path=TEXT, **{"file-path": TEXT}), {"filePath": "x"}),
    ):
        assert mended(schema, dict(values)) == (values, [])


def test_f34_a_key_of_another_spelling_is_put_right_unless_the_schema_allows_others() -> None:
    """C1: a schema that declares properties and says nothing of others counts as closed for this."""
    schema: JsonObject = {"type": "object", "properties": {"file_path": TEXT}}
    nothing_of_others: tuple[JsonObject, ...] = ({}, {"required": ["file_path"]}, {"additionalProperties": False})
    for said in nothing_of_others:
        assert mended({**schema, **said}, {"filePath": "x"}) == ({"file_path": "x"}, ["key_spelling"])
    others: tuple[JsonObject, ...] = (
        {"additionalProperties": True},
        {"additionalProperties": TEXT},
        {"patternProperties": {"^x": TEXT}},
        {"unevaluatedProperties": {}},
    )
    for said in others:
        assert mended({**schema, **said}, {"filePath": "x"}) == ({"filePath": "x"}, [])
    assert mended({"type": "object"}, {"filePath": "x"}) == ({"filePath": "x"}, [])


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("values", "fixed", "fixes"),
    [
        ({"arguments": {"city": "a", "days": 1}}, {"city": "a", "days": 1}, ["unwrapped"]),
        ({"input": '{"city": "a"}'}, {"city": "a"}, ["unwrapped"]),
        ({"get_weather": {"city": "a"}}, None, []),
        ({"args": '{"days": 1}'}, {"days": 1}, ["unwrapped"]),
        ({"City": "a", "days</arg_key>": 1}, {"city": "a", "days": 1}, ["key_markup", "key_spelling"]),
        # A key that fits nothing stays.
        ({"get_weather": {"town": "a"}}, None, []),
        ({"get_weather": {"city": "a", "town": "b"}}, None, []),
        ({"get_weather": {}}, None, []),
        ({"get_weather": "city"}, None, []),
        ({"get_weather": {"city": "a"}, "days": 1}, None, []),
        ({"town": "a"}, None, []),
        ({"city": "a", "City": "b"}, None, []),
    ],
)
def test_c1_schemas_that_say_nothing_of_other_keys_are_closed_for_the_repair_of_keys(
    nested: bool, values: JsonObject, fixed: JsonObject | None, fixes: list[str]
) -> None:
    schema: JsonObject = {"type": "object", "properties": {"city": TEXT, "days": INTEGER}}
    if nested:
        within: JsonObject = {"type": "object", "properties": {"list": {"type": "array", "items": schema}}}
        assert mended(within, {"list": [values]}) == ({"list": [fixed or values]}, fixes)
        assert mended({**within, "additionalProperties": True}, {"list": [values]})[1] == fixes
    else:
        assert mended(schema, values) == (fixed or values, fixes)
        assert mended({**schema, "additionalProperties": True}, values) == (values, [])


def test_c1_a_key_that_one_part_of_a_schema_declares_is_known_to_all() -> None:
    parts: JsonObject = {
        "allOf": [
            {"type": "object", "properties": {"a_b": TEXT}},
            {"type": "object", "properties": {"c": TEXT}},
        ]
    }
    assert mended(parts, {"a_b": "x", "c": "y"}) == ({"a_b": "x", "c": "y"}, [])
    assert mended(parts, {"aB": "x", "c": "y"}) == ({"a_b": "x", "c": "y"}, ["key_spelling"])
    parts["allOf"] = [*parts["allOf"], {"additionalProperties": True}]  # type: ignore[misc]
    assert mended(parts, {"aB": "x", "c": "y"}) == ({"aB": "x", "c": "y"}, [])


@pytest.mark.parametrize("empty", ["", None])
@pytest.mark.parametrize("schema", [INTEGER, {"enum": ["a"]}, {"type": "array"}, {"type": "string", "format": "x"}])
def test_f35_an_optional_that_is_empty_goes_if_the_schema_forbids_it(empty: Json, schema: JsonObject) -> None:
    values: JsonObject = {"a": "x", "b": empty}
    goes = empty is None or schema.get("type") != "string"
    assert mended(members(a=TEXT, b=schema), values) == (({"a": "x"}, ["dropped"]) if goes else (values, []))


@pytest.mark.parametrize("value", [False, 0, [], {}, " ", "x"])
def test_f35_nothing_but_empty_texts_and_null_goes(value: Json) -> None:
    assert "dropped" not in mended(members(b={"enum": ["other"]}), {"b": value})[1]


def test_f35_a_required_one_stays() -> None:
    schema: JsonObject = {**members(b=INTEGER), "required": ["b"]}
    for empty in ("", None):
        assert mended(schema, {"b": empty}) == ({"b": empty}, [])


@pytest.mark.parametrize("wrapper", ["arguments", "parameters", "input", "args", "kwargs", "params", "tool_input"])
def test_a_wrapper_around_all_arguments_goes(wrapper: str) -> None:
    schema: JsonObject = {**members(a=INTEGER), "required": ["a"]}
    assert mended(schema, {wrapper: {"a": 1}}) == ({"a": 1}, ["unwrapped"])
    assert mended(schema, {wrapper: '{"a": "1"}'}) == ({"a": 1}, ["unwrapped", "literal"])


def test_a_wrapper_that_is_a_parameter_or_is_not_alone_stays() -> None:
    assert mended({**members(input=TEXT)}, {"input": {"input": "x"}}) == ({"input": '{"input": "x"}'}, ["text"])
    beside: JsonObject = {"args": {"a": 1}, "x": 1}
    assert mended(members(a=INTEGER), beside) == (beside, [])
    nothing: JsonObject = {"args": {"b": 1}}
    assert mended({**members(a=INTEGER), "required": ["a"]}, nothing) == (nothing, [])


def test_a_lone_value_becomes_the_item_of_an_array_if_it_is_a_right_one() -> None:
    texts: JsonObject = {"type": "array", "items": TEXT}
    assert mended(texts, "a,b") == (["a,b"], ["item"])
    assert mended({"type": "array", "items": INTEGER}, "5") == ([5], ["item", "literal"])
    assert mended({"type": "array", "items": members(a=TEXT)}, {"a": "x"}) == ([{"a": "x"}], ["item"])
    assert mended({"type": "array", "items": INTEGER}, "five") == ("five", [])
    assert mended(texts, "") == ("", [])


@pytest.mark.parametrize("text", ["yes", "YES", " Yes\n"])
def test_an_allowed_value_in_other_letters(text: str) -> None:
    assert mended({"enum": ["Yes", "No"]}, text) == ("Yes", ["enum_case"])
    assert mended({"type": ["string", "null"], "enum": ["Yes", None]}, text) == ("Yes", ["enum_case"])
    assert mended({"anyOf": [{"const": "Yes"}, INTEGER]}, text) == ("Yes", ["enum_case"])


def test_of_two_allowed_values_that_differ_by_letters_only_none_is_chosen() -> None:
    assert mended({"enum": ["Yes", "yes"]}, "YES") == ("YES", [])
    assert mended({"enum": ["Yes", "No"]}, "Y") == ("Y", [])


def test_numbers_in_an_enum_are_read() -> None:
    assert mended({"enum": [1, 2]}, "2") == (2, ["literal"])
    assert mended({"enum": [1, 2]}, "3") == (3, ["literal"])  # nearer, at least
    assert mended({"enum": [1, 2]}, "three") == ("three", [])
    assert mended({"const": True}, "true") == (True, ["literal"])


def test_alternatives_are_mended_by_the_nearest_one() -> None:
    alternatives: JsonObject = {
        "oneOf": [
            {**members(kind={"const": "a"}, size=INTEGER), "required": ["kind", "size"]},
            {**members(kind={"const": "b"}, name=TEXT), "required": ["kind", "name"]},
        ]
    }
    assert mended(alternatives, {"kind": "a", "size": "3"}) == ({"kind": "a", "size": 3}, ["literal"])
    assert mended(alternatives, {"kind": "b", "name": 3}) == ({"kind": "b", "name": "3"}, ["text"])


def test_parts_of_allOf_and_trees_are_mended() -> None:
    both: JsonObject = {"allOf": [{"properties": {"a": INTEGER}}, {"properties": {"b": {"type": "boolean"}}}]}
    assert mended(both, {"a": "1", "b": "true"})[0] == {"a": 1, "b": True}
    tree: JsonObject = {"properties": {"size": INTEGER, "inner": {"$ref": "#"}}}
    deep: JsonObject = {"inner": {"inner": {"size": "2"}}}
    assert mended(tree, deep)[0] == {"inner": {"inner": {"size": 2}}}


def test_tuple_items_are_mended_by_their_place() -> None:
    pair: JsonObject = {"type": "array", "prefixItems": [INTEGER, TEXT], "items": {"type": "boolean"}}
    assert mended(pair, ["1", 2, "true"])[0] == [1, "2", True]
    older: JsonObject = {"type": "array", "items": [INTEGER, TEXT], "additionalItems": {"type": "boolean"}}
    assert mended(older, ["1", 2, "true"])[0] == [1, "2", True]


def test_a_step_says_where_it_was() -> None:
    schema = members(a={"type": "array", "items": members(b=INTEGER)})
    _, (step,) = apply_fixes({"a": [{"b": 1}, {"b": "2"}]}, compile_schema(schema), FIXES)
    assert (step.path, step.before, step.after) == ("a.1.b", "2", 2)


DAMAGES = ("number", "boolean", "list", "object", "key", "enum", "wrapped", "item")
PLAIN: JsonObject = {
    **members(
        max_count=INTEGER,
        ratio={"type": "number"},
        is_deep={"type": "boolean"},
        names={"type": "array", "items": {"type": "string", "minLength": 1}},
        options=members(size=INTEGER, word=TEXT),
        mode={"enum": ["Fast", "Slow", "off"]},
        note=TEXT,
    ),
    "required": ["max_count", "mode"],
}


def damaged(values: dict[str, Any], damage: str) -> dict[str, Any]:
    """The values with one thing wrong, as models do it."""
    new = dict(values)
    match damage:
        case "number":
            new["max_count"] = str(new["max_count"])
        case "boolean":
            new["is_deep"] = str(new["is_deep"])
        case "list":
            new["names"] = json.dumps(new["names"])
        case "object":
            new["options"] = json.dumps(new["options"])
        case "key":
            new["maxCount"] = new.pop("max_count")
        case "enum":
            new["mode"] = new["mode"].upper() if new["mode"] != new["mode"].upper() else new["mode"].lower()
        case "wrapped":
            return {"arguments": new}
        case _:
            new["names"] = new["names"][0]
    return new


@settings(max_examples=80, derandomize=True)
@given(
    st.fixed_dictionaries(
        {
            "max_count": st.integers(),
            "ratio": st.floats(allow_nan=False, allow_infinity=False),
            "is_deep": st.booleans(),
            "names": st.lists(st.text("abc {}", min_size=1).map(lambda text: f"n{text}"), min_size=1, max_size=1),
            "options": st.fixed_dictionaries({"size": st.integers(), "word": TEXTS}),
            "mode": st.sampled_from(("Fast", "Slow", "off")),
            "note": TEXTS,
        }
    ),
    st.sampled_from(DAMAGES),
)
def test_every_damage_is_undone(values: dict[str, Any], damage: str) -> None:
    broken = damaged(values, damage)
    assert violations(broken, compile_schema(PLAIN)) > 0
    assert mended(PLAIN, broken)[0] == values


def test_no_key_is_renamed_to_one_that_another_place_has() -> None:
    """The keys of an object stay as many as they were."""
    schema: JsonObject = {**members(**dict.fromkeys(KEYS, TEXT)), "required": [*KEYS]}
    values: JsonObject = {key.swapcase(): "x" for key in KEYS}
    found, _ = mended(schema, values)
    assert isinstance(found, dict)
    assert len(found) == len(values)


@pytest.mark.parametrize("key", ["text-range", "text_range", "TextRange", "TEXTRANGE"])
@pytest.mark.parametrize("written", [{"path": "a"}, '{"path": "a"}'])
@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}])
def test_another_spelling_of_a_key_is_no_wrapper(key: str, written: Json, closed: JsonObject) -> None:
    """Even where its object has keys that the outer one declares too: the string would lose its key (C9)."""
    inner: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}
    properties: JsonObject = {"path": {"type": "string"}, "textRange": inner}
    schema: JsonObject = {"type": "object", "properties": properties, "required": ["textRange"], **closed}
    assert mended(schema, {key: written})[0] == {"textRange": {"path": "a"}}


@pytest.mark.parametrize(("key", "own"), [("Input", "input"), ("args", "Args"), ("arguments", "ARGUMENTS")])
def test_a_wrappers_usual_name_that_a_tool_declares_is_its_key(key: str, own: str) -> None:
    schema: JsonObject = {"type": "object", "properties": {own: {"type": "object"}}, "required": [own]}
    assert mended(schema, {key: {"a": 1}})[0] == {own: {"a": 1}}
