"""What is told of a choice's text and of its end (contract C6)."""

from __future__ import annotations

import pytest

from proxy.audit_record import Repair
from proxy.engine.choice_records import EMPTY_LIST, note_once, of_dropped, of_echo, of_finish
from proxy.notations.stream import Found, Piece


def test_a_record_is_told_once_in_its_place() -> None:
    audit: list[Repair] = []
    for record in (EMPTY_LIST, of_echo("a"), EMPTY_LIST, of_echo("b"), of_echo("a")):
        note_once(audit, record)
    assert audit == [EMPTY_LIST, of_echo("a"), of_echo("b")]


@pytest.mark.parametrize(("form", "ids"), [("leftover", 1), ("end_of_turn", 1), ("leaked_token", 1), ("", 0)])
def test_a_token_that_is_dropped_is_told(form: str, ids: int) -> None:
    assert len(of_dropped(Piece("<|im_end|>", (), form))) == ids


def test_what_holds_a_call_is_not_dropped() -> None:
    assert of_dropped(Piece("now()", (Found("now", "now", {}),), "leaked_token")) == []


@pytest.mark.parametrize("given", ["stop", "", None])
def test_a_finish_that_is_not_the_servers_is_told_beside_it(given: str | None) -> None:
    (record,) = of_finish(given, "tool_calls")
    assert (record.id, record.before, record.after) == ("finish", str(given), "tool_calls")


@pytest.mark.parametrize(
    ("reason", "ids"),
    [("stop", []), ("tool_calls", []), ("length", []), ("content_filter", []), ("repetition", ["cut"])],
)
def test_a_cut_for_which_clients_have_no_word_is_told(reason: str, ids: list[str]) -> None:
    assert [record.id for record in of_finish(reason, reason)] == ids
