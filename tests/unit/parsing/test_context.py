"""What a parser knows of its surroundings: values that are replaced, never changed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from proxy.parsing.context import Context, Enclosure
from tests.support.helpers import offered

OUTER = Enclosure(b"<tool_calls>", (b"</tool_calls>",), True)
INNER = Enclosure(b"<tool_call>", (b"</tool_call>",), True)


def test_a_context_is_never_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Context(offered()).depth = 1  # type: ignore[misc]


def test_enclosures_are_the_outermost_first_and_leave_the_context_around_them_alone() -> None:
    outside = Context(offered())
    inside = outside.enclosed(OUTER).enclosed(INNER)
    assert inside.enclosures == (OUTER, INNER)
    assert outside.enclosures == ()


def test_an_opener_that_stands_there_twice_is_closed_once() -> None:
    """`<tool_call>⏎<tool_call>⏎{…}⏎</tool_call>`"""
    once = Context(offered()).enclosed(INNER)
    assert once.enclosed(replace(INNER, lined=False)) is once


def test_nothing_is_quoted_unless_it_is_said() -> None:
    assert Context(offered()).in_quotation() is False


def test_within_a_wrapper_all_else_stays() -> None:
    names = {each.name for each in fields(Context)}
    every = {name: object() for name in names - {"depth", "wrapped", "holds_several"}}
    outside = Context(**every, depth=2)  # type: ignore[arg-type]
    inside = outside.within_wrapper(holds_several=True)
    assert (inside.depth, inside.wrapped, inside.holds_several) == (3, True, True)
    assert {name: getattr(inside, name) for name in every} == every
