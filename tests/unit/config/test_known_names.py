"""What is found by the name of a model is kept, within bounds."""

from __future__ import annotations

from proxy.config.known_names import LONG_NAME, MANY_NAMES, first_match, keep


def test_the_first_glob_that_matches_is_found() -> None:
    globs = ("a*", "[b]", "*")
    assert [first_match(name, globs) for name in ("abc", "b", "B", "")] == [0, 1, 2, 2]
    assert first_match("x", ("a*",)) is None
    assert first_match("a" * (LONG_NAME + 1), globs) == 0


def test_no_more_is_kept_than_there_is_room_for() -> None:
    known: dict[str, int] = {}
    for number in range(MANY_NAMES + 5):
        keep(known, f"name {number}", number, f"name {number}")
    assert len(known) == MANY_NAMES and known["name 0"] == 0


def test_what_a_client_writes_without_end_is_not_kept() -> None:
    known: dict[str, int] = {}
    keep(known, "k", 1, "short", "x" * (LONG_NAME + 1))
    assert known == {}
    keep(known, "k", 1, "short", "x" * LONG_NAME)
    assert known == {"k": 1}
