"""Why what could have been calls was none: the counts, and what is told of each."""

from __future__ import annotations

import pytest

from proxy.formats.grammar import Format
from proxy.formats.refusals import Refusals
from proxy.formats.spans import Candidate, RejectedSpan, begun
from proxy.formats.unwrapped import strong
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import NotACall, Rejection
from proxy.parsing.markdown import Markdown
from tests.support.helpers import call_json, offered

BROKEN = NotACall("a key was expected")
NOT_OFFERED = NotACall(Rejection.NOT_OFFERED, "no tool 'read' is offered")


def candidate(body: str = "no", opener: str = "<tool_call>") -> tuple[Candidate, NotACall]:
    """A candidate that was read to its end, and why it is none."""
    buffer = TextBuffer(bytearray(f"<tool_call>{body}".encode()), ended=True, stopped=True)
    form = Format("a form", opener.encode(), strong, strong=True)
    one = begun(form, buffer, 0, offered(), Markdown(), may_go_back=True)
    with pytest.raises(NotACall) as caught:
        one.go_on()
    return one, caught.value


@pytest.mark.parametrize(("refusal", "counts"), [(BROKEN, {}), (NOT_OFFERED, {"not_offered": 1})])
def test_prose_that_only_began_like_a_call_is_not_counted(refusal: NotACall, counts: dict[str, int]) -> None:
    refusals = Refusals(None)
    refusals.note(candidate()[0], refusal)
    assert refusals.counts == counts


def test_a_candidate_that_names_an_offered_tool_is_counted_by_the_reason_that_was_seen_first() -> None:
    one, _ = candidate()
    one.evidence.name_tool("bash")
    refusals = Refusals(None)
    refusals.note(one, BROKEN)
    one.evidence.explain(NotACall(Rejection.QUOTED))
    refusals.note(one, BROKEN)
    assert refusals.counts == {Rejection.BROKEN.label: 1, Rejection.QUOTED.label: 1}


@pytest.mark.parametrize(("opener", "is_told"), [("<tool_call>", True), ("", False)])
def test_who_asks_for_it_is_told_of_what_looks_like_a_call(opener: str, is_told: bool) -> None:
    """The first thing of a reply may be anything, and is nothing until it names a tool."""
    told: list[RejectedSpan] = []
    one, _ = candidate(call_json("unknown", command="ls"), opener)
    refusals = Refusals(told)
    refusals.note(one, BROKEN)
    span = RejectedSpan(0, one.cursor.pos, "a form", "no tool 'unknown' is offered")
    assert refusals.are_told and told == ([span] if is_told else [])


def test_where_nobody_asks_nothing_is_told() -> None:
    assert not Refusals(None).are_told
