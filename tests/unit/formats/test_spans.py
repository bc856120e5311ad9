"""What a text consists of: what was found, without what in it stays text; and a parser at work on a span."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.formats.grammar import TEXT, Format, grammars
from proxy.formats.spans import CallSpan, Candidate, QuotationBefore, TextSpan, begun, parted
from proxy.formats.unwrapped import strong
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import KeptText, NotACall, RawCall, Rejection
from proxy.parsing.markdown import Markdown
from tests.support.helpers import call_json, offered

WRAPPED = "<tool_call>"
TOOLS = offered()
ONE, TWO = (RawCall(next(iter(TOOLS)), name, "{}") for name in ("one", "two"))
CALL = f"<tool_call>{call_json('bash', command='ls')}</tool_call>"
FORMAT = Format(WRAPPED, WRAPPED.encode(), strong, strong=True)
ARGUMENTS = '{"command": "ls"}'


def both(start: int, end: int) -> CallSpan:
    return CallSpan(start, end, (ONE, TWO), WRAPPED)


@pytest.mark.parametrize(
    ("kept", "parts"),
    [
        ([], [(0, 90, (ONE, TWO))]),
        ([KeptText(40, 60, 1)], [(0, 40, (ONE,)), (40, 60), (60, 90, (TWO,))]),
        ([KeptText(0, 20, 0)], [(0, 20), (20, 90, (ONE, TWO))]),
        ([KeptText(70, 90, 2)], [(0, 70, (ONE, TWO)), (70, 90)]),
        (
            [KeptText(10, 20, 0), KeptText(50, 60, 1)],
            [(0, 10, ()), (10, 20), (20, 50, (ONE,)), (50, 60), (60, 90, (TWO,))],
        ),
    ],
    ids=["nothing", "between the calls", "before them", "behind them", "twice"],
)
def test_what_stays_text_within_a_wrapper_parts_its_calls(
    kept: list[KeptText], parts: list[tuple[object, ...]]
) -> None:
    """Each byte is in one part, each call in one too."""
    found = [*parted(both(0, 90), kept)]
    assert [(each.start, each.end, *((each.calls,) if isinstance(each, CallSpan) else ())) for each in found] == parts


def test_of_what_was_let_go_before_nothing_is_said_again() -> None:
    assert [*parted(both(30, 90), [KeptText(10, 40, 0)])] == [TextSpan(30, 40), CallSpan(40, 90, (ONE, TWO), WRAPPED)]


def test_where_all_of_it_stays_text_the_end_of_the_wrapper_is_still_taken() -> None:
    found = CallSpan(0, 50, (), WRAPPED)
    assert [*parted(found, [KeptText(0, 50, 0)])] == [TextSpan(0, 50), CallSpan(50, 50, (), WRAPPED)]


def candidate(text: str, before: str = "", *, ended: bool = False, strong_one: bool = True) -> Candidate:
    """A parser at a wrapper, behind what was said before it."""
    markdown = Markdown()
    markdown.feed(before.encode())
    buffer = TextBuffer(bytearray((before + text).encode()), ended=ended, stopped=ended)
    return begun(
        FORMAT if strong_one else replace(FORMAT, strong=False),
        buffer,
        len(before.encode()),
        TOOLS,
        markdown,
        may_go_back=True,
    )


def refused(one: Candidate) -> Rejection:
    with pytest.raises(NotACall) as caught:
        one.go_on()
    return caught.value.rejection


def test_a_candidate_goes_on_as_text_comes_and_keeps_its_calls() -> None:
    buffer = TextBuffer(bytearray(CALL[:30].encode()))
    one = begun(FORMAT, buffer, 0, TOOLS, Markdown(), may_go_back=True)
    assert one.go_on() is None and one.looks_like_a_call
    buffer.data += CALL[30:].encode()
    calls = one.go_on()
    assert calls is not None and [(call.tool.name, call.arguments) for call in calls] == [("bash", ARGUMENTS)]
    assert one.go_on() is calls and one.calls is calls


def test_what_is_no_call_is_refused_with_a_reason() -> None:
    assert refused(candidate("<tool_call>no", ended=True)) in Rejection


@pytest.mark.parametrize("before", ["> ", "so\n> as: "])
def test_in_a_quoted_line_no_call_begins(before: str) -> None:
    assert refused(candidate(CALL, before, ended=True)) is Rejection.QUOTED


@pytest.mark.parametrize(("strong_one", "quoted"), [(False, True), (True, False)])
def test_behind_a_quotation_mark_only_strong_evidence_is_read(strong_one: bool, quoted: bool) -> None:
    one = candidate(CALL, 'It says "', ended=True, strong_one=strong_one)
    if quoted:
        assert refused(one) is Rejection.QUOTED
    else:
        assert one.go_on()


@pytest.mark.parametrize(("behind", "counts"), [("", True), ("\n \n", True), (" and so on", False)])
def test_where_code_would_stand_a_call_counts_only_at_the_end(behind: str, counts: bool) -> None:
    one = candidate(CALL + behind, "So:\n\n    ", ended=True)
    if counts:
        assert one.go_on()
    else:
        assert isinstance(refused(one), Rejection)


@pytest.mark.parametrize(
    ("before", "behind", "ended", "quoted"),
    [
        ("", "", True, False),
        ('It says "', '" there.', True, True),
        ('It says "', "", False, None),
        ('A 5" disk. ', " there.", True, False),
        ("Write <code>", "</code>", True, True),
        ("Write <code>", "{CALL}</code>", True, True),
        ("Write <code>", "{CALL} and", True, False),
    ],
    ids=["alone", "quoted", "more must tell", "a stray mark", "code", "two in one quotation", "two in none"],
)
def test_whether_a_quotation_ends_behind_the_calls_is_told(
    before: str, behind: str, ended: bool, quoted: bool | None
) -> None:
    one = candidate(CALL + behind.replace("{CALL}", CALL), before, ended=ended)
    assert one.go_on()
    assert one.is_quoted(10_000, grammars(json_reply=False, raw_text=False)[TEXT]) is quoted


def test_what_was_decided_or_is_not_read_is_not_asked() -> None:
    for text, decided in ((CALL[:-1], False), (CALL + '" there.', True)):
        one = candidate(text, 'It says "')
        one.go_on()
        one.decided = decided
        assert one.is_quoted(10_000, grammars(json_reply=False, raw_text=False)[TEXT]) is False


@pytest.mark.parametrize(("before", "is_open"), [("It says ", False), ('It says "', True), ('"No." ', False)])
def test_the_quotations_before_a_call_are_looked_for_once(before: str, is_open: bool) -> None:
    markdown = Markdown()
    markdown.feed(before.encode())
    around = QuotationBefore(markdown)
    assert around.found is None
    assert around.is_open() is is_open
    assert around.quotation is around.found is around.quotation
