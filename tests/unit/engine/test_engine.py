"""The engine over whole replies: live, clean where nothing needs repair, and true at the end (C1 to C5)."""

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
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
)
from proxy.engine.task import Task
from proxy.errors import UnreadableReply, UpstreamBroken
from proxy.notations.toolset import ToolSet
from tests.support.helpers import (
    SEED,
    all_cuts,
    call_json,
    calls,
    chunk,
    delta,
    ends,
    flat,
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
    """The bytes of the events that passed."""
    return [event.raw for event in events if isinstance(event, Unchanged)]


def only(events: list[Event]) -> ChoiceView:
    """What the client has of the one choice of a reply that did not fail."""
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
def test_a_clean_stream_leaves_as_the_very_bytes_in_order(name: str) -> None:
    """C1: but for the pieces of a call that had to wait."""
    engine = new_engine()
    events = run(CLEAN[name], engine)
    quiet = [each.raw for each in CLEAN[name] if each not in CALL]
    assert raws(events) == quiet and engine.audit == ()
    if "call" not in name:
        assert len(events) == len(quiet)


def test_the_choices_of_a_clean_stream_leave_as_the_very_bytes() -> None:
    """C1: only a finish may come later than it came."""
    events = run(CLEAN["two choices"])
    assert sorted(raws(events)) == sorted(each.raw for each in CLEAN["two choices"])
    assert [(number, seen.text, seen.finish) for number, seen in view(events).choices.items()] == [
        (0, "Hi ", "stop"),
        (1, "Oh c", "length"),
    ]


@pytest.mark.parametrize("name", CLEAN)
def test_without_tools_everything_passes(name: str) -> None:
    """F86: nothing is parsed where nothing can be called."""
    events = run(CLEAN[name], Engine(Task(tools=None, seed=SEED)))
    assert sorted(raws(events)) == sorted(each.raw for each in CLEAN[name])
    assert all(isinstance(event, Unchanged) for event in events)


def test_without_tools_a_call_in_the_text_stays_text() -> None:
    """F86."""
    seen = only(run([says(STRONG), ends()], Engine(Task(tools=None, seed=SEED))))
    assert (seen.text, seen.ids, seen.finish) == (STRONG, [], "stop")


REPLIES: dict[str, tuple[str, str, list[tuple[str, str]], str]] = {
    "text": ("Just text, 1 < 2.", "Just text, 1 < 2.", [], "stop"),
    "a call in the text": (STRONG, "", [("bash", LS)], "tool_calls"),
    "text around a call": (f"a\n{STRONG}\nb", "a\n\nb", [("bash", LS)], "tool_calls"),
    "two calls": (f"ï🙂 {STRONG}\n{STRONG}", "ï🙂 ", [("bash", LS)] * 2, "tool_calls"),
    "a weak call": (f"I will.\n{WEAK}\n", "I will.\n", [("bash", LS)], "tool_calls"),
    "a call that is none": (f"{WEAK}\nis a call", f"{WEAK}\nis a call", [], "stop"),
    "half a marker": ("a <tool_", "a <tool_", [], "stop"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_the_same_at_every_cut(name: str) -> None:
    """C1 to C4, style point 5: calls, ids, text and finish do not depend on how the text was cut."""
    text, kept, found, finish = REPLIES[name]
    ids = None
    for cut in all_cuts(text):
        seen = only(run([ROLE, *map(says, cut), ends()]))
        assert (seen.text, seen.calls, seen.finish) == (kept, found, finish)
        ids = ids or seen.ids
        assert seen.ids == ids
        with_finish = [*map(says, cut[:-1]), chunk(delta(0, "stop", content=cut[-1]))]
        assert only(run(with_finish)) == seen


def test_ids_depend_on_the_seed_the_choice_and_the_index_alone() -> None:
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


FINISHES: list[tuple[list[Chunk], bool, str | None, int]] = [
    ([says("a"), ends("tool_calls")], True, "stop", 0),
    ([says(STRONG), ends("stop")], True, "tool_calls", 1),
    ([*CALL, ends("stop")], True, "tool_calls", 1),
    ([*CALL, ends("length")], True, "length", 1),
    ([says("a"), ends("content_filter")], True, "content_filter", 0),
    ([says("a"), ends("abort")], True, "abort", 0),
    ([says("a")], True, "stop", 0),
    ([says(STRONG)], True, "tool_calls", 1),
    ([*CALL], True, "tool_calls", 1),
    ([says("a"), ends()], False, "stop", 0),
    ([says("a"), ends("length")], False, "length", 0),
    ([says("a")], False, None, 0),
    ([says(STRONG)], False, None, 1),
    ([says(WEAK)], False, None, 0),
    ([*CALL], False, None, 1),
    ([], False, None, 0),
    ([ROLE], False, None, 0),
]


@pytest.mark.parametrize(("chunks", "done", "finish", "found"), FINISHES)
def test_the_finish_is_true(chunks: list[Chunk], done: bool, finish: str | None, found: int) -> None:
    """C4, F54 to F57: a reply without finish reason and `[DONE]` broke off."""
    events = run(chunks, done=done)
    seen = view(events)
    assert (seen[0].finish, len(seen[0].ids)) == (finish, found)
    assert bool(seen.failed) is (finish is None)
    if seen.failed:
        assert isinstance(seen.failed.error, UpstreamBroken)
        assert isinstance(events[-1], Failed)


def test_without_tools_a_missing_finish_is_supplied_too() -> None:
    """C4: of finish reason and `[DONE]` the one that is missing is supplied."""
    assert only(run([says("a")], Engine(Task(tools=None, seed=SEED)))).finish == "stop"


def test_without_tools_a_reply_without_an_end_broke_off() -> None:
    events = run([says("a")], Engine(Task(tools=None, seed=SEED)), done=False)
    assert isinstance(events[-1], Failed)


AFTER = [says("b"), chunk(delta(reasoning="b")), CALL[0], USAGE, chunk(delta())]


@pytest.mark.parametrize(
    ("late", "task"), [*((late, {}) for late in [*AFTER, ends("length")]), *((late, {"tools": None}) for late in AFTER)]
)
@pytest.mark.parametrize("final", [ends(), chunk(delta(0, "stop", content="x")), ends("tool_calls")])
def test_nothing_of_a_choice_follows_its_finish(late: Chunk, final: Chunk, task: dict[str, Any]) -> None:
    """C5, F58: in the events, and in the bytes of those that pass."""
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


def test_reasoning_passes_while_text_waits() -> None:
    engine = new_engine()
    engine.feed(says("<tool_call>"))
    thinks = chunk(delta(reasoning="so"))
    assert engine.feed(thinks) == (Unchanged(thinks.raw, (Reasoning(0, "so"),)),)


@pytest.mark.parametrize("text", ["a", STRONG, f"a{STRONG}b", STRONG[:-2], "a <"])
def test_a_chunk_of_reasoning_and_text_says_both_once(text: str) -> None:
    first = chunk(delta(reasoning="so", content=text[:5]))
    seen = only(run([first, says(text[5:]), chunk(delta(0, "stop", reasoning=" then"))]))
    alone = only(run([says(text), ends()]))
    assert (seen.reasoning, seen.text, seen.calls, seen.finish) == ("so then", alone.text, alone.calls, alone.finish)


def test_text_waits_only_while_it_can_become_a_call() -> None:
    """C2."""
    engine = new_engine()
    first, second, third = says("<tool"), says("_call>"), says(" is a tag")
    assert engine.feed(first) == ()
    assert engine.held
    assert engine.feed(second) == ()
    assert raws([*engine.feed(third)]) == [first.raw, second.raw, third.raw]
    assert not engine.held
    assert engine.feed(says("a <tool")) == (Text(0, "a "),)
    assert [*flat(engine.feed(says("box>")))] == [Text(0, "<tool"), Text(0, "box>")]


def test_held_text_is_let_go_when_a_structured_call_comes() -> None:
    for held in (STRONG[:-3], WEAK, "a <"):
        events = run([says(held), *CALL, ends("tool_calls")])
        seen = only(events)
        assert (seen.text, seen.calls, seen.finish) == (held, [("bash", LS)], "tool_calls")


def test_released_text_leaves_as_it_came() -> None:
    engine = new_engine()
    held = says(STRONG[:-3])
    engine.feed(held)
    (passed,) = engine.release()
    assert isinstance(passed, Unchanged)
    assert passed.raw == held.raw
    assert not engine.held
    assert engine.release() == ()
    assert only(list(run([ends()], engine))).finish == "stop"


def test_a_chunk_of_text_and_calls_says_both() -> None:
    both = calls(piece(0, LS, "bash", "a"), content="I will.")
    seen = only(run([both, ends("tool_calls")]))
    assert (seen.text, seen.calls) == ("I will.", [("bash", LS)])


def test_a_call_in_the_finish_chunk_is_taken() -> None:
    """F58: the finish comes after it."""
    last = chunk(delta(0, "stop", tool_calls=[piece(0, LS, "bash", "a")]))
    seen = only(run([ROLE, last]))
    assert (seen.calls, seen.finish) == ([("bash", LS)], "tool_calls")


def test_calls_of_the_text_and_of_the_server_are_counted_together() -> None:
    """C5: indexes count 0, 1, 2, and ids differ."""
    other = calls(piece(0, '{"command": "pwd"}', "bash", "a"))
    seen = only(run([says(STRONG), other, ends("tool_calls")]))
    assert seen.calls == [("bash", LS), ("bash", '{"command": "pwd"}')]
    assert len(set(seen.ids)) == 2


def test_a_call_that_the_server_says_and_prints_too_is_one() -> None:
    """F28: in either order; two that it says are two (F51)."""
    for reply in ([says(STRONG), *CALL], [*CALL, says(STRONG)]):
        seen = only(run([*reply, ends("tool_calls")]))
        assert (seen.calls, seen.text) == ([("bash", LS)], "")
    twice = [says(STRONG), *CALL, calls(piece(1, LS, "bash", "b")), ends("tool_calls")]
    assert only(run(twice)).calls == [("bash", LS)] * 2


ERROR = {"message": "no", "type": "server_error", "code": 500}


@pytest.mark.parametrize(
    ("body", "status"), [({"error": ERROR}, 500), ({"object": "error", **ERROR}, 500), ({"detail": "no"}, 502)]
)
def test_an_error_event_fails_after_what_was_held(body: dict[str, Any], status: int) -> None:
    """F65."""
    events = run([says("a <tool"), Chunk(body, b"")])
    seen = view(events)
    assert seen[0].text == "a <tool"
    assert seen.failed
    assert (seen.failed.error.message, seen.failed.error.status) == ("no", status)


def test_a_json_reply_has_no_weak_calls_and_raw_text_no_end_of_turn() -> None:
    assert only(run([says(WEAK), ends()], new_engine(json_reply=True))).text == WEAK
    assert only(run([says("Hi.<|im_end|>"), ends()], new_engine(raw_text=True))).text == "Hi."


def test_limits_of_the_task_reach_the_scanner_and_the_gatherer() -> None:
    """C7."""
    assert only(run([says(part) for part in STRONG] + [ends()], new_engine(max_held=30))).text == STRONG
    with pytest.raises(UpstreamBroken):
        run([calls(piece(0, LS, "bash", "a"), piece(1, LS, "bash", "b"))], new_engine(max_calls=1))


@pytest.mark.parametrize("choices", [None, [], [None, 7]])
@pytest.mark.parametrize("tools", [None, ToolSet(())])
def test_chunks_without_usable_choices_do_not_break_the_reply(choices: Any, tools: ToolSet | None) -> None:
    odd = Chunk({"choices": choices}, b"data: odd\n\n")
    assert only(run([odd, says("a"), ends()], Engine(Task(tools=tools, seed=SEED)))).text == "a"


@pytest.mark.parametrize("choices", ["x", {}, {"0": {"delta": {"content": "a"}}}, 7, ["x"], [["x"]]])
@pytest.mark.parametrize("tools", [None, ToolSet(())])
def test_choices_that_cannot_be_read_end_the_reply(choices: Any, tools: ToolSet | None) -> None:
    odd = Chunk({"choices": choices}, b"data: odd\n\n")
    events = Engine(Task(tools=tools, seed=SEED)).feed(odd)
    assert isinstance(events[-1], Failed) and isinstance(events[-1].error, UnreadableReply)


@pytest.mark.parametrize("place", [{"content": "a"}, {"message": {"content": "a"}}, {"delta": {"reasoning": "a"}}])
def test_content_outside_of_the_choices_ends_the_reply(place: dict[str, Any]) -> None:
    (event,) = new_engine().feed(Chunk(place, b"data: odd\n\n"))
    assert isinstance(event, Failed) and isinstance(event.error, UnreadableReply)


def test_what_is_held_leaves_before_the_error() -> None:
    engine = new_engine()
    assert engine.feed(says("<tool_call>")) == ()
    *held, failed = engine.feed(chunk(delta(content={"a": 1})))
    assert [*flat(held)] == [Text(0, "<tool_call>")] and isinstance(failed, Failed)


def test_an_entry_without_a_usable_index_is_the_first_choice() -> None:
    entries: list[dict[str, Any]] = [{"delta": {"content": "a"}}, {"index": -1, "delta": {"content": "b"}}]
    seen = only(run([*(chunk(entry) for entry in entries), ends()]))
    assert seen.text == "ab"


def test_feeding_after_the_finish_raises() -> None:
    """Style, point 2."""
    engine = new_engine()
    run([says("a"), ends()], engine)
    with pytest.raises(ValueError, match="finish"):
        engine.feed(says("b"))


def test_random_replies_of_several_choices_are_the_same_at_every_cut() -> None:
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
