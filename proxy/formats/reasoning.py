"""The model's reasoning where a server leaves it in the text: nothing in it is a call (F71).

Only if a reply is nothing but reasoning that never ends, a call in a wrapper at its very end is meant (F70).

    <think>I could call <tool_call>{"name": "read", "arguments": {…}}</tool_call>.</think>It is done.    no call
    <think>I read the file. <tool_call>{"name": "read", "arguments": {…}}</tool_call>                    a call
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.formats.unwrapped import rest_of_calls
from proxy.formats.wrappers import read_wrapper
from proxy.parsing.cursor import Cursor, NotACall, Parsing, RawCall, Unreadable


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """How reasoning begins, and what ends it; `may_begin` if the prompt may have begun it already."""

    opener: str
    closers: tuple[str, ...]
    may_begin: bool = False


REASONING_MARKERS = (
    ReasoningMarkers("<think>", ("</think>",), may_begin=True),
    ReasoningMarkers("<mm:think>", ("</mm:think>",), may_begin=True),  # MiniMax M3
    ReasoningMarkers("<seed:think>", ("</seed:think>",), may_begin=True),
    ReasoningMarkers("[THINK]", ("[/THINK]",), may_begin=True),  # Magistral, Ministral 3
    ReasoningMarkers("<|START_THINKING|>", ("<|END_THINKING|>",), may_begin=True),  # Cohere
    ReasoningMarkers("<|channel>thought\n", ("<channel|>",)),  # Gemma 4
    ReasoningMarkers("<|channel|>analysis<|message|>", ("<|end|>", "<|start|>", "<|return|>")),  # gpt-oss (F11)
    # Its last answer shows what it likes: no recipient in it calls anything.
    ReasoningMarkers("<|channel|>final<|message|>", ("<|end|>", "<|start|>", "<|return|>")),
    ReasoningMarkers("<|start|>assistant<|channel|>final<|message|>", ("<|end|>", "<|return|>")),
    ReasoningMarkers("<|start|>assistant<|channel|>analysis<|message|>", ("<|end|>", "<|return|>")),
)
# Reasoning of which a server stripped the tokens (F11): what follows is the header of the next message.
STRIPPED = ReasoningMarkers("analysis", ("assistantfinal",))


def last_call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a wrapped call in reasoning that never ends: it must be the last thing in it."""
    try:
        calls = yield from read_wrapper(cursor)
    except Unreadable as refusal:
        # The reasoning goes on behind it, and may end.
        raise NotACall(str(refusal)) from None
    return (yield from rest_of_calls(cursor, calls))


def no_call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read nothing: what begins or ends reasoning is no call."""
    raise NotACall("reasoning is no call")
