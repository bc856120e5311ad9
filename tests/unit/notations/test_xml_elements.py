"""Elements as values, as MiniMax M3 writes them (F12)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from proxy.notations.tables import SEP as SEPARATOR
from tests.support.helpers import all_cuts, function, new_scanner, offered, scan

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
