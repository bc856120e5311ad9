"""How much of a call's arguments leaves while they are written (contracts C1, C2, C4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.arguments import LiveArguments
from proxy.limits import MAX_DEPTH
from proxy.tools import Tool

from .helpers import all_cuts, function, offered


def tool(name: str = "typed") -> Tool:
    found = offered().resolve(name)
    assert found is not None
    return found


def fed(cut: list[str], which: Tool | None) -> tuple[str, LiveArguments]:
    """What left; at every step it is a prefix of the text, and with the rest it is the text."""
    live = LiveArguments(which)
    left = ""
    for part in cut:
        left += live.feed(part)
        assert live.text.startswith(left)
        assert left + live.rest == live.text
        assert live.sent == len(left.encode("utf-8", "surrogatepass"))
    assert live.text == "".join(cut)
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
    '{"options": "a string where an object is due"}',
    '{"count": "10"}',
    json.dumps({"label": "x" * 500, "items": ["y" * 500]}),
    json.dumps({"free": {"a": 1}, "either": 5}, indent=2),
]


@pytest.mark.parametrize("text", VALID, ids=lambda text: text[:30])
def test_of_a_valid_object_everything_leaves_byte_for_byte_at_every_cut(text: str) -> None:
    """C1: whatever the value's type and whatever the schema says of it."""
    for cut in all_cuts(text, 50 if len(text) > 400 else 200):
        left, live = fed(cut, tool())
        assert live.complete
        assert not live.broken
        assert left.strip() == text.strip()


@pytest.mark.parametrize("text", [' {"label": "a"} ', '{"label": "a"}\n', "\n{}\r\n"])
def test_blanks_around_the_object_leave_or_are_the_rest(text: str) -> None:
    """C1: they belong to the call's arguments as much as the object does."""
    for cut in all_cuts(text, 50):
        left, live = fed(cut, tool())
        assert left + live.rest == text
        assert live.rest.strip() == ""
        assert live.complete


def steps(text: str, which: Tool | None) -> list[tuple[str, str]]:
    """Character by character: what came, and what left with it."""
    live = LiveArguments(which)
    return [(each, live.feed(each)) for each in text]


def test_a_string_streams_on_while_it_arrives() -> None:
    """C2: each character of a string that the schema allows leaves at once."""
    given_back = steps('{"label": "hello", "either": "10", "free": "x"}', tool())
    left = ""
    for at, (came, new) in enumerate(given_back):
        left += new
        if came.isalnum():
            inside = '"label": "' in left or at < 9
            assert inside
    text = '{"label": "hello'
    assert "".join(new for _, new in given_back[: len(text)]) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"count": 1', '{"count": '),
        ('{"count": "1', '{"count": '),
        ('{"flag": tru', '{"flag": '),
        ('{"flag": true', '{"flag": '),
        ('{"items": ["a", "b"', '{"items": '),
        ('{"options": {"a": "b"', '{"options": '),
        ('{"free": {"a": 1', '{"free": '),
        ('{"label": 1', '{"label": '),
        ('{"count": 1,', '{"count": 1,'),
        ('{"items": ["a"]', '{"items": ["a"]'),
        ('{"count": "1"', '{"count": "1"'),
        ('{"lab', "{"),
        ('{"label"', "{"),
        ('{"label": "a\\', '{"label": "a'),
        ('{"label": "a\\u00e', '{"label": "a'),
        ('{"label": "a\\u00e9', '{"label": "a\\u00e9'),
        ('{"label": "a"', '{"label": "a"'),
        ('{"label": "a" ', '{"label": "a"'),
        ("{", "{"),
        ("  ", ""),
        ("", ""),
    ],
)
def test_what_a_fix_may_still_change_waits(text: str, left: str) -> None:
    """C2: names, keys, and every value but a string wait until they are complete."""
    for cut in all_cuts(text, 20):
        got, live = fed(cut, tool())
        assert (got.rstrip(), live.broken, live.complete) == (left.rstrip(), False, False)


BROKEN: dict[str, tuple[str, str]] = {
    "single quote": ("{'label': 'a'}", "{"),
    "missing brace": ('"label": "a"}', ""),
    "array": ('["a"]', ""),
    "string": ('"{\\"label\\": 1}"', ""),
    "unknown key": ('{"label": "a", "lable": "b"}', '{"label": "a",'),
    "doubled key": ('{"label": "a", "label": "b"}', '{"label": "a",'),
    "doubled key by an escape": ('{"label": "a", "l\\u0061bel": "b"}', '{"label": "a",'),
    "raw newline in a string": ('{"label": "a\nb"}', '{"label": "a'),
    "raw tab in a string": ('{"label": "a\tb"}', '{"label": "a'),
    "raw newline in a key": ('{"la\nbel": "a"}', "{"),
    "raw newline in a nested string": ('{"items": ["a\nb"]}', '{"items":'),
    "bad escape": ('{"label": "a\\x41"}', '{"label": "a'),
    "bad unicode escape": ('{"label": "a\\u00g0"}', '{"label": "a'),
    "bad escape in a key": ('{"l\\xabel": "a"}', "{"),
    "bad escape in a nested string": ('{"items": ["\\x"]}', '{"items":'),
    "trailing comma": ('{"label": "a",}', '{"label": "a",'),
    "missing comma": ('{"label": "a" "count": 1}', '{"label": "a"'),
    "missing colon": ('{"label" "a"}', "{"),
    "trailing junk": ('{"label": "a"}</tool_call>', '{"label": "a"}'),
    "the same again": ('{"label": "a"}{"label": "a"}', '{"label": "a"}'),
    "one brace too many": ('{"label": "a"}}', '{"label": "a"}'),
    "python literal": ('{"flag": True}', '{"flag":'),
    "NaN": ('{"ratio": NaN}', '{"ratio":'),
    "leading zero": ('{"count": 01}', '{"count":'),
    "no value": ('{"count": }', '{"count":'),
    "wrong closer": ('{"label": "a"]', '{"label": "a"'),
    "closed wrongly inside": ('{"items": [1}, "count": 1}', '{"items":'),
    "key without quotes": ('{label: "a"}', "{"),
    "smart quotes": ('{“label”: "a"}', "{"),
    "too deep": ('{"items": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}", '{"items":'),
    "too long a key": ('{"' + "k" * 300 + '": 1}', "{"),
    "too many blanks": ("{" + " " * 300 + "}", "{"),
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


def test_after_it_broke_everything_is_kept() -> None:
    live = LiveArguments(tool())
    live.feed('{"nope": 1')
    assert live.feed(', "label": "a"}') == ""
    assert live.broken
    assert live.text == '{"nope": 1, "label": "a"}'
    assert live.rest == '"nope": 1, "label": "a"}'


def test_without_a_tool_every_key_is_taken_and_every_string_goes_on() -> None:
    """F40: a call to a tool that was not offered is left to the client."""
    left, live = fed(list('{"x": "abc'), None)
    assert (left, live.broken) == ('{"x": "abc', False)
    left, live = fed(list('{"x": {"y": 1}, "z": ""}'), None)
    assert (left, live.complete) == ('{"x": {"y": 1}, "z": ""}', True)


def test_a_tool_without_properties_takes_every_key() -> None:
    (which,) = offered(function("x", {}))
    left, live = fed(['{"any": "a"}'], which)
    assert (left, live.complete) == ('{"any": "a"}', True)


def test_half_a_surrogate_pair_at_the_end_of_a_fragment_is_no_harm() -> None:
    left, live = fed(['{"label": "\ud83d', '\ude42"}'], tool())
    assert left == '{"label": "\ud83d\ude42"}'
    assert live.complete


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "count": st.integers() | st.text(),
    "ratio": st.floats(allow_nan=False, allow_infinity=False),
    "flag": st.booleans(),
    "items": st.lists(st.text(), max_size=4),
    "options": st.recursive(
        st.none() | st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3), max_leaves=5
    ),
    "label": st.text(),
    "free": st.text() | st.lists(st.integers()),
}


@settings(max_examples=150, deadline=None, derandomize=True)
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
        left, live = fed(cut, tool())
        assert left == text
        assert live.complete


def test_long_strings_take_steps_in_proportion() -> None:
    """C7: what has left is not looked at again."""
    live = LiveArguments(tool())
    live.feed('{"label": "')
    for _ in range(200):
        live.feed("x" * 100)
        assert len(live._window.data) - live._reader.pos == 0
