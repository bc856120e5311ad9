"""The text of a call's arguments to an object (F19 to F21, F26 to F31)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.codec.json_text import JsonObject, dump
from proxy.limits import MAX_DEPTH
from proxy.repair.arguments import FORMS, Form, may_go_on, objects_in, read_arguments, read_call
from proxy.tools.schema import compile_schema
from tests.support.helpers import function, offered
from tests.support.random_schemas import KEYS, VALUES
from tests.support.work import over_soon

# What a step of the ladder may take at most, tenfold.


def first(text: str, *, stopped: bool = True, lists: tuple[str, ...] = ()) -> tuple[JsonObject, list[str]] | None:
    """The object of a text and what was odd about it; None if the text stands for no object at all."""
    schema = compile_schema({"properties": {key: {"type": "array"} for key in lists}}) if lists else None
    found = read_arguments(text, schema, stopped=stopped)
    return (found.values, [form.id for form in found.forms]) if found else None


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)
def test_each_form_has_an_example(form: Form) -> None:
    with pytest.raises(ValueError):
        _strict(form.example)
    (_, found) = read_call("f", form.example, offered(function("f", {"a": {}})))
    assert found is not None
    assert found.forms == (form,)
    assert isinstance(_strict(found.text), dict)


def unchanged(text: str) -> bool:
    """Whether a text is taken as it stands."""
    found = read_arguments(text)
    return found is not None and (found.text, found.forms) == (text, ())


def _strict(text: str) -> Any:
    """What a strict reader takes; doubled keys and anything but an object are refused."""

    def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("doubled")
        return dict(pairs)

    value = json.loads(text, object_pairs_hook=no_doubles, parse_constant=lambda word: json.loads("!" + word))
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def test_the_ids_of_the_forms_differ() -> None:
    assert len({form.id for form in FORMS}) == len(FORMS)


def test_strict_json_is_itself() -> None:
    """C1: the first reading is the text as it stands, and it is the only one."""
    text = ' {"a": {"b": ["}", "{\\"c\\": 1}"]}, "d": "</tool_call>"}\n'
    assert unchanged(text)


@settings(max_examples=150, derandomize=True)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), st.sampled_from((None, 2)))
def test_any_strict_object_is_itself(values: JsonObject, indent: int | None) -> None:
    text = json.dumps(values, indent=indent)
    assert unchanged(text)


@settings(max_examples=150, derandomize=True)
@given(st.text(alphabet="{}[]\"':,\\ ab1\n<>/|“”jsontrue.-eN", max_size=40), st.booleans())
def test_whatever_the_text_what_comes_of_it_is_strict_json(text: str, stopped: bool) -> None:
    found = read_arguments(text, stopped=stopped)
    if found is not None:
        assert _strict(found.text) == found.values
        assert unchanged(found.text)


@pytest.mark.parametrize("text", ["", "  ", "null", '""'])
def test_f26_no_arguments_at_all_are_an_empty_object(text: str) -> None:
    assert first(text) == ({}, ["empty_arguments"])
    assert first(text, stopped=False) is None


def test_f19_a_missing_opening_brace_is_supplied() -> None:
    assert first('"command": "echo {hi}"}') == ({"command": "echo {hi}"}, ["opening_brace"])
    assert first('"command": "echo hi"') == ({"command": "echo hi"}, ["opening_brace", "closers"])
    assert first('"command": "echo hi"', stopped=False) is None
    assert first('"just a string"') is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1', {"a": 1}),
        ('{"a": [1, {"b": "}"', {"a": [1, {"b": "}"}]}),
        ('{"a": {}', {"a": {}}),
        ('{"a": "x"  ', {"a": "x"}),
        ("{", {}),
    ],
)
def test_f20_missing_closers_are_supplied_if_the_model_stopped_by_itself(text: str, values: JsonObject) -> None:
    """F56: never if it was cut off."""
    assert first(text) == (values, ["closers"])
    assert first(text, stopped=False) is None


@pytest.mark.parametrize("text", ['{"a": "x', '{"a": "x\\', '{"a', '{"a"', '{"a":', '{"a": 1,', '{"a": tru', '{"a": "'])
def test_f56_what_was_cut_in_the_middle_is_never_completed(text: str) -> None:
    assert first(text) is None


def test_f21_brackets_in_strings_do_not_count() -> None:
    assert first('{"content": "}"}') == ({"content": "}"}, [])
    assert first('{"content": "}{"') == ({"content": "}{"}, ["closers"])
    assert first('{"content": "\\"}"}</tool_call>') == ({"content": '"}'}, ["junk"])


@pytest.mark.parametrize("text", ['{"a": 1}{"a": 1}', '{"a": 1} {"a":1}\n{"a": 1}', '{"a": [true]}{"a": [true]}'])
def test_f27_the_same_object_several_times_is_one(text: str) -> None:
    found = read_arguments(text)
    assert found is not None
    assert [form.id for form in found.forms] == ["doubled"]
    assert text.startswith(found.text)


def test_f27_two_objects_that_differ_are_no_repetition() -> None:
    assert first('{"a": 1}{"a": 2}') is None


def test_f29_what_was_encoded_twice_or_thrice_is_read() -> None:
    once = json.dumps({"a": 'say "hi"'})
    assert first(json.dumps(once)) == ({"a": 'say "hi"'}, ["double_encoded"])
    assert first(json.dumps(once + "</tool_call>")) == ({"a": 'say "hi"'}, ["double_encoded", "junk"])
    assert first(json.dumps("no object")) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{'a': 'b'}", {"a": "b"}),
        ("{'a': True, 'b': None, 'c': False}", {"a": True, "b": None, "c": False}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        ('{"a": "\\d+"}', {"a": "\\d+"}),
        ('{"a": "it\\\'s"}', {"a": "it's"}),
    ],
)
def test_f30_what_is_not_written_as_json_is(text: str, values: JsonObject) -> None:
    assert first(text) == (values, ["literals"])


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "undefined", "None1"])
def test_c9_a_word_that_says_no_value_leaves_no_reading(word: str) -> None:
    """JSON has none for it, and null is another value."""
    for text in (f'{{"a": {word}}}', f'{{"a": [1, {word}],}}', f"{{'a': {word}}}", f"{{a: {word}}}", f'{{"a": {word}'):
        assert first(text) is None
        assert read_arguments(text, SCHEMA) is None


def test_f30_typographic_quotation_marks_count_where_there_are_no_others() -> None:
    assert first("{“a”: “b”}") == ({"a": "b"}, ["smart_quotes"])
    assert first('{"a": "“b”"}') == ({"a": "“b”"}, [])
    assert first('{“a”: "b", "c": “d \\” \' e”, „f“: 1}') == ({"a": "b", "c": "d \\” ' e", "f": 1}, ["smart_quotes"])


@pytest.mark.parametrize(
    "text",
    [
        'json\n{"a": 1}',
        'Arguments: {"a": 1}',
        '{"a": 1}</tool_call>',
        '{"a": 1}\n</function>\n</tool_call>',
        '{"a": 1}<|im_end|>',
        '{"a": 1}<｜tool▁call▁end｜>',
        '{"a": 1}}',
        '{"a": 1}```',
        '```json\n{"a": 1}\n```',
        '{"a": 1}[/TOOL_CALLS]',
        '{"a": 1} ok',
    ],
)
def test_f31_a_little_junk_around_the_object_goes(text: str) -> None:
    found = read_arguments(text)
    assert found is not None
    assert (found.text, [form.id for form in found.forms]) == ('{"a": 1}', ["junk"])


@pytest.mark.parametrize(
    "text", ['{"a": 1} and so on', f'{"x" * 97}{{"a": 1}}', '{"a": 1}{"b"', '{"a": 1}, "b": 2', '[{"a": 1}]']
)
def test_f31_more_than_a_little_is_no_junk(text: str) -> None:
    assert first(text) is None


def test_f31_the_text_of_the_object_stays_as_it_is() -> None:
    found = read_arguments('{"a":  1.10, "b": "\\u00e9"}</tool_call>')
    assert found is not None
    assert found.text == '{"a":  1.10, "b": "\\u00e9"}'


def test_c9_of_doubled_keys_only_those_with_the_same_value_are_one() -> None:
    assert first('{"a": {"b": 1, "b": 1}, "a": {"b": 1}}') == ({"a": {"b": 1}}, ["duplicate_key"])
    for text in ('{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1.5}}', "{'a': 1, 'a': True}", '{"a": 1, "a": "1",}'):
        assert first(text) is None


def test_c9_marks_in_comments_and_between_items_leave_no_reading() -> None:
    for value in ('"b" // "c"\n', '"b" /* "c" */', '["b" "c"]', '""""b""""'):
        assert first(f'{{"a": {value}}}') is None


def test_objects_that_lost_the_brackets_of_their_array_get_them_back() -> None:
    """F14: only under a key that can be nothing but an array."""
    assert first('{"a": {"b": 1}, {"b": 2}}', lists=("a",)) == ({"a": [{"b": 1}, {"b": 2}]}, ["literals"])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1 "b": "y"}', {"a": 1, "b": "y"}),
        ('{"a": 1\n"b": [{"c": 1} {"c": 2}]}', {"a": 1, "b": [{"c": 1}, {"c": 2}]}),
    ],
)
def test_commas_may_be_missing_where_no_string_can_hold_what_follows(text: str, values: JsonObject) -> None:
    assert first(text) == (values, ["lost_commas"])
    for ambiguous in ('{"a": "x" "b": "y"}', '{"a": "x"\n"b": [{"c": 1} {"c": 2}]}', '{"a": ["x" "y"]}'):
        assert first(ambiguous) is None


def test_keys_may_stand_without_quotation_marks() -> None:
    assert first("{a: 'b', c_1: [{d-e: 1}]}") == ({"a": "b", "c_1": [{"d-e": 1}]}, ["bare_keys"])
    assert first('{"a": {b: {}}') == ({"a": {"b": {}}}, ["bare_keys", "closers"])
    for text in ("{a: b}", "{a: }", "{a}", "{: 1}"):
        assert first(text) is None


SCHEMA = compile_schema({"type": "object", "properties": {"a": {"type": "string"}, "d": {"type": "string"}}})


def test_what_is_read_by_the_schema_says_so() -> None:
    """Only there a mark without a backslash is one of the string's own."""
    assert first('{"a": "b "c" d"}') is None
    found = read_arguments('{"a": "b "c" d"}', SCHEMA)
    assert found is not None
    assert (found.values, found.told) == ({"a": 'b "c" d'}, True)
    other = read_arguments('{"a": 1,}', SCHEMA)
    assert other is not None
    assert not other.told


@pytest.mark.parametrize("text", ['"c"', '"c" d', '"c" d"', "= {}}", '= {"b": 1}}', '"c"} ok', '" c'])
def test_f56_nothing_supplies_the_end_of_a_string(text: str) -> None:
    """C9: which mark was meant to be the last is not known."""
    assert read_arguments('{"a": "b ' + text, SCHEMA) is None


def test_marks_and_comments_within_strings_are_the_strings_own() -> None:
    """C9: what may be a comment and may be a string's own leaves no reading."""
    found = read_arguments("{“a”: “b “c” d”}", SCHEMA)
    assert found is not None
    assert found.values == {"a": "b “c” d"}
    assert read_arguments('{"a": "b "//c" d", // e\n"d": "f"}', SCHEMA) is None
    assert first("{'a': 'http://b', // c\n 'd': 'e'}") == ({"a": "http://b", "d": "e"}, ["comments"])


@pytest.mark.parametrize("number", ["1e400", "-1e999", "1" * 10_000, "1.10", "-0.0"])
def test_a_number_stays_as_it_was_written_even_beyond_all_range(number: str) -> None:
    text = f'{{"a": {number}, "b": [{number}]}}'
    found = read_arguments(text)
    assert found is not None
    assert (found.text, found.forms) == (text, ())
    assert dump(found.values) == text


def test_lone_surrogates_stay_what_they_are() -> None:
    text = '{"b": "\\ud83d"}'
    found = read_arguments(text)
    assert found is not None
    assert (found.text, found.forms, found.values["b"]) == (text, (), "\ud83d")


def test_infinity_is_never_written() -> None:
    """JSON has no word for a number beyond all range."""
    found = read_arguments('{"a": 1e400, "b": "c" d",}', compile_schema({"properties": {"a": {}, "b": {}}}))
    assert found is None or "nfinity" not in found.text


@pytest.mark.parametrize("levels", [MAX_DEPTH + 10, 400, 900, 5000])
def test_what_is_nested_too_deep_to_be_written_again_is_no_arguments(levels: int) -> None:
    """C7."""
    for opener, closer in (("[", "]"), ('{"a":', "}")):
        assert first('{"a": ' + opener * levels + "1" + closer * levels + "}") is None
    assert first('{"a": ' + "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2) + "}") is not None


def test_objects_behind_each_other_are_told_apart() -> None:
    assert objects_in('{"a": "}{"}\n{"b": 1}{"c') == ['{"a": "}{"}', '{"b": 1}', '{"c']
    assert objects_in('{"a": 1} and') == ['{"a": 1} and']
    assert objects_in("x") == ["x"]


HOSTILE = {
    "tokens": '{"a": 1}' + "<|a|>" * 2000 + "!",
    "tags": '{"a": 1}' + " <a>" * 50_000 + "!",
    "blanks": '{"a": 1}' + " " * 500_000 + "!",
    "repetitions": "{}" * 300_000,
    "nearly repetitions": '{"a": 1}' * 100_000 + '{"b"',
    "openers": '{"a":' * 100_000,
    "arrays": '{"a": ' + "[" * 500_000,
    "escapes": '"' + "\\\\" * 300_000,
    "quotation marks": "{'" * 300_000,
    "marks of both kinds": '{"a": "' + "'\"[{" * 50_000 + "}",
    "marks": '{"a": "' + '"' * 200_000 + "}",
    "marks and commas": '{"a": "' + '", ' * 100_000 + '"}',
    "marks and brackets": '{"a": "' + '"}]' * 100_000,
    "marks and keys": '{"a": "' + '", "b": "' * 50_000 + '"}',
    "marks and blanks": '{"a": "' + ('"' + " " * 1000) * 1000 + '"}',
    "three marks": '{"a": """' + '""' * 100_000 + '"}',
    "encoded again and again": json.dumps(json.dumps(json.dumps(json.dumps('{"a": 1}')))),
    "2 MB": '{"a": "' + "x\n" * 1_000_000 + '"}</tool_call>',
    "escaped marks that end within an escape": '"\\' * 150_001,
    "the same in Python's marks": "'\\" * 150_001,
    "a number": '{"a": ' + "1" * 1_000_000 + "}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name: str) -> None:
    """C7: whatever a model writes."""
    with over_soon():
        found = read_arguments(HOSTILE[name], SCHEMA)
    assert found is None or isinstance(found.values, dict)


@pytest.mark.parametrize("unit", ['{\\"]`', '{0//"', '.."', '\\"x\\", ', "/*"])
def test_a_hostile_text_of_64_000_characters_is_over_soon(unit: str) -> None:
    """C7."""
    with over_soon():
        assert read_arguments("{" + unit * (64_000 // len(unit)) + "}", SCHEMA) is None


@pytest.mark.parametrize("text", ["{'a': 'x \\\n y'}", "{'a': \"x \\\n y\"}"])
def test_c9_in_pythons_quotation_marks_a_backslash_at_the_end_of_a_line_joins_the_lines(text: str) -> None:
    """It is an escape of Python's own; JSON has none, so there it stays. In a text that mixes both it is neither."""
    assert first("{\"a\": 'x \\\n y'}") is None
    assert first(text) == ({"a": "x  y"}, ["literals"])
    assert first('{"a": "x \\\n y"}') == ({"a": "x \\\n y"}, ["literals"])


@pytest.mark.parametrize("inside", ["x \\\n y\nz", "a\nb \\\n c"])
def test_c9_beside_line_ends_that_python_does_not_allow_it_leaves_no_reading(inside: str) -> None:
    assert read_arguments(f"{{'a': '{inside}'}}") is None
    assert first(f'{{"a": "{inside}"}}') == ({"a": inside}, ["literals"])


@pytest.mark.parametrize(
    "text",
    [
        "{'a': 1, 'a': True}",
        '{"a": 1, "a": "1",}',
        '{"a": "x", "b": 5"c": "y", "b": 5}',
        '{"a": "x" "a": "x"}',
        '{"a": [{"b": 1, "b": 2,}]}',
    ],
)
def test_c9_a_key_that_stands_twice_leaves_no_reading_unless_its_values_are_alike(text: str) -> None:
    assert read_arguments(text) is None


@pytest.mark.parametrize(
    ("object_", "behind", "goes_on"),
    [
        ('{"a": "b"}', "}", False),
        ('{"a": "b"}', " ok", False),
        ('{"a": "b"}', "</tool_call>", False),
        ('{"a": "b"}', " and more", False),
        ('{"a": "b"}', " it's done", False),
        ("{'a': 'b'}", " it's done", True),
        ('{"a": "b"}', ' say "hi"', True),
        ('{"a": 5}', ' say "hi"', False),
        ('{"a": 5}', ' say" hi', True),
        ("{}", ' Note: {"a": 1}', False),
        ("{}", '"a": 1}', True),
        ("{}", 'a": 1}', True),
        ('{"a": [1]}', ", 2]}", True),
        ('{"a": "b"}', ', {"a": "c"}', True),
        ('{"a": "b", }', ' -l"}', True),
        ('{"a": "b"}', ")), c", True),
    ],
)
def test_what_stands_behind_an_object_may_be_a_part_of_it(object_: str, behind: str, goes_on: bool) -> None:
    assert may_go_on(object_, behind) is goes_on
