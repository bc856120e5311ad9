"""An exact period at the end of a text, at every cut."""

from __future__ import annotations

import pytest

from proxy.exchange.repetition import Period, RepetitionWatch
from tests.support.helpers import all_cuts


def found(text: str, size: int) -> str:
    """What is found of a text that comes in pieces of this size."""
    watch = RepetitionWatch(Period(10, 4))
    for start in range(0, len(text), size):
        watch.feed(text[start : start + size])
        if watch.repeated:
            break
    return watch.repeated


@pytest.mark.parametrize("piece", ["a", "ab", "abc ", "0123456789", "é\n"])
@pytest.mark.parametrize("size", [1, 3, 10, 64, 1000])
def test_what_repeats_is_found_at_every_cut(piece: str, size: int) -> None:
    repeated = found(f"Some words before. {piece * 60}", size)
    assert repeated and repeated in piece * 3 and len(repeated) == len(piece)


@pytest.mark.parametrize(
    "text",
    ["", "a" * 39, "01234567890" * 60, ("a" * 38 + "b") * 9, "".join(f"{number}, " for number in range(900))],
)
def test_what_does_not_repeat_for_so_long_is_not(text: str) -> None:
    for size in (1, 7, 40, 4000):
        assert found(text, size) == ""


def test_it_is_told() -> None:
    watch = RepetitionWatch(Period(10, 4))
    watch.feed("ab" * 30)
    (told,) = watch.record
    assert (told.id, told.before) == ("repetition", "ab")


def test_nothing_is_told_of_what_does_not_repeat() -> None:
    assert RepetitionWatch(Period(10, 4)).record == ()


@pytest.mark.parametrize("cut", [*all_cuts(b"x" * 60, 5)])
def test_any_cut(cut: list[bytes]) -> None:
    watch = RepetitionWatch(Period(5, 4))
    for part in cut:
        watch.feed(part.decode())
    assert watch.repeated == "x"
