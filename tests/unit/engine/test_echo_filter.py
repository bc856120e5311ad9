"""Content that only repeats the arguments of a call (F28)."""

from __future__ import annotations

import pytest

from proxy.engine.echo_filter import EchoFilter
from tests.support.helpers import all_cuts

ARGUMENTS = '{"a": "b c", "d": 1}'


def fed(cut: list[str], *known: str) -> tuple[list[str], EchoFilter[str]]:
    """What was given back, each chunk being its own text."""
    echo: EchoFilter[str] = EchoFilter()
    given = [chunk for part in cut for chunk in echo.take(part, part, lambda: known)]
    return given, echo


@pytest.mark.parametrize("text", [ARGUMENTS, f"\n{ARGUMENTS}", f"{ARGUMENTS}\n", f" {ARGUMENTS} \n"])
def test_f28_all_of_a_calls_arguments_is_a_repetition_at_every_cut(text: str) -> None:
    for cut in all_cuts(text):
        given, echo = fed(cut, '{"x": 1}', ARGUMENTS)
        assert given == [""] * len(given)
        assert echo.repeated == text
        assert "".join([*given, *echo.give_up()]) == text
        assert not echo.waits


@pytest.mark.parametrize(
    "text", ["Hello", '{"b"', f"{ARGUMENTS} and more", f"so: {ARGUMENTS}", '{"a": "b c", "d": 2}', "}", "[1]"]
)
def test_what_is_no_repetition_is_content_in_its_order(text: str) -> None:
    for cut in all_cuts(text):
        given, echo = fed(cut, ARGUMENTS)
        assert echo.repeated == ""
        assert "".join([*given, *echo.give_up()]) == text


def test_it_is_given_back_as_soon_as_it_is_none() -> None:
    """C2."""
    given, echo = fed(['{"a"', ": ", "7"], ARGUMENTS)
    assert given == ['{"a"', ": ", "7"]
    assert not echo.waits


def test_a_part_of_the_arguments_waits_but_is_no_repetition() -> None:
    for cut in all_cuts(ARGUMENTS[:-1]):
        given, echo = fed(cut, ARGUMENTS)
        assert "".join(given) == ""
        assert (echo.waits, echo.repeated) == (True, "")


def test_without_calls_everything_is_content() -> None:
    assert fed([ARGUMENTS])[0] == [ARGUMENTS]


def test_chunks_without_text_never_wait() -> None:
    echo: EchoFilter[int] = EchoFilter()
    assert echo.take(1, ARGUMENTS, lambda: (ARGUMENTS,)) == []
    assert echo.take(2, "", lambda: (ARGUMENTS,)) == [2]


def test_behind_other_content_nothing_is_a_repetition_before_the_next_call() -> None:
    echo: EchoFilter[int] = EchoFilter()
    assert echo.take(1, "Hello ", lambda: (ARGUMENTS,)) == [1]
    assert echo.take(2, ARGUMENTS, lambda: (ARGUMENTS,)) == [2]
    echo.next_call()
    assert echo.take(3, ARGUMENTS, lambda: (ARGUMENTS,)) == []
    assert echo.repeated == ARGUMENTS


def test_what_is_known_is_asked_for_once_and_only_where_it_can_matter() -> None:
    """C7: a call's arguments may be long."""
    asked: list[int] = []

    def known() -> tuple[str, ...]:
        asked.append(1)
        return (ARGUMENTS,)

    for text in (ARGUMENTS, "plain text"):
        echo: EchoFilter[str] = EchoFilter()
        asked.clear()
        for each in text:
            echo.take(each, each, known)
        assert len(asked) == text.startswith("{")
