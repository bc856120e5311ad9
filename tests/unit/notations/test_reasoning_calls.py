"""Calls in reasoning are recovered only if the reply contains nothing else (F70, F71)."""

from __future__ import annotations

import pytest

from proxy.engine.events import Chunk
from proxy.notations.thoughts import Thoughts
from tests.support.helpers import (
    call_json,
    chunk,
    delta,
    ends,
    new_engine,
    new_scanner,
    run,
    says,
)
from tests.support.rows import rows
from tests.support.work import over_soon
from tests.unit.engine.test_engine import only

STRONG = f"<tool_call>\n{call_json('bash', command='ls')}\n</tool_call>"
THOUGHT = f"I should look.\n{STRONG}"
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:4<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>'
)


def thinks(text: str, key: str = "reasoning") -> Chunk:
    """Return a chunk of reasoning."""
    return chunk(delta(0, None, **{key: text}))


@pytest.mark.parametrize(
    "reply",
    [
        [thinks(THOUGHT), says("Here is the answer."), ends()],
        [says("So: "), thinks(THOUGHT), ends()],
        [thinks(THOUGHT), ends("length")],
        [thinks(THOUGHT), ends("content_filter")],
        [thinks(f"{THOUGHT} is what I could write."), ends()],
        [thinks(call_json("bash", command="ls")), ends()],
        [thinks(THOUGHT.replace("bash", "nope")), ends()],
        [thinks(THOUGHT[:-30]), ends()],
        [thinks(f"As in `{STRONG}`"), ends()],
        [thinks(THOUGHT.replace("command", "cmd")), ends()],
    ],
)
def test_any_other_call_in_reasoning_stays_reasoning(reply: list[Chunk]) -> None:
    seen = only(run(reply))
    assert seen.calls == []
    assert seen.finish in ("stop", "length", "content_filter")


def test_kimis_ids_are_kept_unless_the_conversation_contains_them() -> None:
    """F8, C5."""
    assert only(run([says(KIMI), ends()])).ids == ["functions.bash:4"]
    (known,) = only(run([says(KIMI), ends()], new_engine(ids=frozenset(("functions.bash:4",))))).ids
    assert known == "functions.bash:1"
    assert len(set(only(run([says(KIMI + KIMI), ends()])).ids)) == 2


@rows(__file__, "text,ids")
def test_every_dropped_token_is_recorded(text: str, ids: list[str]) -> None:
    """C6, F18."""
    engine = new_engine()
    run([says(text), ends()], engine)
    assert [repair.id for repair in engine.audit] == ids


@pytest.mark.parametrize("opener", ["<‖DSML", "<tool_call:", "I look. <|DSML"])
def test_reasoning_that_ends_with_an_incomplete_tag_is_read_once(opener: str) -> None:
    """C7: the tag's first character also begins the closing marker of reasoning."""
    for cut in ([opener], [*opener]):
        scanner = new_scanner(thoughts=Thoughts(begun="<think>"))
        with over_soon(3.0):
            pieces = [piece for part in cut for piece in scanner.feed(part)]
            pieces += scanner.finish(stopped=True)
        assert not any(piece.calls for piece in pieces)
        assert "".join(piece.text for piece in pieces) == opener
