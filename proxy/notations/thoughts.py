"""Reasoning in the text of a reply: how it begins and ends, and what separates it from the text (F11, F70, F71).

Nothing in reasoning is a call. Only if a reply is nothing but reasoning that never ends, a call in a wrapper at its
very end is meant.

    <think>I could call <tool_call>{"name": "read", "arguments": {…}}</tool_call>.</think>It is done.    no call
    <think>I read the file. <tool_call>{"name": "read", "arguments": {…}}</tool_call>                    a call
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from enum import Enum

from proxy.notations.source import NeedMore, Source, Tokens
from proxy.notations.surroundings import Prose


class Section(Enum):
    """What is between two markers: reasoning; the last answer, in which nothing is called; any other text."""

    THOUGHT = "thought"
    ANSWER = "answer"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """How reasoning begins, and what ends it; `may_begin` if the prompt may have begun it already.

    `section` is what is between them: some formats mark the answer too.
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
    # Its last answer shows what it likes: no recipient in it calls anything.
    _row("<|channel|>final<|message|>", *_BARE_ENDS, section=Section.ANSWER),
    _row("<|start|>assistant<|channel|>final<|message|>", *_ENDS, section=Section.ANSWER),
    _row("<|start|>assistant<|channel|>analysis<|message|>", *_ENDS),
    # Text for the user between two calls.
    _row("<|channel|>commentary<|message|>", *_ENDS, "<|call|>", section=Section.TEXT),
    _row("<|start|>assistant<|channel|>commentary<|message|>", *_ENDS, "<|call|>", section=Section.TEXT),
)
_OF_MANY = (THINK, MM_THINK, SEED_THINK, MISTRAL, COHERE, GEMMA, *HARMONY)
_OF_FEW = (KIMI_K3, HY3, PLAMO, APERTUS, *INKLING, *SOLAR)
ALL_MARKERS = (*_OF_MANY, *_OF_FEW)
# Reasoning that is never separated from the text.
NEVER_SEPARATED = (
    _row("<thinking>", "</thinking>"),
    _row("<thought>", "</thought>"),
    _row("<|channel>thought", "<channel|>"),
    _row("<|channel|> analysis<|message|>", *_BARE_ENDS),
    _row("[unused16]", "[unused17]"),
    _row("◁think▷", "◁/think▷"),
)
# Looked for in every reply. Unless the rules say that reasoning is in the text, the end of a rare marker is text if its
# opener is missing: a server that leaves such a token in the text has its own reasons.
REASONING_MARKERS = (*_OF_MANY, *(replace(thought, may_begin=False) for thought in _OF_FEW))
# A closer that begins the next message as well: it is read again as that.
SHARED_CLOSERS = frozenset(("<|start|>",))
_QUOTED_AFTER = frozenset(" \t\r\n([{=,:")


def shown(opener: str, *closers: str) -> ReasoningMarkers:
    """Return what some formats write around the text that is meant for the user."""
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


class Mark(Enum):
    """What a mark in the text says of what follows; `STRAY`: of what precedes it, which nothing opened."""

    THOUGHT = "thought"
    TEXT = "text"
    STRAY = "stray"


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """The openers and the ends of reasoning that are looked for in one reply.

    `orphan_ends` count although nothing in the reply opened it: the prompt did. `separated` are the markers of what is
    separated from the text, by opener, and `text_ends` the ends of marked text in which calls count.
    """

    openers: Tokens
    orphan_ends: Tokens
    closers: dict[str, tuple[str, ...]]
    separated: dict[str, ReasoningMarkers]
    text_ends: tuple[str, ...]


_ORPHAN_ENDS = (*(closer for row in REASONING_MARKERS if row.may_begin for closer in row.closers), "</thinking>")


@functools.lru_cache(maxsize=64)
def marks_of(markers: tuple[ReasoningMarkers, ...]) -> Marks:
    """Return the marks of a reply whose reasoning is separated by these markers; none are if there are no markers."""
    closers = {row.opener: row.closers for row in (*ALL_MARKERS, *NEVER_SEPARATED, *markers)}
    return Marks(
        Tokens(closers),
        Tokens((*_ORPHAN_ENDS, *(closer for row in markers if row.may_begin for closer in row.closers))),
        closers,
        {row.opener: row for row in markers},
        tuple(closer for row in markers if row.section is Section.TEXT for closer in row.closers),
    )


def is_shown(source: Source, at: int, end: int, prose: Prose) -> bool:
    """Return whether the closer text[at:end] is only shown in the reasoning, after `prose`.

    Markdown is not kept strictly in reasoning, which must end all the same: a closer is shown between quotation marks,
    or as a tag of code in the middle of a line.
    """
    text, in_code = source.text, prose.in_code()
    before, behind = text[max(at - 1, 0) : at], text[end : end + 1]
    quoted = before in ("'", '"') and (at < 2 or text[at - 2] in _QUOTED_AFTER)
    if quoted or (before == "`" and in_code):
        if not behind and not source.final:
            raise NeedMore
        if behind == before:
            return True
    if not in_code or not prose.line.strip() or not text.startswith("</", at):
        return False
    rest, line_end, _ = text[end:].partition("\n")
    if not rest.strip() and not line_end and not source.final:
        raise NeedMore
    return bool(rest.strip())
