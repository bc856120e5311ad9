"""Why a candidate is no call: the labels that metrics count, and the sentences that people read."""

from __future__ import annotations

import pytest

from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import Context, Cursor
from proxy.parsing.evidence import VERDICTS, Evidence, KeptText, NotACall, Rejection, Truncated, Verdict, VerdictStep
from proxy.transitions import IllegalTransition
from tests.support.helpers import offered

# What dashboards read: a label that changes breaks them.
LABELS = {
    "NOT_OFFERED": "not_offered",
    "QUOTED": "quoted",
    "COPIED": "copied",
    "OVER_LIMIT": "limit",
    "RELEASED": "waited",
    "FORMAT_OFF": "format_off",
    "JSON_REPLY": "json_reply",
    "CUT_OFF": "cut_off",
    "DEFINITION": "broken",
    "BROKEN": "broken",
}


def test_the_labels_stay() -> None:
    assert {rejection.name: rejection.label for rejection in Rejection} == LABELS


def test_a_refusal_says_why_in_words() -> None:
    assert str(NotACall(Rejection.QUOTED)) == "it is quoted"
    assert str(NotACall(Rejection.NOT_OFFERED, "no tool 'x' is offered")) == "no tool 'x' is offered"
    worded = NotACall("a key was expected")
    assert (worded.rejection, str(worded)) == (Rejection.BROKEN, "a key was expected")
    assert Truncated("the text ends").rejection is Rejection.CUT_OFF


def test_what_prose_is_full_of_is_not_worth_counting() -> None:
    silent = {rejection.name for rejection in Rejection if not rejection.telling}
    assert silent == {"BROKEN", "DEFINITION", "RELEASED"}


def test_the_first_reason_is_kept_until_another_is_given() -> None:
    cursor = Cursor(TextBuffer(), 0, Context(offered()))
    assert str(cursor.rejected("nothing was found")) == "nothing was found"
    cursor.tool("unknown")
    cursor.reject(Rejection.QUOTED)
    assert (cursor.evidence.rejection, cursor.evidence.why) == (Rejection.NOT_OFFERED, "no tool 'unknown' is offered")
    assert cursor.rejected("nothing was found").rejection is Rejection.NOT_OFFERED
    cursor.evidence.explain(NotACall("more text follows"))
    assert (cursor.evidence.rejection, cursor.evidence.why) == (Rejection.BROKEN, "more text follows")


WAYS = {
    (Verdict.OPEN, VerdictStep.REJECT): Verdict.VOID,
    (Verdict.OPEN, VerdictStep.SKIP): Verdict.SKIPPING,
    (Verdict.SKIPPING, VerdictStep.RESUME): Verdict.OPEN,
    (Verdict.SKIPPING, VerdictStep.ABANDON): Verdict.VOID,
}


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("step", VerdictStep)
def test_a_verdict_moves_by_its_table_alone(verdict: Verdict, step: VerdictStep) -> None:
    evidence = Evidence(verdict=verdict)
    expected = WAYS.get((verdict, step))
    if expected is None:
        with pytest.raises(IllegalTransition):
            evidence.move(step)
        return
    evidence.move(step, 7)
    assert (evidence.verdict, evidence.since) == (expected, 7)


def test_the_table_knows_each_verdict() -> None:
    assert set(VERDICTS) == set(Verdict)


def test_a_body_that_names_no_offered_tool_stays_text_where_its_wrapper_may_hold_others() -> None:
    cursor = Cursor(TextBuffer(bytearray(b"a body, and another")), 0, Context(offered(), holds_several=True))
    cursor.tool("unknown")
    assert (cursor.passing, cursor.void) == (True, True)
    cursor.pos = 6
    assert cursor.resume(0)
    assert not cursor.void
    assert cursor.evidence.kept_text == [KeptText(0, 6, 0)]


def test_of_several_named_tools_it_is_not_said_which() -> None:
    evidence = Evidence()
    assert (evidence.named, evidence.tool) == (False, "")
    for name, expected in (("read", "read"), ("read", "read"), ("bash", ""), ("read", "")):
        evidence.name_tool(name)
        assert (evidence.named, evidence.tool) == (True, expected)


def test_what_a_parser_says_is_kept() -> None:
    evidence, behind = Evidence(), Evidence()
    evidence.add_span(0, 4)
    behind.add_span(5, 9)
    evidence.add_spans_of(behind)
    evidence.keep_text(KeptText(4, 5, 1))
    evidence.weaken()
    evidence.end_raw_value()
    evidence.tell_format("xml")
    assert evidence == Evidence(
        weak=True, spans=[(0, 4), (5, 9)], kept_text=[KeptText(4, 5, 1)], format="xml", raw_values=True
    )
