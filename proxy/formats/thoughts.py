"""The model's reasoning where a server leaves it in the text: nothing in it is a call (F71).

Only if a reply is nothing but reasoning that never ends, a call in a wrapper at its very end is meant (F70).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..reader import NotACall, Parsing, RawCall, Reader
from .bodies import element
from .row import rest_of_row


@dataclass(frozen=True, slots=True)
class Thought:
    """How reasoning begins, and what ends it; `may_begin` if the prompt may have begun it already."""

    opener: str
    closers: tuple[str, ...]
    may_begin: bool = False


THOUGHTS = (
    Thought("<think>", ("</think>",), may_begin=True),
    Thought("<mm:think>", ("</mm:think>",), may_begin=True),  # MiniMax M3
    Thought("<seed:think>", ("</seed:think>",), may_begin=True),
    Thought("[THINK]", ("[/THINK]",), may_begin=True),  # Magistral, Ministral 3
    Thought("<|START_THINKING|>", ("<|END_THINKING|>",), may_begin=True),  # Cohere
    Thought("<|channel>thought\n", ("<channel|>",)),  # Gemma 4
    Thought("<|channel|>analysis<|message|>", ("<|end|>", "<|start|>", "<|return|>")),  # gpt-oss (F11)
    # Its last answer shows what it likes: no recipient in it calls anything.
    Thought("<|channel|>final<|message|>", ("<|end|>", "<|start|>", "<|return|>")),
    Thought("<|start|>assistant<|channel|>final<|message|>", ("<|end|>", "<|return|>")),
    Thought("<|start|>assistant<|channel|>analysis<|message|>", ("<|end|>", "<|return|>")),
)
# Reasoning of which a server stripped the tokens (F11): what follows is the header of the next message.
STRIPPED = Thought("analysis", ("assistantfinal",))


def last_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read a wrapped call in reasoning that never ends: it must be the last thing in it."""
    calls = yield from element(reader)
    return (yield from rest_of_row(reader, calls))


def passed(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read nothing: what begins or ends reasoning is no call."""
    raise NotACall("reasoning is no call")
