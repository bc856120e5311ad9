"""Values as elements: what they are, the schema decides (F12)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from proxy.codec.json_text import Json
from proxy.formats.xml_elements import element_value
from proxy.formats.xml_tags import SEPARATOR
from proxy.limits import MAX_DEPTH
from proxy.parsing.cursor import NotACall
from tests.support.helpers import all_cuts, function, new_scanner, offered, scan

POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "tag": {"type": "string"}}}
TREE = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}
(TOOL,) = offered(
    function(
        "f",
        {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "flag": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "point": POINT,
            "points": {"type": "array", "items": POINT},
            "maybe": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
            "either": {"type": ["string", "object"]},
            "tree": {"$ref": "#/$defs/tree"},
            "free": {},
            "loose": {"type": "object"},
            "noted": {"type": "object", "properties": {"$text": {"type": "string"}, "x": {"type": "integer"}}},
            "shut": {"type": "object", "additionalProperties": False},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "lists": {"type": "object", "properties": {"tag": {"type": "array", "items": {"type": "integer"}}}},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "ratio": {"type": "number"},
            "count_or_none": {"type": ["integer", "null"]},
        },
        **{"$defs": {"point": POINT, "tree": TREE}},
    )
)

VALUES: dict[str, tuple[str, str, Json]] = {
    "a string": ("text", "ls -l", "ls -l"),
    "a string keeps its blanks": ("text", "\n ls\n", "\n ls\n"),
    "a string keeps its markup": ("text", "<item>a</item>", "<item>a</item>"),
    "no schema": ("free", "<a>1</a>", "<a>1</a>"),
    "not declared": ("other", "5", "5"),
    "an integer": ("count", "5", 5),
    "no integer": ("count", "five", "five"),
    "a boolean": ("flag", "true", True),
    "JSON": ("points", '[{"x": 1}]', [{"x": 1}]),
    "items": ("names", "<item>a</item><item>b</item>", ["a", "b"]),
    "one item": ("numbers", "<item>1</item>", [1]),
    "items on lines": ("numbers", "\n<item>1</item>\n<item>2</item>\n", [1, 2]),
    "no items": ("names", "", []),
    "blanks for no items": ("names", "\n", []),
    "an object": ("point", "<x>1</x><tag>2</tag>", {"x": 1, "tag": "2"}),
    "no members": ("point", "", {}),
    "a member that is not declared": ("point", "<y>1</y>", {"y": "1"}),
    "objects in an array": ("points", "<item><x>1</x></item><item><x>2</x></item>", [{"x": 1}, {"x": 2}]),
    "an alternative": ("maybe", "<x>1</x>", {"x": 1}),
    "the other alternative": ("maybe", "null", None),
    "a string or an object": ("either", "<x>1</x>", "<x>1</x>"),
    "nested": (
        "tree",
        "<label>a</label><kids><item><label>b</label><kids></kids></item></kids>",
        {"label": "a", "kids": [{"label": "b", "kids": []}]},
    ),
    "an element of its own name inside": ("point", "<tag>a<tag>b</tag></tag>", {"tag": "a<tag>b</tag>"}),
    "behind separators": ("point", f"{SEPARATOR}<x>1{SEPARATOR}</x>", {"x": 1}),
    "text between": ("point", "<x>1</x> and", "<x>1</x> and"),
    "several of one name": ("loose", "<tag>a</tag><tag>b</tag>", {"tag": ["a", "b"]}),
    "several of one name, and others": (
        "loose",
        "<tag>a</tag><to>x</to><tag>b</tag><tag>c</tag>",
        {"tag": ["a", "b", "c"], "to": "x"},
    ),
    "several of one name, each of its type": ("point", "<x>1</x><x>2</x>", {"x": [1, 2]}),
    "several of one name, a list": ("lists", "<tag>1</tag><tag>2</tag>", {"tag": [1, 2]}),
    "a list of items": ("lists", "<tag><item>1</item><item>2</item></tag>", {"tag": [1, 2]}),
    "objects in an object that says nothing": (
        "loose",
        "<a><b>1</b></a>",
        {"a": "<b>1</b>"},
    ),
    "keys that are not declared, of one type": ("counts", "<a>1</a><b>x</b>", {"a": 1, "b": "x"}),
    "items in items": ("grid", "<item><item>1</item><item>2</item></item><item></item>", [[1, 2], []]),
    "text before elements": ("loose", "by air\n<city>Oslo</city>", {"$text": "by air", "city": "Oslo"}),
    "text behind elements": ("loose", "<city>Oslo</city> by air ", {"$text": "by air", "city": "Oslo"}),
    "text between elements": ("loose", "<a>1</a> x < y <b>2</b>", {"$text": "x < y", "a": "1", "b": "2"}),
    "text before a separator": (
        "loose",
        f"by air{SEPARATOR}<city>Oslo{SEPARATOR}</city>",
        {"$text": "by air", "city": "Oslo"},
    ),
    "elements where the schema says nothing": (
        "free",
        f"{SEPARATOR}<a>{SEPARATOR}<b>1{SEPARATOR}</b>{SEPARATOR}</a>",
        {"a": {"b": "1"}},
    ),
    "items where the schema says nothing": (
        "loose",
        f"{SEPARATOR}<a>{SEPARATOR}<item>1{SEPARATOR}</item>{SEPARATOR}<item>2{SEPARATOR}</item>{SEPARATOR}</a>",
        {"a": ["1", "2"]},
    ),
    "elements in a string": ("text", f"{SEPARATOR}<b>1{SEPARATOR}</b>", f"{SEPARATOR}<b>1{SEPARATOR}</b>"),
    "text in several places": ("loose", "by <city>Oslo</city> air", "by <city>Oslo</city> air"),
    "text where its key is declared": ("noted", "so <x>1</x>", {"$text": "so", "x": 1}),
    "text where no other key is allowed": ("shut", "so <x>1</x>", "so <x>1</x>"),
    "text between items": ("numbers", "<item>1</item> and <item>2</item>", "<item>1</item> and <item>2</item>"),
    "text alone": ("loose", "by air", "by air"),
    "text and an end tag": ("loose", "by air </city>", "by air </city>"),
    "zeros before an integer": ("count", "018956", 18956),
    "zeros before a negative integer": ("count", " -007\n", -7),
    "zeros alone": ("count", "000", 0),
    "zeros before an integer or null": ("count_or_none", "007", 7),
    "zeros before a number": ("ratio", "007", 7),
    "zeros before a fraction": ("ratio", "00.5", "00.5"),
    "zeros in a string": ("text", "007", "007"),
    "zeros in an object": ("point", "<x>012</x><tag>012</tag>", {"x": 12, "tag": "012"}),
    "items where none are wanted": ("point", "<item>1</item>", {"item": "1"}),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_what_the_schema_makes_of_its_elements(name: str) -> None:
    key, text, expected = VALUES[name]
    assert element_value(text, TOOL, key) == expected


@pytest.mark.parametrize(("key", "text"), [("point", "<x>1"), ("loose", "by air <city>Oslo")])
def test_an_element_that_does_not_end_leaves_no_value(key: str, text: str) -> None:
    """C9: what stands behind it may be its own."""
    with pytest.raises(NotACall):
        element_value(text, TOOL, key)


def test_elements_are_followed_no_deeper_than_json() -> None:
    """C7."""
    deep: Any = {"type": "object"}
    deep["properties"] = {"a": {"$ref": "#/$defs/deep"}}
    (tool,) = offered(function("f", {"a": deep}, **{"$defs": {"deep": deep}}))
    value: Any = element_value("<a>" * 3 * MAX_DEPTH + "</a>" * 3 * MAX_DEPTH, tool, "a")
    levels = 0
    while isinstance(value, dict):
        (value,), levels = value.values(), levels + 1
    assert levels <= MAX_DEPTH + 1


ORDER = function(
    "create_order",
    {
        "user_id": {"type": "integer"},
        "note": {"type": "string"},
        "shipping": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}, "qty": {"type": "integer"}}},
        },
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "extra": {"type": "object"},
    },
)


def written(value: Any) -> str:
    """A value as elements."""
    if isinstance(value, list):
        return "".join(f"{SEPARATOR}<item>{written(item)}{SEPARATOR}</item>" for item in value)
    if isinstance(value, dict):
        text = str(value.get("$text", ""))
        return text + "".join(
            f"{SEPARATOR}<{key}>{written(inner)}{SEPARATOR}</{key}>" for key, inner in value.items() if key != "$text"
        )
    return str(value)


def test_a_whole_order_comes_back_at_every_cut() -> None:
    """F12: objects, lists of objects, keys that are not declared, text beside elements."""
    order = {
        "user_id": 42,
        "note": "Please <b>leave</b> at the desk.",
        "shipping": {"city": "Oslo", "zip": 956},
        "items": [{"sku": "book-001", "qty": 2}, {"sku": "pen-007", "qty": 5}],
        "metadata": {"$text": "from the shop", "source": "mobile", "campaign": "may"},
        "extra": {"tag": "a", "deep": {"er": {"list": ["1", "2"], "text": "<b>x</b>"}}},
    }
    text = f'{SEPARATOR}<tool_call>\n{SEPARATOR}<invoke name="create_order">{written(order)}{SEPARATOR}</invoke>\n'
    tools = offered(ORDER)
    for cut in all_cuts(f"{text}{SEPARATOR}</tool_call>"):
        found = scan(cut, new_scanner(tools))
        assert (found.parsed, found.text) == ([("create_order", order)], "")


WITHOUT_TEXT = {
    "user_id": 42,
    "note": "at the desk",
    "shipping": {"city": "Oslo", "zip": 956},
    "items": [{"sku": "book-001", "qty": 2}, {"sku": "pen-007", "qty": 5}],
    "metadata": {"source": "mobile", "campaign": "may"},
    "extra": {"tag": "a", "deep": {"er": {"list": ["1", "2"], "text": "x"}}},
}


@pytest.mark.parametrize("keys", [tuple(WITHOUT_TEXT), tuple(reversed(WITHOUT_TEXT)), ("items", "shipping", "note")])
def test_an_end_tag_that_is_missing_anywhere_changes_nothing_or_leaves_no_call(keys: tuple[str, ...]) -> None:
    """C9: an element never takes the one beside it along."""
    order = {key: WITHOUT_TEXT[key] for key in keys}
    inside = written(order)
    for end_tag in re.finditer(r"\]<\]minimax\[>\[</\w+>", inside):
        broken = inside[: end_tag.start()] + inside[end_tag.end() :]
        text = f'{SEPARATOR}<tool_call>\n{SEPARATOR}<invoke name="create_order">{broken}{SEPARATOR}</invoke>\n'
        for cut in all_cuts(f"{text}{SEPARATOR}</tool_call>", 3):
            found = scan(cut, new_scanner(offered(ORDER)))
            assert found.parsed in ([], [("create_order", order)]), broken
            assert bool(found.parsed) == (found.text == "")


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "array"}, {}, {"type": ["object", "null"]}])
def test_an_element_without_its_end_is_no_value_of_any_type(schema: dict[str, Any]) -> None:
    tools = offered(function("f", {"value": schema}))
    for inside in ("<a>1", "<a>1</a><b>2", "<a>1<b>2</b>", "<item>1<item>2</item>", "<item><a>1</item>"):
        marked = inside.replace("<", f"{SEPARATOR}<")
        value = f"{SEPARATOR}<value>{marked}{SEPARATOR}</value>"
        text = f'{SEPARATOR}<tool_call>{SEPARATOR}<invoke name="f">{value}{SEPARATOR}</invoke>{SEPARATOR}</tool_call>'
        for cut in all_cuts(text, 3):
            assert scan(cut, new_scanner(tools)).parsed == [], inside
