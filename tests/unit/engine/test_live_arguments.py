"""How much of a call's arguments leaves while they are written (contracts C1, C2, C4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.codec.json_text import JsonObject
from proxy.engine.live_arguments import LiveArguments
from proxy.engine.release_policy import ReleasePolicy
from proxy.limits import MAX_DEPTH
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from proxy.tools.toolset import Tool, ToolSet
from tests.support.helpers import all_cuts, function, offered
from tests.support.work import over_soon


def tool(name: str = "typed") -> Tool:
    found = offered().resolve(name)
    assert found is not None
    return found


def fed(cut: list[str], which: Tool | None, *, over: bool = False, **policy: Any) -> tuple[str, LiveArguments]:
    """What left; at every step it is a prefix of the text, and with the rest it is the text. `over`: the call is.

    What comes behind another object's beginning belongs to that one, as the gatherer sees to.
    """
    live = LiveArguments(ReleasePolicy(which, **policy))
    left, excess = "", ""
    for part in cut:
        if excess:
            excess += part
            continue
        left += live.feed(part)
        excess = live.excess
        assert live.text.startswith(left)
        assert left + live.rest == live.text
        assert live.sent == len(left.encode("utf-8", "surrogatepass"))
    assert live.text + excess == "".join(cut)
    if over and not excess:
        left += live.end()
        assert left + live.rest == live.text
    return left, live


VALID = [
    "{}",
    " {\n} ",
    '{"label": "a"}',
    '{"label":"","count":0}',
    '{ "label" : "a b" , "count" : 10 }',
    '{"count": -1, "ratio": 1.5e3, "flag": true, "maybe": null}',
    '{"items": ["a", "}", "]", "\\""], "options": {"a": {"b": [1, {}]}}}',
    '{"either": "10", "free": "x", "label": "naïve 🙂 ｜"}',
    '{"label": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude42\\ud83d"}',
    json.dumps({"label": "x" * 500, "items": ["y" * 500]}),
    json.dumps({"free": {"a": 1}, "either": 5}, indent=2),
]


@pytest.mark.parametrize("text", VALID, ids=lambda text: text[:30])
def test_of_a_valid_object_everything_leaves_byte_for_byte_at_every_cut(text: str) -> None:
    """C1: whatever the value's type."""
    for cut in all_cuts(text, 50 if len(text) > 400 else 200):
        left, live = fed(cut, tool(), over=True)
        assert live.complete
        assert not live.broken
        assert left.strip() == text.strip()


@pytest.mark.parametrize("text", [' {"label": "a"} ', '{"label": "a"}\n', "\n{}\r\n"])
def test_blanks_around_the_object_leave_or_are_the_rest(text: str) -> None:
    """C1: they belong to the call's arguments as much as the object does."""
    for cut in all_cuts(text):
        left, live = fed(cut, tool(), over=True)
        assert left + live.rest == text
        assert live.rest.strip() == ""
        assert live.complete


def test_a_string_streams_on_while_it_arrives() -> None:
    """C2: each character of a string that the schema allows leaves with the fragment that brings it."""
    live = LiveArguments(ReleasePolicy(tool()))
    text = '{"label": "hello", "either": "10", "free": "x"}'
    left = ""
    for at, each in enumerate(text):
        left += live.feed(each)
        if each.isalnum() and text[:at].count('"') % 4 == 3:
            assert left == text[: at + 1]
    assert left == text.removesuffix('"}')
    assert left + live.end() == text


def test_the_opening_mark_of_a_string_waits_for_what_is_in_it() -> None:
    """An empty string may be forbidden, and is dropped then (F35); the mark must not have left."""
    assert fed(['{"label": "'], tool())[0] == ""
    assert fed(['{"label": "a'], tool())[0] == '{"label": "a'
    assert fed(['{"label": "\\'], tool())[0] == '{"label": "'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"count": 1', ""),
        ('{"count": "1', ""),
        ('{"flag": tru', ""),
        ('{"flag": true', ""),
        ('{"items": ["a", "b"', ""),
        ('{"options": {"a": "b"', ""),
        ('{"free": {"a": 1', ""),
        ('{"label": 1', ""),
        ('{"count": 1,', ""),
        ('{"count": 1, "label": ', '{"count": 1'),
        ('{"count": 1, "label": "a', '{"count": 1, "label": "a'),
        ('{"items": ["a"]', ""),
        ('{"items": ["a"],', ""),
        ('{"items": ["a"], "count":', '{"items": ["a"]'),
        ('{"lab', ""),
        ('{"label"', ""),
        ('{"label": "a\\', '{"label": "a'),
        ('{"label": "a\\u00e', '{"label": "a'),
        ('{"label": "a\\u00e9', '{"label": "a\\u00e9'),
        ('{"label": "a"', '{"label": "a'),
        ('{"label": "a" ', '{"label": "a'),
        ('{"label": "a",', '{"label": "a'),
        ('{"label": "a", "count"', '{"label": "a'),
        ('{"label": "a", "count":', '{"label": "a"'),
        ('{"label": "a"}', '{"label": "a'),
        ('{"label": "a"} ', '{"label": "a'),
        ("{", ""),
        ("  ", ""),
        ("", ""),
    ],
)
def test_what_a_fix_may_still_change_waits(text: str, left: str) -> None:
    """C2: every value but a string waits until it is complete, and the comma and the key before it wait with it."""
    for cut in all_cuts(text):
        got, live = fed(cut, tool())
        assert (got.rstrip(), live.broken, live.complete) == (left.rstrip(), False, False)


BROKEN: dict[str, tuple[str, str]] = {
    "single quote": ("{'label': 'a'}", ""),
    "missing brace": ('"label": "a"}', ""),
    "array": ('["a"]', ""),
    "string": ('"{\\"label\\": 1}"', ""),
    "unknown key": ('{"label": "a", "lable": "b"}', '{"label": "a'),
    "doubled key": ('{"label": "a", "label": "b"}', '{"label": "a'),
    "doubled key by an escape": ('{"label": "a", "l\\u0061bel": "b"}', '{"label": "a'),
    "raw newline in a string": ('{"label": "a\nb"}', '{"label": "a'),
    "raw tab in a string": ('{"label": "a\tb"}', '{"label": "a'),
    "raw newline in a key": ('{"la\nbel": "a"}', ""),
    "raw newline in a nested string": ('{"items": ["a\nb"]}', ""),
    "bad escape": ('{"label": "a\\x41"}', '{"label": "a'),
    "bad unicode escape": ('{"label": "a\\u00g0"}', '{"label": "a'),
    "bad escape in a key": ('{"l\\xabel": "a"}', ""),
    "bad escape in a nested string": ('{"items": ["\\x"]}', ""),
    "trailing comma": ('{"label": "a",}', '{"label": "a'),
    "missing comma": ('{"label": "a" "count": 1}', '{"label": "a'),
    "missing colon": ('{"label" "a"}', ""),
    "python literal": ('{"flag": True}', ""),
    "NaN": ('{"ratio": NaN}', ""),
    "leading zero": ('{"count": 01}', ""),
    "no value": ('{"count": }', ""),
    "wrong closer": ('{"label": "a"]', '{"label": "a'),
    "closed wrongly inside": ('{"items": [1}, "count": 1}', ""),
    "key without quotes": ('{label: "a"}', ""),
    "smart quotes": ('{“label”: "a"}', ""),
    "too deep": ('{"items": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}", ""),
    "string for an object": ('{"options": "a"}', ""),
    "string for an integer": ('{"label": "a", "count": "10"}', '{"label": "a"'),
    "integer for a string": ('{"label": 1}', ""),
    "wrong item": ('{"items": ["a", 1]}', ""),
    "null for a number": ('{"count": null}', ""),
    "too long a key": ('{"' + "k" * 300 + '": 1}', ""),
    "too many blanks": ("{" + " " * 300 + "}", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_from_the_first_byte_that_is_wrong_nothing_more_leaves(name: str) -> None:
    """C4, half calls: at every cut the same has left, and it is what was surely right."""
    text, left = BROKEN[name]
    for cut in all_cuts(text, 30 if len(text) > 100 else 200):
        got, live = fed(cut, tool())
        assert live.broken
        assert not live.complete
        assert got.rstrip() == left.rstrip()


@pytest.mark.parametrize("blanks", ["", " ", "\r\n"])
def test_another_object_behind_a_whole_one_is_excess(blanks: str) -> None:
    """F41: it is not of this call, and does not break it."""
    for cut in all_cuts(f'{{"label": "}}{{"}}{blanks}{{"label": "b"}}'):
        left, live = fed(cut, tool())
        assert (live.text.strip(), live.complete, live.closed) == ('{"label": "}{"}', False, True)
        left += live.end()
        assert live.complete
        assert left == live.text.strip()
        assert live.excess.lstrip().startswith("{")


@pytest.mark.parametrize("behind", ["}", "</tool_call>", " and more", "\n\nx\n"])
def test_what_stands_behind_the_object_is_excess_at_every_cut(behind: str) -> None:
    """F31: it does not break the call, and nothing of it is lost."""
    for cut in all_cuts(f'{{"label": "a"}}{behind}'):
        live, left, found = LiveArguments(ReleasePolicy(tool())), "", ""
        for part in cut:
            left += live.feed(part)
            found, live.excess = found + live.excess, ""
        assert left == '{"label": "a'
        left += live.end()
        assert (left, live.complete, live.broken) == ('{"label": "a"}', True, False)
        assert (live.text + live.rest).replace(left, "", 1) + found in (behind, behind.rstrip() + "\n" * 2)


@pytest.mark.parametrize("text", ['{"label": "a"}', "{'label': '}'}", '{"nope": {"a": [1]}}', '{"count": NaN}'])
def test_the_end_of_an_object_is_known_even_of_one_that_is_no_strict_json(text: str) -> None:
    for cut in all_cuts(text):
        assert fed(cut, tool())[1].closed
        assert not fed([text[:-1]], tool())[1].closed


def test_after_it_broke_everything_is_kept() -> None:
    live = LiveArguments(ReleasePolicy(tool()))
    live.feed('{"nope": 1')
    assert live.feed(', "label": "a"}') == ""
    assert live.broken
    assert live.text == '{"nope": 1, "label": "a"}'
    assert live.rest == '{"nope": 1, "label": "a"}'


def test_nothing_leaves_where_all_is_held() -> None:
    """`arguments: whole`: nothing leaves before the end."""
    for cut in all_cuts('{"label": "a"}'):
        left, live = fed(cut, tool(), hold_all=True)
        assert (left, live.broken, live.closed) == ("", True, True)
        assert live.tail({"label": "a"}) == '{"label": "a"}'


def test_the_closing_brace_waits_for_the_word_that_all_is_right() -> None:
    """A call that still lacks something cannot be filled once its brace has left."""
    asked: list[str] = []

    def accepts(text: str) -> bool:
        asked.append(text)
        return "count" in text

    for text, left in (('{"label": "a"}', '{"label": "a'), ('{"count": 1} ', '{"count": 1}')):
        for cut in all_cuts(text):
            asked.clear()
            got, live = fed(cut, tool(), over=True, accepts=accepts)
            assert (got, live.complete, live.broken) == (left, "count" in text, "count" not in text)
            assert asked == [text.rstrip()]


def test_the_value_that_a_rule_may_change_waits_and_goes_if_it_does_not() -> None:
    def keeps(key: str, value: object) -> bool:
        return value != "bad"

    for text, left in (
        ('{"label": "good", "free": "x"}', '{"label": "good", "free": "x"}'),
        ('{"free": "x", "label": "bad"}', '{"free": "x"'),
    ):
        for cut in all_cuts(text):
            got, _ = fed(cut, tool(), over=True, rule_keys=frozenset(("label",)), keeps=keeps)
            assert got == left
    assert fed(['{"label": "goo'], tool(), rule_keys=frozenset(("label",)), keeps=keeps)[0] == ""


CHOOSY = function(
    "choosy",
    {
        "mode": {"enum": ["on", "off"]},
        "kind": {"type": "string", "enum": ["Big", "small"]},
        "one": {"const": "1"},
        "note": {"type": "string", "minLength": 1},
        "both": {"type": ["string", "integer"], "maxLength": 2},
        "deep": {"allOf": [{"type": "string"}, {"enum": ["x"]}]},
        "either": {"anyOf": [{"enum": ["a"]}, {"type": "string"}]},
        "number": {"type": "integer"},
        "word": {"$ref": "#/$defs/word"},
        "never": False,
    },
    **{"$defs": {"word": {"type": "string"}}},
)


@pytest.mark.parametrize(
    ("key", "goes_on"),
    [
        ("mode", False),
        ("kind", False),
        ("one", False),
        ("both", False),
        ("deep", False),
        ("number", False),
        ("never", False),
        ("note", True),
        ("either", True),
        ("word", True),
    ],
)
def test_a_string_goes_on_only_where_no_fix_can_change_it_any_more(key: str, goes_on: bool) -> None:
    (which,) = offered(CHOOSY)
    assert fed([f'{{"{key}": "o'], which)[0] == (f'{{"{key}": "o' if goes_on else "")


def test_a_schema_that_leads_to_one_place_in_many_ways_is_asked_once() -> None:
    """C7: each level refers to the next one twenty times."""
    levels: JsonObject = {"d0": {"type": "string", "enum": ["x"]}}
    for at in range(20):
        levels[f"d{at + 1}"] = {"anyOf": [{"$ref": f"#/$defs/d{at}"}] * 20}
    (which,) = offered(function("x", {"a": {"$ref": "#/$defs/d20"}}, **{"$defs": levels}))
    with over_soon():
        assert fed(['{"a": "o'], which)[0] == ""


def test_an_empty_string_that_is_forbidden_does_not_leave() -> None:
    """F35: it may be dropped."""
    (which,) = offered(CHOOSY)
    for cut in all_cuts('{"word": "x", "note": ""}'):
        left, live = fed(cut, which)
        assert (left, live.broken) == ('{"word": "x"', True)


@pytest.mark.parametrize(
    ("sent", "values", "tail"),
    [
        ("", {"label": "a"}, '{"label": "a"}'),
        ("{", {}, "{}"),
        ('{"label": "a", "coun', {"label": "a", "count": 1}, '", "count": 1}'),
        ('{"label": "a", "count":', {"label": "a", "count": 1}, ', "count": 1}'),
        ('{"label": "a', {"label": "ab"}, 'b"}'),
        ('{"label": "a\\ud83d', {"label": "a🙂"}, '\\ude42"}'),
        ('{"label": "a\\', {"label": "a\n"}, '\\n"}'),
        ('{"label": "a"', {"label": "a", "items": ["x"]}, '", "items": ["x"]}'),
        ('{"label": "a "b"', {"label": 'a "b"'}, '\\"b\\""}'),
        ('{"label": "a"}', {"label": "a"}, '"}'),
        ('{"count": 1}', {"count": 1}, ""),
        ('{"ratio": 1', {"ratio": 1.5}, '{"ratio": 1.5}'),
    ],
)
def test_what_is_repaired_goes_on_where_the_sending_stopped(sent: str, values: JsonObject, tail: str) -> None:
    """C4: what was sent stays a prefix of the final arguments."""
    left, live = fed([sent], tool())
    assert live.tail(values) == tail
    assert json.loads(left + tail) == values


@pytest.mark.parametrize(
    ("sent", "values"),
    [
        ('{"label": "a', {"label": "b"}),
        ('{"label": "a', {"label": 1}),
        ('{"label": "ab', {"label": "a"}),
        ('{"label": "a', {}),
        ('{"label": "a"', {"label": "b"}),
        ('{"label": "a", ', {"count": 1}),
        ('{"count": 1, "label":', {"count": True}),
        ('{"count": 1}', {"label": "a", "count": 1}),
        ('{"label": "a"}', {}),
    ],
)
def test_what_was_sent_cannot_be_taken_back(sent: str, values: JsonObject) -> None:
    """C4, half calls: then the reply ends in an error."""
    assert fed([sent], tool())[1].tail(values) is None


@pytest.mark.parametrize("name", BROKEN)
def test_what_left_begins_what_the_repair_makes_of_it(name: str) -> None:
    """C4: whatever was wrong, the final arguments begin with what was sent, at every cut."""
    which, (text, _) = tool(), BROKEN[name]
    found = Repairer(ToolSet([which]), Policy()).repair("typed", text, stopped=True)
    beyond: tuple[str, ...]
    beyond = ("array", "wrong closer", "no value", "leading zero", "too deep", "missing colon", "closed wrongly inside")
    beyond += ("doubled key", "doubled key by an escape", "NaN")
    if name in beyond:
        assert found is None
        return
    assert found is not None
    for cut in all_cuts(text):
        left, live = fed(cut, which)
        assert json.loads(left + str(live.tail(found.values))) == found.values


def test_without_a_tool_every_key_is_taken_and_every_string_goes_on() -> None:
    """F40: a call to a tool that was not offered is left to the client."""
    left, live = fed(list('{"x": "abc'), None)
    assert (left, live.broken) == ('{"x": "abc', False)
    left, live = fed(list('{"x": {"y": 1}, "z": ""}'), None, over=True)
    assert (left, live.complete) == ('{"x": {"y": 1}, "z": ""}', True)


def test_a_tool_without_properties_takes_every_key() -> None:
    (which,) = offered(function("x", {}))
    left, live = fed(['{"any": "a"}'], which, over=True)
    assert (left, live.complete) == ('{"any": "a"}', True)


def test_half_a_surrogate_pair_at_the_end_of_a_fragment_is_no_harm() -> None:
    left, live = fed(['{"label": "\ud83d', '\ude42"}'], tool(), over=True)
    assert left == '{"label": "\ud83d\ude42"}'
    assert live.complete


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "count": st.integers(),
    "ratio": st.floats(allow_nan=False, allow_infinity=False),
    "flag": st.booleans(),
    "items": st.lists(st.text(), max_size=4),
    "options": st.dictionaries(
        st.text(),
        st.recursive(st.none() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5),
        max_size=3,
    ),
    "label": st.text(),
    "free": st.text() | st.lists(st.integers()),
}


@pytest.mark.slow
@settings(max_examples=150, derandomize=True)
@given(
    st.fixed_dictionaries({}, optional=_VALUES),
    st.booleans(),
    st.sampled_from([None, 2]),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_any_valid_arguments_leave_byte_for_byte(
    values: dict[str, Any], escaped: bool, indent: int | None, places: list[int]
) -> None:
    text = json.dumps(values, ensure_ascii=escaped, indent=indent)
    at = sorted({min(place, len(text)) for place in places})
    for cut in (
        [text],
        list(text),
        [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)],
    ):
        left, live = fed(cut, tool(), over=True)
        assert left == text
        assert live.complete


def test_long_strings_take_steps_in_proportion() -> None:
    """C7: what has left is not looked at again."""
    live = LiveArguments(ReleasePolicy(tool()))
    live.feed('{"label": "')
    for _ in range(200):
        live.feed("x" * 100)
        assert len(live._data) - live._cursor.pos == 0


INNER = ("x = {", "}; y", 'print("}")', '{"a": "b"}', '"}"', 'a", b', 'say "hi", she said', '"}\n', '"} ')


@pytest.mark.parametrize("inner", INNER)
def test_c4_what_was_sent_begins_the_string_whose_marks_have_no_backslash(inner: str) -> None:
    """A mark that could end the string waits, with what follows it, until the end of the call tells."""
    values: JsonObject = {"count": 1, "label": f'x "{inner}" y'}
    text = json.dumps(values).replace('\\"', '"')
    found = Repairer(ToolSet([tool()]), Policy()).repair("typed", text, stopped=True)
    assert found is not None
    assert found.values == values
    for cut in all_cuts(text):
        live = LiveArguments(ReleasePolicy(tool()))
        left = ""
        for part in cut:
            left += live.feed(part)
        assert left == '{"count": 1, "label": "x '
        assert json.loads(left + str(live.tail(values))) == values


@pytest.mark.parametrize(
    ("text", "behind", "values"),
    [
        ('{"label": "f("}', ')"}', {"label": 'f("})'}),
        ('{"label": "f(",}', ')"}', {"label": 'f(",})'}),
        ('{"label": "f("}', ', "count": 1}', None),
        ('{"label": "f(", "count": 1}', " b}", None),
        ('{"count": 1}', ", 2}", None),
    ],
)
def test_what_followed_the_object_is_taken_back_if_it_had_not_ended(
    text: str, behind: str, values: JsonObject | None
) -> None:
    """C4: what left of an object that had ended cannot be finished, if that was no end."""
    for cut in all_cuts(text + behind):
        live = LiveArguments(ReleasePolicy(tool()))
        left, excess = "", ""
        for part in cut:
            left += live.feed(part)
            excess += live.take_excess()
        if live.closed:
            live.reopen(excess)
        assert (live.text, live.closed, live.broken) == (text + behind, False, True)
        assert live.end() == ""
        if values is not None:
            assert json.loads(left + str(live.tail(values))) == values
        elif left.endswith("}"):
            assert live.tail(json.loads(left)) is None
