"""Which of the calls that were read are taken: none that lists tools, was copied, or is over a limit."""

from __future__ import annotations

import pytest

from proxy.formats.copied_calls import Copies
from proxy.formats.grammar import Format
from proxy.formats.scan_limits import MAX_COPIED, MAX_GOING_BACK, ScanLimits
from proxy.formats.spans import Candidate
from proxy.formats.unwrapped import strong
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import NotACall, RawCall, Rejection
from proxy.parsing.markdown import Markdown
from tests.support.helpers import call_json, offered

WRAPPED = "<tool_call>"
CALL = f"<tool_call>{call_json('bash', command='ls -la')}</tool_call>"
NOTHING = f"<tool_call>{call_json('now')}</tool_call>"
DEFINITION = f"<tool_call>{call_json('bash', type='object', properties={'command': {'type': 'string'}})}</tool_call>"


def read(text: str) -> tuple[Candidate, tuple[RawCall, ...]]:
    """A candidate whose text is read, and its calls."""
    buffer = TextBuffer(bytearray(text.encode()), ended=True, stopped=True)
    candidate = Candidate(Format(WRAPPED, WRAPPED.encode(), strong, strong=True), buffer, 0, offered(), Markdown())
    calls = candidate.go_on()
    assert calls
    return candidate, calls


def limits(
    *results: str, off: frozenset[str] = frozenset(), max_held: int = 1000, max_calls: int = 2
) -> ScanLimits:
    return ScanLimits(Copies(results), off, max_held=max_held, max_calls=max_calls)


def why(found: ScanLimits, text: str, *, behind_listing: bool = False) -> Rejection | None:
    """Why the calls of this text are refused; None if they are not."""
    candidate, calls = read(text)
    try:
        found.check(candidate, calls, behind_listing=behind_listing)
    except NotACall as refused:
        return refused.rejection
    return None


def test_a_call_like_any_other_is_taken() -> None:
    assert why(limits("some result", off=frozenset(("json",))), CALL) is None


@pytest.mark.parametrize(
    ("found", "text", "reason"),
    [
        (limits(), DEFINITION, Rejection.DEFINITION),
        (limits(off=frozenset((WRAPPED,))), CALL, Rejection.FORMAT_OFF),
        (limits(max_held=len(CALL) - 1), CALL, Rejection.OVER_LIMIT),
        (limits(max_calls=0), CALL, Rejection.OVER_LIMIT),
        (limits(f"12: {CALL}"), CALL, Rejection.COPIED),
    ],
    ids=["a definition", "a format that is off", "too long", "one too many", "a copy"],
)
def test_what_is_refused_says_why(found: ScanLimits, text: str, reason: Rejection) -> None:
    assert why(found, text) is reason


def test_a_text_of_the_very_length_is_held() -> None:
    assert why(limits(max_held=len(CALL)), CALL) is None


def test_a_name_without_arguments_lists_a_tool_only_behind_a_listing() -> None:
    assert why(limits(), NOTHING) is None
    assert why(limits(), NOTHING, behind_listing=True) is Rejection.DEFINITION
    assert why(limits(), CALL, behind_listing=True) is None


def test_what_was_taken_counts_and_then_no_more_is() -> None:
    found = limits(max_calls=2)
    _, calls = read(CALL)
    for left in (False, True):
        assert why(found, CALL) is None
        found.take(calls)
        assert found.takes_no_more is left
    assert why(found, CALL) is Rejection.OVER_LIMIT


def test_a_reply_that_goes_on_copying_means_none_of_it() -> None:
    found = limits(CALL)
    states = set()
    for _ in range(MAX_COPIED):
        assert found.takes_no_more is False
        states.add(found.state)
        assert why(found, CALL) is Rejection.COPIED
    assert found.takes_no_more is True
    assert len({*states, found.state}) == MAX_COPIED + 1


def test_a_row_is_read_again_so_often_and_no_more() -> None:
    """C7."""
    found = limits()
    for _ in range(MAX_GOING_BACK):
        assert found.may_go_back is True
        found.went_back += 1
    assert found.may_go_back is False
