"""Structured deltas become calls: omissions and errors of servers are repaired (F19 to F51, contract C4)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.chat.client_view import ChoiceView
from proxy.engine.events import CallArguments, Event
from proxy.errors import UpstreamBroken
from tests.support.helpers import all_cuts, calls, ends, flat, new_engine, piece, run, view
from tests.support.rows import rows
from tests.support.work import over_soon

LS = '{"command": "ls"}'
PWD = '{"command": "pwd"}'


def gathered(deltas: list[dict[str, Any]], *, stopped: bool = True) -> tuple[ChoiceView, list[Event]]:
    """Return the client's view and the events of these deltas, one per chunk, and a finish."""
    events = run([*map(calls, deltas), ends("tool_calls" if stopped else "length")])
    return view(events)[0], events


@pytest.mark.parametrize("mark", ['"}', '"}  ', '" }', '"\n}\n'])
def test_a_mark_that_may_end_a_call_waits_for_the_calls_end(mark: str) -> None:
    """C4: it may be in a string with unescaped quotation marks."""
    for cut in all_cuts(f"s{mark}"):
        engine = new_engine()
        engine.feed(calls(piece(0, '{"command": "l', "bash", "a")))
        left = [event for part in cut for event in flat(engine.feed(calls(piece(0, part))))]
        assert left == [CallArguments(0, 0, "s")]
        assert engine.feed(calls(piece(1, PWD, "bash", "b")))[0] == CallArguments(0, 0, mark)


@pytest.mark.parametrize("text", ['{"command": ', '{"command"', '{"flag": tr', '{"x": ]', '{"timeout": "'])
def test_a_call_without_a_readable_first_value_is_never_opened(text: str) -> None:
    """C4: the whole call becomes text again."""
    for fragments in ([text], list(text)):
        first, *rest = fragments
        seen, _ = gathered([piece(0, first, "bash", "a"), *(piece(0, each) for each in rest)])
        assert (seen.ids, seen.text) == ([], f"bash{text}")


@rows(__file__, "deltas,stopped,text")
def test_a_call_that_was_never_opened_becomes_text(deltas: list[dict[str, Any]], stopped: bool, text: str) -> None:
    """C4: no text of the model is lost."""
    seen, _ = gathered(deltas, stopped=stopped)
    assert (seen.ids, seen.text) == ([], text)


def test_the_size_of_a_call_is_limited() -> None:
    """C7: sent text counts, too, because it is kept until the call ends."""
    engine = new_engine(max_held=100)
    engine.feed(calls(piece(0, '{"command": "', "bash", "a")))
    with pytest.raises(UpstreamBroken, match="max_held"):
        for _ in range(500):
            engine.feed(calls(piece(0, "x")))


def test_c7_many_repeated_empty_arguments_are_read_quickly() -> None:
    engine = new_engine()
    with over_soon(3.0):
        engine.feed(calls(piece(0, "{}", "bash", "a")))
        engine.feed(calls(piece(0, "{}" * 500_000)))
        events = [*engine.feed(ends("tool_calls")), *engine.finish(done=True)]
    assert view(events)[0].calls == [("bash", "{}")]


def test_an_object_in_the_prose_after_empty_arguments_is_never_a_call() -> None:
    """C3: a phantom call is worse than a missed one."""
    for cut in [["{}", " Note: ", LS], *all_cuts("{} Note: " + LS)]:
        seen, _ = gathered([piece(0, "", "bash", "a"), *(piece(0, part) for part in cut)])
        assert (seen.calls, seen.text) == ([("bash", "{}")], " Note: " + LS)
