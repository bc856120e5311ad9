"""What a parser knows of its surroundings: values that are replaced, never changed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

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
