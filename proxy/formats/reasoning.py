"""The model's reasoning where a server leaves it in the text: nothing in it is a call (F71).

Only if a reply is nothing but reasoning that never ends, a call in a wrapper at its very end is meant (F70).

    <think>I could call <tool_call>{"name": "read", "arguments": {…}}</tool_call>.</think>It is done.    no call
    <think>I read the file. <tool_call>{"name": "read", "arguments": {…}}</tool_call>                    a call
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from proxy.formats.unwrapped import rest_of_calls
from proxy.formats.wrappers import read_wrapper
from proxy.parsing.cursor import Cursor, NotACall, Parsing, RawCall, Unreadable


class Section(Enum):
    """What stands between two markers: a thought; the last answer, in which nothing is called; any other text."""

    THOUGHT = "thought"
    ANSWER = "answer"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """How reasoning begins, and what ends it; `may_begin` if the prompt may have begun it already.

    `section` says what is between them: some formats mark the answer too.
    """

    opener: str
    closers: tuple[str, ...]
    may_begin: bool = False
    section: Section = Section.THOUGHT


THINK = ReasoningMarkers("<think>", ("</think>",), may_begin=True)
MM_THINK = ReasoningMarkers("<mm:think>", ("</mm:think>",), may_begin=True)  # MiniMax M3
SEED_THINK = ReasoningMarkers("<seed:think>", ("</seed:think>",), may_begin=True)
MISTRAL = ReasoningMarkers("[THINK]", ("[/THINK]",), may_begin=True)  # Magistral, Ministral 3
COHERE = ReasoningMarkers("<|START_THINKING|>", ("<|END_THINKING|>",), may_begin=True)
GEMMA = ReasoningMarkers("<|channel>thought\n", ("<channel|>",))  # Gemma 4
KIMI_K3 = ReasoningMarkers("<|open|>think<|sep|>", ("<|close|>think<|sep|>",), may_begin=True)
HY3 = ReasoningMarkers("<think:opensource>", ("</think:opensource>",), may_begin=True)  # Hunyuan 3
PLAMO = ReasoningMarkers("<|plamo:begin_think:plamo|>", ("<|plamo:end_think:plamo|>",), may_begin=True)
APERTUS = ReasoningMarkers("<|inner_prefix|>", ("<|inner_suffix|>",))
INKLING = (
    ReasoningMarkers("<|message_model|><|content_thinking|>", ("<|end_message|>",)),
    ReasoningMarkers("<|content_thinking|>", ("<|end_message|>",)),
)
SOLAR = (
    ReasoningMarkers("<|begin|>assistant<|think|>", ("<|end|>",)),
    ReasoningMarkers("<|think|>", ("<|end|>",)),
)
_NEXT = "<|start|>"
HARMONY = (
    ReasoningMarkers("<|channel|>analysis<|message|>", ("<|end|>", _NEXT, "<|return|>")),  # gpt-oss (F11)
    # Its last answer shows what it likes: no recipient in it calls anything.
    ReasoningMarkers("<|channel|>final<|message|>", ("<|end|>", _NEXT, "<|return|>"), section=Section.ANSWER),
    ReasoningMarkers(
        "<|start|>assistant<|channel|>final<|message|>", ("<|end|>", "<|return|>"), section=Section.ANSWER
    ),
    ReasoningMarkers("<|start|>assistant<|channel|>analysis<|message|>", ("<|end|>", "<|return|>")),
)
_OF_MANY = (THINK, MM_THINK, SEED_THINK, MISTRAL, COHERE, GEMMA, *HARMONY)
_OF_FEW = (KIMI_K3, HY3, PLAMO, APERTUS, *INKLING, *SOLAR)
ALL_MARKERS = (*_OF_MANY, *_OF_FEW)
# What every reply is looked through for. Where nobody has said that thoughts are in the text, what would end one of the
# rarer ones is text as long as none began: a server that leaves such a token in the text has its own reasons.
REASONING_MARKERS = (*_OF_MANY, *(replace(thought, may_begin=False) for thought in _OF_FEW))
# A closer that begins the next message as well: it is read once more as that.
SHARED_CLOSERS = frozenset((_NEXT.encode(),))


def shown(opener: str, *closers: str) -> ReasoningMarkers:
    """What some formats write around the text that is meant for the user."""
    return ReasoningMarkers(opener, closers, section=Section.TEXT)


@dataclass(frozen=True, slots=True)
class Thoughts:
    """How reasoning is separated from the text of a reply, where the proxy does that.

    `markers` are those of the model's family, whose name is `family`, or "" if it is not known. `begun` is the opener
    with which the prompt ends, if it opens reasoning. `unknown`: it may do so; the text before the first closer then
    counts as reasoning once that comes.
    """

    markers: tuple[ReasoningMarkers, ...] = REASONING_MARKERS
    begun: str = ""
    unknown: bool = False
    family: str = field(default="", compare=False)


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
