"""Markers of reasoning in the text of a reply, and its separation from the text (F11, F70, F71).

Nothing in reasoning is a call. The one exception: a wrapped call at the very end of a reply that consists only of
unclosed reasoning.

    <think>I could call <tool_call>{"name": "read", "arguments": {…}}</tool_call>.</think>It is done.    no call
    <think>I read the file. <tool_call>{"name": "read", "arguments": {…}}</tool_call>                    a call
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from enum import Enum

from proxy.notations.source import Tokens


class Section(Enum):
    """Kind of text between two markers: reasoning, the final answer (no calls count in it), or other text."""

    THOUGHT = "thought"
    ANSWER = "answer"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """Opener and closers of reasoning. `may_begin`: the prompt may have opened it.

    `section` is the kind of text between them: some formats mark the answer, too.
    """

    opener: str
    closers: tuple[str, ...]
    may_begin: bool = False
    section: Section = Section.THOUGHT


def _row(opener: str, *closers: str, may_begin: bool = False, section: Section = Section.THOUGHT) -> ReasoningMarkers:
    return ReasoningMarkers(opener, closers, may_begin, section)


THINK = _row("<think>", "</think>", may_begin=True)
MM_THINK = _row("<mm:think>", "</mm:think>", may_begin=True)  # MiniMax M3
SEED_THINK = _row("<seed:think>", "</seed:think>", may_begin=True)
MISTRAL = _row("[THINK]", "[/THINK]", may_begin=True)  # Magistral, Ministral 3
COHERE = _row("<|START_THINKING|>", "<|END_THINKING|>", may_begin=True)
GEMMA = _row("<|channel>thought\n", "<channel|>")  # Gemma 4
KIMI_K3 = _row("<|open|>think<|sep|>", "<|close|>think<|sep|>", may_begin=True)
HY3 = _row("<think:opensource>", "</think:opensource>", may_begin=True)  # Hunyuan 3
PLAMO = _row("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>", may_begin=True)
APERTUS = _row("<|inner_prefix|>", "<|inner_suffix|>")
INKLING = (
    _row("<|message_model|><|content_thinking|>", "<|end_message|>"),
    _row("<|content_thinking|>", "<|end_message|>"),
)
SOLAR = (_row("<|begin|>assistant<|think|>", "<|end|>"), _row("<|think|>", "<|end|>"))
_ENDS = ("<|end|>", "<|return|>")
_BARE_ENDS = (*_ENDS, "<|start|>")
HARMONY = (
    _row("<|channel|>analysis<|message|>", *_BARE_ENDS),  # gpt-oss (F11)
    # No recipient in the final answer calls anything.
    _row("<|channel|>final<|message|>", *_BARE_ENDS, section=Section.ANSWER),
    _row("<|start|>assistant<|channel|>final<|message|>", *_ENDS, section=Section.ANSWER),
    _row("<|start|>assistant<|channel|>analysis<|message|>", *_ENDS),
    # Text for the user between calls.
    _row("<|channel|>commentary<|message|>", *_ENDS, "<|call|>", section=Section.TEXT),
    _row("<|start|>assistant<|channel|>commentary<|message|>", *_ENDS, "<|call|>", section=Section.TEXT),
)
_OF_MANY = (THINK, MM_THINK, SEED_THINK, MISTRAL, COHERE, GEMMA, *HARMONY)
_OF_FEW = (KIMI_K3, HY3, PLAMO, APERTUS, *INKLING, *SOLAR)
ALL_MARKERS = (*_OF_MANY, *_OF_FEW)
# Reasoning that is never separated.
NEVER_SEPARATED = (
    _row("<thinking>", "</thinking>"),
    _row("<thought>", "</thought>"),
    _row("<|channel>thought", "<channel|>"),
    _row("<|channel|> analysis<|message|>", *_BARE_ENDS),
    _row("[unused16]", "[unused17]"),
    _row("◁think▷", "◁/think▷"),
)
# Markers to find in every reply. A rare closer without its opener stays text unless the rules declare reasoning in the
# text: a server that leaves such a token in the text does so on purpose.
REASONING_MARKERS = (*_OF_MANY, *(replace(thought, may_begin=False) for thought in _OF_FEW))
# Closers that also begin the next message. They are read again as its start.
SHARED_CLOSERS = frozenset(("<|start|>",))


def shown(opener: str, *closers: str) -> ReasoningMarkers:
    """Return the markers that some formats write around text for the user."""
    return ReasoningMarkers(opener, closers, section=Section.TEXT)


@dataclass(frozen=True, slots=True)
class Thoughts:
    """Settings for separating reasoning from the text of a reply.

    `markers` are the markers of the model's family, and `family` is its name, or "" if unknown. `begun` is the opener
    at the end of the prompt, if any. `unknown`: the prompt may have opened reasoning, so the text before the first
    closer counts as reasoning once that closer arrives.
    """

    markers: tuple[ReasoningMarkers, ...] = REASONING_MARKERS
    begun: str = ""
    unknown: bool = False
    family: str = field(default="", compare=False)


class Mark(Enum):
    """Kind of the text after a mark. STRAY: the text before the mark was reasoning without an opener."""

    THOUGHT = "thought"
    TEXT = "text"
    STRAY = "stray"


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Openers and closers of reasoning in one reply.

    `orphan_ends` are closers that count without an opener, because the prompt may have opened reasoning. `separated`
    are the markers of separated text, by opener.
    """

    openers: Tokens
    orphan_ends: Tokens
    closers: dict[str, tuple[str, ...]]
    separated: dict[str, ReasoningMarkers]


_ORPHAN_ENDS = (*(closer for row in REASONING_MARKERS if row.may_begin for closer in row.closers), "</thinking>")


@functools.lru_cache(maxsize=64)
def marks_of(markers: tuple[ReasoningMarkers, ...]) -> Marks:
    """Return the marks of a reply with reasoning separated by these markers; without markers, none is separated."""
    closers = {row.opener: row.closers for row in (*ALL_MARKERS, *NEVER_SEPARATED, *markers)}
    return Marks(
        Tokens(closers),
        Tokens((*_ORPHAN_ENDS, *(closer for row in markers if row.may_begin for closer in row.closers))),
        closers,
        {row.opener: row for row in markers},
    )
