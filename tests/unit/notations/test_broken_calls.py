"""Replies that end with an unreadable call, recognized by its markup at every cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.engine.engine import Engine
from proxy.engine.events import CallClosed, Chunk, Event, Text, Unchanged
from proxy.engine.task import Task
from proxy.json import JsonObject
from proxy.notations.toolset import Tool, ToolSet
from tests.support.helpers import all_cuts

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "required": ["command"],
}
TOOLS = ToolSet([Tool("bash", SCHEMA), Tool("read", {"type": "object"})])
TASK = Task(tools=TOOLS, seed=b"seed", hold_broken=True)
BODY = '{"name": "bash", "arguments": {"command": "say "x" y" z}}'
CALL = f"<tool_call>\n{BODY}\n</tool_call>"


def events_of(parts: list[str], task: Task = TASK, finish: str = "stop") -> tuple[list[Event], Engine]:
    """Return the engine's events of a streamed text, with forwarded events replaced by the events that they contain."""
    engine = Engine(task)
    deltas: list[JsonObject] = [{"content": part} for part in parts]
    deltas.append({})
    said: list[Event] = []
    for number, delta in enumerate(deltas, 1):
        entry: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish if number == len(deltas) else None}
        said += engine.feed(Chunk({"choices": [entry]}, b"raw", number))
    said += engine.finish(done=True)
    flat: list[Event] = []
    for event in said:
        flat += event.events if isinstance(event, Unchanged) else (event,)
    return flat, engine


def heard(events: list[Event]) -> tuple[str, list[str]]:
    """Return the text and the arguments of the calls."""
    text = "".join(event.text for event in events if isinstance(event, Text))
    return text, [event.call.arguments for event in events if isinstance(event, CallClosed)]


BROKEN = [
    CALL,
    f"Hi.\n{CALL}",
    f"Hi.\n\n{CALL}\n",
    f"<think>Hm.</think>{CALL}",
    f"{CALL}\n</tool_calls>\n",
    f"{CALL}</tool_call>",
    f"<tool_call>{BODY}</tool_call>",
    '<tool_call>\n{"name": "bash", "arguments": {"command": }\n</tool_call>',
    '<tool_call>\n{"name": "bash", "arguments": {command: }}\n</tool_call>',
    '<tool_call>\n{"name": "bash", "arguments": {"command": "ls -la',
    f"[TOOL_CALLS][{BODY}]",
    '[TOOL_CALLS]bash{"command": "say "x" y" z}',
    "<function=bash>\n<parameter=command>\nls\n",
    '<|channel|>commentary to=functions.bash <|message|>{"command": "say "x" y" z}',
    f"<|tool_call_start|>[{BODY}]<|tool_call_end|>",
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_reply_that_ends_with_a_broken_call_is_recognized_at_every_cut(text: str) -> None:
    without, _ = events_of([text], replace(TASK, hold_broken=False))
    for parts in all_cuts(text):
        events, engine = events_of(parts)
        assert heard(events) == heard(without) == (heard(without)[0], [])
        assert engine.broken_call is not None and engine.broken_call.broken == "bash"
        assert text.rstrip().endswith(engine.broken_call.text.rstrip())
        assert engine.broken_call.text.lstrip()[0] in "<["


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_call_is_released_when_the_hold_times_out(text: str) -> None:
    """C2: the reply is then not retried, because the text has been sent."""
    engine = Engine(TASK)
    said = [*engine.feed(Chunk({"choices": [{"index": 0, "delta": {"content": text}}]}, b"raw", 1))]
    assert engine.held
    said += engine.release()
    assert not engine.held
    said += engine.feed(Chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, b"raw", 2))
    said += engine.finish(done=True)
    flat = [inner for event in said for inner in (event.events if isinstance(event, Unchanged) else (event,))]
    assert engine.broken_call is None
    assert heard(flat)[0].strip() == heard(events_of([text])[0])[0].strip()
