"""Text that waits until it is decided: what leaves when, and in which shape (contracts C1, C2)."""

from __future__ import annotations

import pytest

from proxy.engine.choice_delta import ChoiceDelta
from proxy.engine.events import Chunk, Event, Reasoning, Text, Unchanged
from proxy.engine.held_text import MODES, HeldText, ModeStep, TextMode
from proxy.transitions import IllegalTransition, next_state


def fed(*texts: str, verbatim: bool = True) -> HeldText:
    """Chunks of these texts that wait."""
    held = HeldText(0)
    for text in texts:
        add(held, text, verbatim=verbatim)
    return held


def add(held: HeldText, text: str, *, reasoning: str = "", finish: str | None = None, verbatim: bool = True) -> None:
    delta = ChoiceDelta(text, reasoning, (), finish)
    held.append(held.receive(Chunk({}, raw(text)), delta, forward_verbatim=verbatim))
    check(held)


def raw(text: str) -> bytes:
    return b"data: " + text.encode()


def check(held: HeldText) -> None:
    """The invariants of the positions and of the queue."""
    assert 0 <= held.sent <= held.decided <= held.received
    assert all(each.start <= each.sent <= each.end for each in held.queue)
    ends = [each.end for each in held.queue]
    assert [each.start for each in held.queue][1:] == ends[:-1]
    assert not ends or ends[-1] == held.received


def verbatim(text: str) -> Unchanged:
    return Unchanged(raw(text), (Text(0, text),))


def test_a_chunk_waits_until_all_of_its_text_is_decided() -> None:
    """C1: then it leaves as it came."""
    held = fed("ab", "cd")
    assert held.leave(1) == []
    check(held)
    assert held.leave(3) == [verbatim("ab")]
    check(held)
    assert held.leave(4) == [verbatim("cd")]
    assert (held.sent, held.decided, held.received, held.waits) == (4, 4, 4, False)


def test_several_chunks_leave_in_their_order() -> None:
    assert fed("a", "b", "c").leave(3) == [verbatim("a"), verbatim("b"), verbatim("c")]


def test_a_chunk_without_text_waits_for_those_before_it() -> None:
    """A role, or usage, does not overtake the text."""
    held = fed("a", "", "b")
    assert held.leave(0) == []
    assert held.leave(1) == [verbatim("a"), Unchanged(raw(""), ())]


def test_what_waits_too_long_leaves_in_part_and_the_rest_is_written_anew() -> None:
    """C2: such a chunk is not forwarded verbatim any more."""
    held = fed("abcd")
    held.leave(2)
    assert held.split() == [Text(0, "ab")]
    check(held)
    assert held.sent == 2
    assert held.split() == []
    assert held.leave(4) == [Text(0, "cd")]


def test_a_split_takes_no_more_than_the_first_chunk() -> None:
    held = fed("abcd", "ef")
    held.decided = 6
    assert held.split() == [Text(0, "abcd")]
    assert held.sent == 4
    check(held)


def test_text_that_became_a_call_does_not_leave() -> None:
    """The prose before it does, by itself."""
    held = fed("Look.<call>", "</call> Done.")
    held.leave(5)
    assert held.discard(18) == [Text(0, "Look.")]
    check(held)
    assert held.sent == 18
    assert held.leave(24) == [Text(0, " Done.")]


def test_chunks_of_nothing_but_a_call_are_gone() -> None:
    held = fed("<call>", "x", "</call>")
    assert held.discard(14) == []
    assert not held.queue
    check(held)


def test_a_chunk_behind_the_call_is_untouched() -> None:
    """C1."""
    held = fed("<call/>", " Done.")
    held.discard(7)
    assert held.leave(13) == [verbatim(" Done.")]


def test_reasoning_leaves_once_and_before_its_text() -> None:
    held = HeldText(0)
    add(held, "ab", reasoning="why")
    assert held.leave(2) == [Unchanged(raw("ab"), (Reasoning(0, "why"), Text(0, "ab")))]
    add(held, "cd", reasoning="why")
    assert held.release_reasoning() == [Reasoning(0, "why")]
    assert held.release_reasoning() == []
    assert held.leave(4) == [Text(0, "cd")]


def test_reasoning_leaves_before_the_call_to_which_it_led() -> None:
    held = HeldText(0)
    add(held, "<call/>", reasoning="why")
    assert held.discard(7) == [Reasoning(0, "why")]


def test_what_shares_its_chunk_with_others_is_never_forwarded_verbatim() -> None:
    assert fed("ab", verbatim=False).leave(2) == [Text(0, "ab")]


def test_prose_that_has_nothing_to_wait_for_passes_by() -> None:
    held = HeldText(0)
    received = held.receive(Chunk({}, raw("ab")), ChoiceDelta("ab", "", (), None), forward_verbatim=True)
    assert held.pass_by(received) == [verbatim("ab")]
    assert (held.sent, held.decided, held.received) == (2, 2, 2)


def test_the_chunk_that_says_the_finish_waits_for_the_end() -> None:
    """C4: only then the true finish is known."""
    held = HeldText(0)
    add(held, "ab", finish="stop")
    assert not held.waits
    assert held.leave(2) == []
    events, final = held.finish(keep_final=True)
    assert events == [verbatim("ab")]
    assert final is not None and final.raw == raw("ab")


@pytest.mark.parametrize("keep", [True, False])
def test_a_finish_that_is_not_true_is_written_anew(keep: bool) -> None:
    held = HeldText(0)
    add(held, "ab", finish="stop")
    held.leave(2)
    expected: list[Event] = [verbatim("ab")] if keep else [Text(0, "ab")]
    assert held.finish(keep_final=keep)[0] == expected


def test_what_comes_behind_the_finish_leaves_before_it() -> None:
    held = HeldText(0)
    add(held, "ab", finish="stop")
    add(held, "cd")
    held.leave(4)
    events, final = held.finish(keep_final=True)
    assert events == [Text(0, "ab"), Text(0, "cd")]
    assert final is not None and final.raw == raw("ab")


def test_a_finish_of_which_a_part_has_left_is_written_anew() -> None:
    held = HeldText(0)
    add(held, "abcd", finish="stop")
    held.leave(2)
    assert held.split() == [Text(0, "ab")]
    held.leave(4)
    assert held.finish(keep_final=True)[0] == [Text(0, "cd")]


def test_without_a_finish_there_is_no_final_chunk() -> None:
    assert HeldText(0).finish(keep_final=True) == ([], None)


def test_positions_count_characters() -> None:
    held = fed("größe")
    assert held.received == 5
    held.leave(3)
    assert held.split() == [Text(0, "grö")]


MARKS = {
    ModeStep.BEGIN_THOUGHT: TextMode.THOUGHT_BEGINS,
    ModeStep.BEGIN_TEXT: TextMode.TEXT_BEGINS,
    ModeStep.TELL_APART: TextMode.TEXT,
}
FIRST_WORDS = {TextMode.TEXT_BEGINS: TextMode.TEXT, TextMode.THOUGHT_BEGINS: TextMode.THOUGHT}


@pytest.mark.parametrize("mode", TextMode)
@pytest.mark.parametrize("step", MARKS)
def test_a_mark_tells_what_follows_whatever_was_before(mode: TextMode, step: ModeStep) -> None:
    assert set(MODES) == set(TextMode)
    assert next_state(MODES, mode, step) is MARKS[step]


@pytest.mark.parametrize("mode", TextMode)
def test_what_begins_goes_on_with_its_first_word(mode: TextMode) -> None:
    if mode in FIRST_WORDS:
        assert next_state(MODES, mode, ModeStep.SAY) is FIRST_WORDS[mode]
        return
    with pytest.raises(IllegalTransition, match=f"{mode.name} cannot SAY"):
        next_state(MODES, mode, ModeStep.SAY)
