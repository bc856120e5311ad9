"""Values as elements: what they are, the schema decides (F12)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.events import Json
from proxy.formats.elements import element_value
from proxy.formats.tags import SEPARATOR
from proxy.limits import MAX_DEPTH

from .helpers import function, offered

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
    "an element that does not end": ("point", "<x>1", "<x>1"),
    "items where none are wanted": ("point", "<item>1</item>", {"item": "1"}),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_what_the_schema_makes_of_its_elements(name: str) -> None:
    key, text, expected = VALUES[name]
    assert element_value(text, TOOL, key) == expected


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
