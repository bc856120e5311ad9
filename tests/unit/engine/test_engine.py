"""The engine over whole replies: live, unchanged where nothing needs repair, and with a correct finish (C1 to C5)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from proxy.dialects.chat.client_view import ChoiceView
from proxy.engine.engine import Engine
from proxy.engine.events import (
    CallClosed,
    Chunk,
    Event,
    Finished,
    Unchanged,
)
from proxy.engine.task import Task
from proxy.notations.thoughts import Thoughts
from tests.support.helpers import (
    SEED,
    all_cuts,
    call_json,
    calls,
    chunk,
    delta,
    ends,
    new_engine,
    piece,
    random_cut,
    run,
    says,
    view,
)

LS = '{"command": "ls"}'
WEAK = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{WEAK}\n</tool_call>"
ROLE = chunk(delta(role="assistant", content=""))
USAGE = chunk(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
CALL = (calls(piece(0, "{", "bash", "a")), calls(piece(0, '"command": "l')), calls(piece(0, 's"}')))


def raws(events: list[Event]) -> list[bytes]:
    """Return the bytes of the forwarded events."""
    return [event.raw for event in events if isinstance(event, Unchanged)]


def only(events: list[Event]) -> ChoiceView:
    """Return the client's view of a successful reply with one choice."""
    views = view(events)
    assert views.failed is None
    assert list(views.choices) == [0]
    return views[0]


CLEAN: dict[str, list[Chunk]] = {
    "text": [ROLE, says("Just "), says("text."), ends(), USAGE],
    "text in the finish chunk": [ROLE, says("a"), chunk(delta(0, "stop", content="b"))],
    "text with a marker": [ROLE, says("See 1"), says("<tool"), says(" box>"), ends()],
    "reasoning": [ROLE, chunk(delta(reasoning="so")), chunk(delta(reasoning_content="so")), says("x"), ends()],
    "call": [ROLE, *CALL, ends("tool_calls"), USAGE],
    "text, then a call": [ROLE, says("I will."), *CALL, ends("tool_calls")],
    "cut off": [ROLE, says("Just"), ends("length")],
    "filtered": [ROLE, says("Just"), ends("content_filter")],
    "texts": [ROLE, says("a"), says(" "), says("b"), ends()],
    "nothing": [ROLE, ends()],
    "unknown chunk": [ROLE, chunk(prompt_progress={"total": 5}), says("a"), ends()],
    "two choices": [says("Hi "), says("Oh ", choice=1), ends(), says("c", choice=1), ends("length", choice=1)],
}


@pytest.mark.parametrize("name", [name for name in CLEAN if name != "two choices"])
def test_a_clean_stream_is_forwarded_unchanged_and_in_order(name: str) -> None:
    """C1: only held pieces of a call are rewritten."""
    engine = new_engine()
    events = run(CLEAN[name], engine)
    quiet = [each.raw for each in CLEAN[name] if each not in CALL]
    assert raws(events) == quiet and engine.audit == ()
    if "call" not in name:
        assert len(events) == len(quiet)


def test_clean_streams_of_two_choices_are_forwarded_unchanged() -> None:
    """C1: only a finish may be sent later than it was received."""
    events = run(CLEAN["two choices"])
    assert sorted(raws(events)) == sorted(each.raw for each in CLEAN["two choices"])
    assert [(number, seen.text, seen.finish) for number, seen in view(events).choices.items()] == [
        (0, "Hi ", "stop"),
        (1, "Oh c", "length"),
    ]


@pytest.mark.parametrize("name", CLEAN)
def test_without_tools_everything_is_forwarded(name: str) -> None:
    """F86: nothing is parsed if no tool is offered."""
    events = run(CLEAN[name], Engine(Task(tools=None, seed=SEED)))
    assert sorted(raws(events)) == sorted(each.raw for each in CLEAN[name])
    assert all(isinstance(event, Unchanged) for event in events)


REPLIES: dict[str, tuple[str, str, list[tuple[str, str]], str]] = {
    "text": ("Just text, 1 < 2.", "Just text, 1 < 2.", [], "stop"),
    "a call in the text": (STRONG, "", [("bash", LS)], "tool_calls"),
    "text around a call": (f"a\n{STRONG}\nb", "a\n\nb", [("bash", LS)], "tool_calls"),
    "two calls": (f"ï🙂 {STRONG}\n{STRONG}", "ï🙂 ", [("bash", LS)] * 2, "tool_calls"),
    "a weak call": (f"I will.\n{WEAK}\n", "I will.\n", [("bash", LS)], "tool_calls"),
    "an invalid call": (f"{WEAK}\nis a call", f"{WEAK}\nis a call", [], "stop"),
    "half a marker": ("a <tool_", "a <tool_", [], "stop"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_does_not_depend_on_the_cuts(name: str) -> None:
    """C1 to C4, style point 5: calls, ids, text and finish are equal at every cut."""
    text, kept, found, finish = REPLIES[name]
    ids = None
    for cut in all_cuts(text):
        seen = only(run([ROLE, *map(says, cut), ends()]))
        assert (seen.text, seen.calls, seen.finish) == (kept, found, finish)
        ids = ids or seen.ids
        assert seen.ids == ids
        with_finish = [*map(says, cut[:-1]), chunk(delta(0, "stop", content=cut[-1]))]
        assert only(run(with_finish)) == seen


def test_ids_depend_only_on_the_seed_the_choice_and_the_index() -> None:
    chunks = [says(f"{STRONG}{STRONG}"), says(STRONG, choice=1), ends(), ends(choice=1)]
    seen = view(run(chunks))
    again = view(run(chunks))
    other = view(run(chunks, Engine(Task(tools=new_engine()._task.tools, seed=b"other"))))
    ids = [*seen[0].ids, *seen[1].ids]
    assert len(set(ids)) == 3
    assert ids == [*again[0].ids, *again[1].ids]
    assert not set(ids) & set(other[0].ids)
    assert all(len(each) == 29 and each.startswith("call_") for each in ids)
    assert int(ids[0][5:], 16) >= 0


AFTER = [says("b"), chunk(delta(reasoning="b")), CALL[0], USAGE, chunk(delta())]


@pytest.mark.parametrize(
    ("late", "task"), [*((late, {}) for late in [*AFTER, ends("length")]), *((late, {"tools": None}) for late in AFTER)]
)
@pytest.mark.parametrize("final", [ends(), chunk(delta(0, "stop", content="x")), ends("tool_calls")])
def test_nothing_follows_the_finish_of_a_choice(late: Chunk, final: Chunk, task: dict[str, Any]) -> None:
    """C5, F58: neither in the events nor in the bytes of forwarded events."""
    engine = Engine(Task(**{"tools": new_engine()._task.tools, "seed": SEED, **task}))
    events = run([says("a"), final, late, *CALL[1:]] if late is CALL[0] else [says("a"), final, late], engine)
    assert view(events)[0].finish
    said = [event for event in events if not isinstance(event, CallClosed)]
    ending = [
        at
        for at, event in enumerate(said)
        if isinstance(event, Finished) or (isinstance(event, Unchanged) and b'"finish_reason": null' not in event.raw)
    ]
    follow = [event for event in said[ending[0] + 1 :] if not (isinstance(event, Unchanged) and event.raw == USAGE.raw)]
    assert follow == []


@pytest.mark.parametrize("text", ["a", STRONG, f"a{STRONG}b", STRONG[:-2], "a <"])
def test_a_chunk_with_reasoning_and_text_sends_each_once(text: str) -> None:
    first = chunk(delta(reasoning="so", content=text[:5]))
    seen = only(run([first, says(text[5:]), chunk(delta(0, "stop", reasoning=" then"))]))
    alone = only(run([says(text), ends()]))
    assert (seen.reasoning, seen.text, seen.calls, seen.finish) == ("so then", alone.text, alone.calls, alone.finish)


def test_an_entry_without_a_usable_index_belongs_to_the_first_choice() -> None:
    entries: list[dict[str, Any]] = [{"delta": {"content": "a"}}, {"index": -1, "delta": {"content": "b"}}]
    seen = only(run([*(chunk(entry) for entry in entries), ends()]))
    assert seen.text == "ab"


def test_random_replies_of_several_choices_do_not_depend_on_the_cuts() -> None:
    rng = random.Random(3)
    texts = [text for text, *_ in REPLIES.values()]
    for _ in range(60):
        chosen = rng.choices(texts, k=3)
        todo = [[(number, part) for part in random_cut(text, rng)] for number, text in enumerate(chosen)]
        chunks = []
        while any(todo):
            parts = rng.choice([each for each in todo if each])
            number, part = parts.pop(0)
            chunks.append(says(part, choice=number))
        seen = view(run([*chunks, *(ends(choice=number) for number in range(3))]))
        for number, text in enumerate(chosen):
            alone = only(run([says(text), ends()]))
            assert (seen[number].text, seen[number].calls) == (alone.text, alone.calls)
            assert seen[number].finish == alone.finish


def test_without_tools_the_servers_calls_follow_the_held_text() -> None:
    """F86."""
    reply = [says("I will. <thi"), calls(piece(0, "{}", "bash", "a")), ends("tool_calls")]
    seen = only(run(reply, Engine(Task(tools=None, seed=SEED, thoughts=Thoughts()))))
    assert (seen.text, seen.calls) == ("I will. <thi", [("bash", "{}")])


def test_without_tools_the_closing_marker_of_reasoning_is_removed() -> None:
    """F86."""
    engine = Engine(Task(tools=None, seed=SEED, thoughts=Thoughts(unknown=True)))
    seen = only(run([says("So."), says("</think>It is done."), ends()], engine))
    assert (seen.text, seen.reasoning) == ("So.It is done.", "")


def test_printed_and_structured_calls_are_numbered_together() -> None:
    """C5: indexes are 0, 1, 2, and ids are unique."""
    other = calls(piece(0, '{"command": "pwd"}', "bash", "a"))
    seen = only(run([says(STRONG), other, ends("tool_calls")]))
    assert seen.calls == [("bash", LS), ("bash", '{"command": "pwd"}')]
    assert len(set(seen.ids)) == 2


def test_a_call_that_is_both_structured_and_printed_is_sent_once() -> None:
    """F28: this holds in either order. Two structured calls stay two (F51)."""
    for reply in ([says(STRONG), *CALL], [*CALL, says(STRONG)]):
        seen = only(run([*reply, ends("tool_calls")]))
        assert (seen.calls, seen.text) == ([("bash", LS)], "")
    twice = [says(STRONG), *CALL, calls(piece(1, LS, "bash", "b")), ends("tool_calls")]
    assert only(run(twice)).calls == [("bash", LS)] * 2


def test_feeding_after_the_finish_raises() -> None:
    engine = new_engine()
    run([says("a"), ends()], engine)
    with pytest.raises(ValueError, match="finish"):
        engine.feed(says("b"))
