"""Which of the markers in a text are marks of thoughts, and which are only shown there (F71)."""

from __future__ import annotations

import pytest

from proxy.formats import thought_marks
from proxy.notations.thoughts import HARMONY, INKLING, THINK, Thoughts, shown
from proxy.formats.thought_marks import INSIDES, Inside, MarkStep, ThoughtMark, ThoughtMarks
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import MAX_BLANKS
from proxy.parsing.markdown import Markdown
from proxy.transitions import IllegalTransition, next_state

OPENER, CLOSER = "<think>", b"</think>"
FINAL = HARMONY[1].opener
BEGUN = Thoughts(begun=OPENER)
UNKNOWN = Thoughts(unknown=True)


def thinking(thoughts: Thoughts | None = None) -> ThoughtMarks:
    """The marks of a reply in which a thought is open."""
    marks = ThoughtMarks(thoughts or Thoughts())
    marks.opened(OPENER, 0, 7)
    marks.take()
    return marks


def ends(before: str, behind: str = "", *, ended: bool = True, marks: ThoughtMarks | None = None) -> bool | None:
    """Whether the closer between these texts ends anything."""
    buffer, markdown = TextBuffer(), Markdown()
    buffer.data += before.encode() + CLOSER + behind.encode()
    buffer.ended = ended
    markdown.feed(before.encode())
    return (marks or thinking()).ends_here(CLOSER, buffer, markdown, len(before.encode()))


def test_an_opener_is_a_mark_where_a_segment_begins() -> None:
    marks = ThoughtMarks(Thoughts())
    marks.passed(b" \n")
    marks.opened(OPENER, 2, 9)
    assert marks.take() == ThoughtMark(2, 9, thinking=True)
    assert (marks.found, marks.closer, marks.prompted) == (None, "</think>", False)


def test_behind_text_an_opener_and_its_closer_are_text() -> None:
    marks = ThoughtMarks(Thoughts())
    marks.passed(b"The tag ")
    marks.opened(OPENER, 8, 15)
    assert (marks.found, marks.closer) == (None, "")
    assert marks.closed(CLOSER, 20, 28) == 28
    assert marks.found is None


def test_behind_a_thought_and_behind_a_call_another_one_may_begin() -> None:
    marks = thinking()
    marks.passed(b"So.")
    assert marks.fresh is False
    assert marks.closed(CLOSER, 10, 18) == 18
    assert marks.take() == ThoughtMark(10, 18, thinking=False)
    assert (marks.fresh, marks.behind) == (True, True)
    marks.passed(b"It is done.")
    assert (marks.fresh, marks.behind) == (False, False)
    marks.called()
    assert (marks.fresh, marks.behind) == (True, False)


def test_a_thought_that_the_prompt_began_ends_with_a_mark() -> None:
    marks = ThoughtMarks(BEGUN)
    assert (marks.prompted, marks.closer) == (True, "</think>")
    marks.passed(b"So.")
    marks.closed(CLOSER, 3, 11)
    assert marks.take() == ThoughtMark(3, 11, thinking=False, stray=False)
    assert (marks.prompted, marks.closer) == (False, "")


def test_where_the_prompt_may_have_begun_one_the_first_closer_alone_is_stray() -> None:
    marks = ThoughtMarks(UNKNOWN)
    marks.passed(b"So.")
    marks.closed(CLOSER, 3, 11)
    assert marks.take() == ThoughtMark(3, 11, thinking=False, stray=True)
    assert marks.closed(CLOSER, 20, 28) == 28
    assert marks.found is None


@pytest.mark.parametrize("step", ["opened", "called", "reasoning_is_separate"])
def test_what_tells_that_the_prompt_began_none_makes_a_closer_text(step: str) -> None:
    marks = ThoughtMarks(UNKNOWN)
    if step == "opened":
        marks.opened(OPENER, 0, 7)
        marks.take()
        marks.closed(CLOSER, 9, 17)
        marks.take()
    else:
        getattr(marks, step)()
    marks.closed(CLOSER, 20, 28)
    assert marks.found is None


def test_without_thoughts_there_are_no_marks() -> None:
    marks = ThoughtMarks(None)
    marks.opened(OPENER, 0, 7)
    marks.closed(CLOSER, 9, 17)
    assert (marks.found, marks.closer) == (None, "")


def test_a_server_that_tells_thoughts_apart_leaves_no_marks() -> None:
    marks = ThoughtMarks(BEGUN)
    marks.reasoning_is_separate()
    assert (marks.prompted, marks.closer) == (False, "")
    marks.opened(OPENER, 0, 7)
    assert marks.found is None


@pytest.mark.parametrize(
    ("thoughts", "opener"),
    [(Thoughts(), FINAL), (Thoughts((THINK, shown("<answer>", "</answer>"))), "<answer>")],
    ids=["the answer of harmony", "what stands around a text"],
)
def test_what_marks_the_answer_begins_no_thought(thoughts: Thoughts, opener: str) -> None:
    marks = ThoughtMarks(thoughts)
    marks.opened(opener, 0, len(opener))
    assert marks.take() == ThoughtMark(0, len(opener), thinking=False)
    assert marks.closer == ""


def test_an_opener_of_another_family_is_none() -> None:
    marks = ThoughtMarks(Thoughts(INKLING))
    marks.opened(OPENER, 0, 7)
    assert marks.found is None


def test_a_closer_that_begins_the_next_message_is_read_again() -> None:
    marks = ThoughtMarks(Thoughts())
    marks.opened(HARMONY[0].opener, 0, 28)
    marks.take()
    assert marks.closed(b"<|start|>", 30, 39) == 30
    assert marks.take() == ThoughtMark(30, 30, thinking=False)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (b'{"a": "x</think>y', 8),
        (b"</think></think>", 0),
        (b'{"a": "x</thi', 8),
        (b'{"a": "x<', 8),
        (b'{"a": "x</b>', -1),
        (b"", -1),
    ],
)
def test_a_thought_may_end_in_what_was_taken_for_a_call(text: bytes, at: int) -> None:
    assert thinking().first_closer(text) == at
    assert ThoughtMarks(Thoughts()).first_closer(text) == -1


def test_only_so_much_is_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7."""
    monkeypatch.setattr(thought_marks, "MAX_BACK", 30)
    marks = thinking()
    assert [marks.first_closer(b"x</think>y") for _ in range(4)] == [1, 1, 1, -1]


@pytest.mark.parametrize(
    ("before", "behind", "is_end"),
    [
        ("So.", "", True),
        ("the tag `", "`", False),
        ('the tag "', '"', False),
        ("the tag ('", "')", False),
        ('it said "yes"', "", True),
        ('the tag "', " and", True),
        ("run `ls and see\n", "It is done.", True),
        ("run `ls and see ", "It is done.", False),
        ("run `ls and see ", " \t\nIt is done.", True),
        ("```\ncode\n", "", True),
        ("```\ncode ", " code", False),
    ],
)
def test_a_closer_ends_a_thought_unless_it_is_only_shown_there(before: str, behind: str, is_end: bool) -> None:
    """In a thought Markdown is not kept strictly, and it must end all the same."""
    assert ends(before, behind) is is_end


@pytest.mark.parametrize("before", ["the tag `", 'the tag "', "run `ls and see "])
def test_whether_it_does_waits_for_what_follows(before: str) -> None:
    assert ends(before, ended=False) is None
    assert ends(before) is True


def test_outside_of_a_thought_code_hides_it() -> None:
    for before, is_end in (("So.", True), ("`", False), ("```\n", False)):
        assert ends(before, marks=ThoughtMarks(UNKNOWN)) is is_end


def test_blanks_without_end_are_not_waited_for() -> None:
    """C7: only so many are looked at, and then the line is over."""
    for count, is_end in ((MAX_BLANKS, None), (MAX_BLANKS + 1, True)):
        assert ends("run `ls ", " " * count, ended=False) is is_end


OPENS = {
    MarkStep.BEGIN_THOUGHT: Inside.THOUGHT,
    MarkStep.BEGIN_ANSWER: Inside.SHOWN,
    MarkStep.MENTION: Inside.TEXT,
}


@pytest.mark.parametrize("inside", Inside)
def test_a_closer_ends_whatever_is_open(inside: Inside) -> None:
    assert set(INSIDES) == set(Inside)
    for step in (MarkStep.CLOSE, MarkStep.TELL_APART):
        assert next_state(INSIDES, inside, step) is Inside.NOTHING


@pytest.mark.parametrize("inside", Inside)
@pytest.mark.parametrize("step", OPENS)
def test_nothing_is_opened_in_a_thought_that_the_reply_began(inside: Inside, step: MarkStep) -> None:
    if inside is not Inside.THOUGHT:
        assert next_state(INSIDES, inside, step) is OPENS[step]
        return
    with pytest.raises(IllegalTransition, match=f"THOUGHT cannot {step.name}"):
        next_state(INSIDES, inside, step)
