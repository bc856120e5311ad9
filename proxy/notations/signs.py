"""Where a call may begin: the signs that the front looks for, and what tells them apart."""

from __future__ import annotations

import functools
import re

import regex

from proxy.notations import tables as n
from proxy.notations.source import Tokens
from proxy.notations.thoughts import Marks

STRONG = n.STRONG
STRONG_WHOLE = re.compile(STRONG.pattern)
# No opener is longer.
ENOUGH = 400
_ANYWHERE = r"(?<=[^\s\w\"'`])TOOL_CALLS(?=[A-Za-z_])|<(?=[|｜‖a-zA-Z/\[\s]|$)|\[(?=[A-Zut/e]|$)|\](?=<|$)|◁"
SIGNS = re.compile(rf"{_ANYWHERE}|^Action:|^ ?to=(?=[\w.])|^[ \t]*(?P<line>[\[{{`]|>>>(?=[A-Za-z_]|$))", re.M)
# The end of a text that may become a sign.
MAY_BECOME_SIGN = re.compile(
    r"(?<=[^\s\w\"'`])T(?:O(?:O(?:L(?:_(?:C(?:A(?:L(?:LS?)?)?)?)?)?)?)?)?\Z"
    r"|^(?:A(?:c(?:t(?:i(?:on?)?)?)?)?| ?to?=?| |[ \t]*>{1,2})\Z",
    re.M,
)
# What may begin something in a text, or at its end, whatever precedes it.
_MAY_BEGIN = re.compile(
    r"[<◁\]]|\[(?=[A-Zut/e]|\Z)|(?<![\s\w\"'`])T(?=O|\Z)|^[ \t]*(?:[\[{`>]|A(?=c|\Z)|t(?=o=|o?\Z))", re.M
)
# A text, as it is in a string of JSON, in which nothing begins. `\u003c` is written by some for `<`.
_LINE_START = rb"(?:[ ]|\\t)*+(?![\[{`>]|A(?:c|\Z)|t(?:o=|o?\Z))"
PLAIN = re.compile(
    rb"%b(?>(?:[^\"\\\x00-\x1f<\]\[T\xe2]++|\[(?![A-Zut/e\\]|\Z)|T(?!O|\Z)|(?<=[\s\w])T|\xe2(?!\x97\x81)"
    rb"|\\[nr]%b|\\[\"\\/tbf])*+)" % (_LINE_START, _LINE_START)
)
END_TOKENS = Tokens(n.END_OF_TURN)
HEADER = re.compile(r"<\|start\|>|<\|channel\|>| ?to=")
MESSAGE_ENDS = ("<|end|>", "<|eot|>", "<|eom|>", "<|call|>", "<|return|>", "<|start|>")

_WORDS = "|".join((*n.NAME_WORDS, *n.ARGUMENT_WORDS, *n.LIST_WORDS, "id", "type", "tool_call_id", "role"))
_FENCE = r"```[ \t]*(?:json\w{0,9}|python|py|tool_\w+|tool|xml|javascript|js|text|bash)?[ \t]*\n\s*"
# At the start of a line: JSON whose first key may be a call's, perhaps in a fence; calls of Python; ReAct; Functionary.
JSON_HEAD = regex.compile(
    rf"(?:{_FENCE})?(?:[\[{{]\s*){{1,6}}[\"'“](?:{_WORDS}|\w{{1,64}})[\"'”]\s*:"
    r"|```[ \t]*\w{0,20}[ \t]*\n\s*(?:\[?[\w.]+\(|<)|\[\s*[A-Za-z_][\w.]*\s*\(|\{\s*\w+\s*:\s*[\"']"
    r"|Action:\s*[`\[]|>>>\s*[A-Za-z_]"
)


@functools.lru_cache(maxsize=64)
def weak_tag(names: tuple[str, ...]) -> regex.Pattern[str]:
    """Return what opens a call in tags without its wrapper."""
    return regex.compile(rf"{n.CALL_OPEN}|<(?:tool:\s*)?(?:{n.alternatives(names)})>\s*(?=\S)")


@functools.lru_cache(maxsize=64)
def any_tag(names: tuple[str, ...], marks: Marks) -> re.Pattern[str]:
    """Return what opens or ends anything with an angle bracket."""
    reasoning = (marks.opener.pattern, marks.orphan_end.pattern, n.alternatives(marks.text_ends))
    parts = (STRONG.pattern, *reasoning, n.alternatives(n.END_OF_TURN), weak_tag(names).pattern)
    return re.compile("|".join(f"(?:{part})" for part in parts))


def may_begin(text: str) -> bool:
    """Return whether something may begin in a text, or at its end."""
    return _MAY_BEGIN.search(text) is not None


@functools.lru_cache(maxsize=64)
def reply_start(names: tuple[str, ...]) -> regex.Pattern[str]:
    """Return what may begin a call as the first thing of a reply only."""
    tools = n.alternatives(names)
    return regex.compile(
        rf"(?:functions?[.]?|(?:{tools})\.|>>>\s*)?(?:{tools})(?::\d{{1,6}})?(?:[ ]?json\s*|\n\s*)?(?:\[ARGS\]|[{{(<])"
        rf"|function(?:{tools})\s*```|(?:thought\n)?call:|functools\s*\[|TOOL_CALLS|[\[{{`]|;\s*\{{|function call\s*\{{"
        r"|(?:analysis.*?)?(?:assistant)?commentary to=|to=|(?:Thought:.*?)?Action:|all\n"
        r"|[\w.:|｜▁ ]{1,60}[>\]]\s*[\[{<\w]|print\(|default_api",
        regex.S,
    )
