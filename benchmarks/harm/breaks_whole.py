"""Whole calls of unusual tools, with unusual values or in unusual surroundings, and calls with a missing value."""

from __future__ import annotations

from benchmarks.harm.breaks_calls import none, own_markup
from benchmarks.harm.drafts import Break, Broken, Draft, Inapplicable, in_text, structured
from benchmarks.harm.families import Body, Family, Type
from benchmarks.harm.offers import ODD_KEYS, Shape
from benchmarks.harm.writing import GEMMA_MARK, Style

# Placeholder for a missing value; it occurs in no text.
_NO_VALUE = "␆"
_LEADS = (
    "I'll use `{name}` for that.\n",
    "Calling {name} now:\n\n",
    "**Plan**\n\n1. Look at the file.\n2. Change it.\n\n",
    "The user wants {name}, so I call it.\n\n",
    "Das erledige ich mit {name}.\n",
    "> Please do it.\n\nYes.\n\n",
    "Thought: I need {name}.\n",
)
_TAILS = (
    "\nI will report what {name} returns.",
    "\n\n---\nNext: the tests.\n",
    "\n\n- [ ] check the result\n- [ ] commit\n",
    "\nDas war {name}.",
)


def odd_keys(draft: Draft) -> Broken:
    """Nothing is broken, but some keys contain hyphens, spaces, dots or non-Latin letters, or are `name`."""
    if not draft.values.keys() & set(ODD_KEYS):
        raise Inapplicable
    return Broken()


def prose(draft: Draft) -> Broken:
    """Nothing is broken; prose that names the tool surrounds the calls."""
    if not draft.family.lead:
        raise Inapplicable
    lead, tail = (draft.rng.choice(texts).format(name=draft.name) for texts in (_LEADS, _TAILS))
    return Broken(lead=lead, tail=tail if draft.family.tail else "")


def by_tool(draft: Draft) -> Broken:
    """The chunk with the name is numbered by the tool's position, those with arguments by the call (SGLang)."""
    return Broken(by_tool=True)


def missing_value(draft: Draft) -> Broken:
    """A key has no value: an optional one is left out, and without a required one there is no call (C10)."""
    if not draft.values:
        raise Inapplicable
    key = draft.rng.choice(list(draft.values))
    rest = {other: value for other, value in draft.values.items() if other != key}
    style = Style(text=lambda text: _without_value(draft.family, key, text))
    required = key in draft.offer.schema.get("required", ())
    return Broken(style, {**draft.values, key: _NO_VALUE}, rest, one=False, no_call=required)


def _without_value(family: Family, key: str, text: str) -> str:
    """Remove the missing value from the arguments, with its delimiters."""
    match family.body:
        case Body.JSON:
            return text.replace(f'"{_NO_VALUE}"', "")
        case Body.PYTHON:
            return text.replace(f"'{_NO_VALUE}'", "")
        case Body.GEMMA:
            return text.replace(f"{GEMMA_MARK}{_NO_VALUE}{GEMMA_MARK}", "")
    tags = family.tags
    return text.replace(f"{_NO_VALUE}{tags.edge}{tags.closer(key)}", "")


def _writes_objects(family: Family) -> bool:
    """Return whether a value can be an empty object: neither nested elements nor the only text."""
    return family.tags.type is not Type.ELEMENTS and not family.single


def _delimits_values(family: Family) -> bool:
    return family.tags.type is not Type.JSON and not family.single


BREAKS = (
    Break("odd_keys", "nothing, but keys are unusual", odd_keys, shape=Shape.ODD_KEYS, whole=True),
    Break("optional_only", "nothing, but no argument is required", none, shape=Shape.OPTIONAL, whole=True),
    Break("empty_object", "nothing, but a union is {}", none, _writes_objects, shape=Shape.UNION, whole=True),
    Break("edge_markup", "nothing, but markup is at a value's edge", own_markup, markup=1.0, at_edge=True, whole=True),
    Break("prose", "nothing, but prose surrounds the calls", prose, in_text, whole=True),
    Break("by_tool", "names are numbered by the tool", by_tool, structured, whole=True),
    Break("missing_value", "a key without a value", missing_value, _delimits_values),
)
