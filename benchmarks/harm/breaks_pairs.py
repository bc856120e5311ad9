"""Two simultaneous breaks, and lost brackets inside an object. They are counted separately, because the rules do not
give them exactly one reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from typing import TypeVar

from benchmarks.harm import breaks_calls, breaks_json
from benchmarks.harm.drafts import Break, Broken, Draft, Inapplicable, Values, in_json
from benchmarks.harm.families import Body
from benchmarks.harm.offers import Schema, fold
from benchmarks.harm.strict import read_object
from benchmarks.harm.writing import JsonStyle, Style

_Styled = TypeVar("_Styled", Style, JsonStyle)
# Breaks that change nothing, and breaks that must not yield a call.
_WHOLE = frozenset(("none", "own_markup", "other_markup"))
_SINGLE = tuple(each for each in (*breaks_calls.BREAKS, *breaks_json.BREAKS) if each.name not in _WHOLE)


def two_breaks(draft: Draft) -> Broken:
    """One call has two independent breaks."""
    first, second = draft.rng.sample([each for each in _SINGLE if each.takes(draft.family)], 2)
    broken = [first.make(draft), second.make(draft)]
    says = [values for each in broken for values in _says(draft, each)]
    both = _both(*broken)
    written = draft.values if both.written is None else both.written
    both = replace(both, says=says, also=[*both.also, *breaks_calls.edges(draft.family, written)])
    if _says_a_text(draft, both):
        raise Inapplicable
    return both


def _says_a_text(draft: Draft, broken: Broken) -> bool:
    """Return whether the end tag of a text is missing where the rules continue the text: before an undeclared key, or
    where all end tags are doubled. Then the next key is balanced inside the text, and its second end tag closes the
    text: `a<arg_key>k</arg_key><arg_value>1</arg_value></arg_value>`.
    """
    declared = {fold(key): schema for key, schema in draft.offer.properties.items()}
    keys = list(draft.values if broken.written is None else broken.written)
    for number, (key, behind) in enumerate(pairwise(keys)):
        if number not in broken.style.no_end or not _is_text(declared.get(fold(key), {})):
            continue
        if fold(behind) not in declared or "parameter" in broken.style.twice:
            return True
    return False


def _is_text(schema: Schema) -> bool:
    """Return whether a schema accepts any string."""
    allowed = schema.get("type", "string")
    return "enum" not in schema and ("string" in allowed)


def _says(draft: Draft, broken: Broken) -> list[Values]:
    """Return the readings of the call with this break alone: the written keys, and the strings with their ends."""
    values = draft.values if broken.written is None else broken.written
    said = [] if broken.written is None else [values]
    if draft.family.body is Body.JSON:
        read = read_object(draft.family.arguments(values, broken.style), lines=True)
        said += [] if read is None else [read]
    return said


def _both(one: Broken, other: Broken) -> Broken:
    """Return the combination of two breaks. Raise Inapplicable if they are incompatible."""
    if one.cut or other.cut:
        raise Inapplicable
    return Broken(
        style=_merged(one.style, other.style),
        written=_either(one.written, other.written),
        meant=_either(one.meant, other.meant),
        one=False,
        also=[*one.also, *other.also],
        texts=one.texts | other.texts,
        finish=one.finish or other.finish,
        last=one.last or other.last,
        family=_either(one.family, other.family),
    )


_Any = TypeVar("_Any")


def _either(one: _Any | None, other: _Any | None) -> _Any | None:
    """Return the one that is not None. Raise Inapplicable if both are set."""
    if one is not None and other is not None:
        raise Inapplicable
    return other if one is None else one


def _merged(one: _Styled, other: _Styled) -> _Styled:
    """Return a style with the changes of both styles."""
    usual = type(one)()
    changed: dict[str, object] = {}
    for field in fields(usual):
        values = [getattr(each, field.name) for each in (one, other)]
        special = [value for value in values if value != getattr(usual, field.name)]
        if len(special) == 1:
            changed[field.name] = special[0]
        elif len(special) == 2:
            changed[field.name] = _joined(*special)
    return replace(usual, **changed)  # type: ignore[arg-type]


def _joined(one: object, other: object) -> object:
    """Return the combined value of one field of two styles. Raise Inapplicable if they contradict each other."""
    if isinstance(one, JsonStyle) and isinstance(other, JsonStyle):
        return _merged(one, other)
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one | other
    raise Inapplicable


def inner_bracket(draft: Draft) -> Broken:
    """A closing bracket inside the object is missing, and nothing shows where it was."""
    text = draft.family.arguments(draft.values)
    places = _inner_closers(text)
    if not places:
        raise Inapplicable
    place = draft.rng.choice(places)
    comma = draft.rng.random() < 0.3
    return Broken(Style(text=_without(place, comma=comma)), one=False)


def _without(place: int, *, comma: bool) -> Callable[[str], str]:
    """Return a function that removes the bracket at a position and, with `comma`, the comma after it."""

    def shorter(text: str) -> str:
        behind = text[place + 1 :]
        return text[:place] + (behind.removeprefix(",") if comma else behind)

    return shorter


def _inner_closers(text: str) -> list[int]:
    """Return the positions of closing brackets outside of strings and not at the end."""
    found, in_string, at = [], False, 0
    while at < len(text.rstrip("]} \n")):
        here = text[at]
        if here == "\\":
            at += 1
        elif here == '"':
            in_string = not in_string
        elif here in "]}" and not in_string:
            found.append(at)
        at += 1
    return found


BREAKS = (
    Break("inner_bracket", "a closing bracket lost within the object", inner_bracket, in_json, 0.2),
    Break("two_breaks", "two of these breaks at once", two_breaks, markup=0.2),
)
