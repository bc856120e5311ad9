"""Signs that a call may begin: the patterns that the front searches for."""

from __future__ import annotations

import functools
import re

import regex

from proxy.notations import tables as n
from proxy.notations.source import Tokens
from proxy.notations.thoughts import REASONING_MARKERS, Marks, marks_of

STRONG = n.STRONG
_WHOLE = (
    *n.TOKENS,
    *(f"<{word}>" for word in n.WRAPPER_WORDS),
    *("<seed:tool_call>", "<minimax:tool_call>", "<minimax:tool_calls>", "<atem:function_calls>"),
    *("<ifm|tool_calls>", "<ifm|tool_call>"),
    *("<｜DSML｜tool_calls>", "<｜DSML｜function_calls>"),
)
# Openers that lost their first characters.
CUT_OPENERS = Tokens(opener[at:] for opener in _WHOLE for at in range(1, len(opener) - 1))
STRONG_WHOLE = re.compile(STRONG.pattern)
# Maximum nesting of wrappers.
MAX_WRAPPERS = 4
# The start of a line, maybe cut off: JSON, a fence around a call, Functionary, ReAct, Harmony, Mistral. The sign is the
# group.
LINE_SIGN = re.compile(
    r"[ \t]{0,40}([\[{]|`(?=`?\Z|``[ \t]*\w{0,20}[ \t]*(?:\Z|\n\s*+(?:\Z|[\[{<]|[\w.]++(?:\(|\Z))))"
    r"|>(?=>?\Z|>>(?:[A-Za-z_\n]|\Z)))"
    r"|(A(?=ction:|(?:c[a-z]*)?\Z)| ?t(?=o=[\w.]|(?:o=?)?\Z)|T(?=OOL_CALLS[A-Za-z_]|(?:O[A-Z_]*)?\Z))"
)
# A literal up to the end of its first word, or its second character.
_HEAD = re.compile(r"[<\[](?:[\w./~-]+|.)", re.S)
# A reply that begins with gpt-oss reasoning without its tokens. The headers of its calls lack them, too.
STRIPPED = "analysis"


@functools.lru_cache(maxsize=64)
def signs(names: tuple[str, ...], marks: Marks, *, stripped: bool = False) -> re.Pattern[str]:
    """Return the pattern of signs: the first characters of a call, of reasoning or of a token, maybe cut off.

    If it has a group, the group is the sign. `stripped`: the reply is in gpt-oss's notation without its tokens. Every
    alternative begins with a literal, so that `re` skips all other characters. No sign may begin in `PLAIN` text.
    """
    words = (*n.WRAPPER_WORDS, *n.CALL_WORDS, *names, "tool:", "DSML", "GCML", "|", "｜", "‖")
    literals = {*n.TOKENS, *n.END_OF_TURN, *marks.closers, *(f"<{word}" for word in words)}
    literals.update(*marks.closers.values())
    heads = {found.group() for each in literals if (found := _HEAD.match(each))}
    tag, token = (n.alternatives(head[1:] for head in heads if head[0] == sign) for sign in "<[")
    bare = r"|a(?=ssistantcommentary|[a-z]*\Z)" if stripped else ""
    return re.compile(
        rf"<(?=\s*+(?:{tag}|[A-Za-z][\w.-]*+[:|]|[\w./~-]*+\Z))"
        rf"|\[(?=\n|\Z|(?=[A-Zut/e])(?:{token}|[\w.]*+\s*+\(|[\w./~-]*+\s*+\Z))"
        r"|\](?=<|\Z)|◁|T(?<=[^\s\w\"'`]T)(?=OOL_CALLS[A-Za-z_]|(?:O[A-Z_]*)?\Z)"
        rf"{bare}|\n(?:{LINE_SIGN.pattern})"
    )


# Signs in a reply without tools.
_SIGNS = signs((), marks_of(REASONING_MARKERS))
# Text without signs, escaped as in a JSON string. Some servers write `\u003c` for `<`.
_NO_LINE_SIGN = rb"(?!(?:[ ]|\\t)*(?:[\[{`>]|A(?:c|\Z)|T(?:O|\Z)|t(?:o=|o?\Z)))"
_ORDINARY = rb"[^\"\\\x00-\x1f<\]\[T\xe2]*"
_SPECIAL = rb"\[(?![A-Zut/e\\]|\Z)|T(?!O|\Z)|(?<=[\s\w])T|\xe2(?!\x97\x81)|\\[nr]%b|\\[\"\\/tf]" % _NO_LINE_SIGN
PLAIN = re.compile(rb"(?!\Z)%b%b(?:(?:%b)%b)*" % (_NO_LINE_SIGN, _ORDINARY, _SPECIAL, _ORDINARY))
# A client turn or a tool result that the model invents after its call.
MADE_UP = regex.compile(
    r"<tool_response>|<\|tool_response\|>|<\|tool_response>|<function_results>|<\|im_start\|>(?:user|tool)\b"
    r"|<\|start_header_id\|>(?:user|ipython|tool)\b|<\|start\|>(?:user|functions\.)|<start_of_turn>user\b|<\|user\|>"
    r"|<\|observation\|>|<｜User｜>|<｜tool▁outputs▁begin｜>|\[TOOL_RESULTS\]"
)
END_TOKENS = Tokens(n.END_OF_TURN)
# A text that is only wrapper tokens, or only one wrapper tag. `more` are the tokens after the first.
_TOKEN, _TAG = n.alternatives((*n.TOKENS, *n.CLOSING_TOKENS)), f"{n.WRAPPER_OPEN}|{n.WRAPPER_CLOSE}"
_MORE = rf"(?P<more>(?:(?:{_TOKEN})\s{{0,200}}){{0,{MAX_WRAPPERS - 1}}})"
BARE = re.compile(rf"\s{{0,200}}(?:(?:{_TOKEN})\s{{0,200}}{_MORE}|(?:{_TAG})\s{{0,200}})")
HEADER = re.compile(r"<\|start\|>|<\|channel\|>| ?to=")
MESSAGE_ENDS = ("<|end|>", "<|eot|>", "<|eom|>", "<|call|>", "<|return|>")

_FENCE = r"```[ \t]*(?:json\w{0,9}|python|py|tool_\w+|tool|xml|javascript|js|text|bash)?[ \t]*\n\s*"
# At the start of a line: JSON whose first key may be a call's, maybe in a fence; Python calls; ReAct; Functionary.
JSON_HEAD = regex.compile(
    rf"(?:{_FENCE})?(?:[\[{{]\s{{0,200}}){{1,6}}[\"'“]\w{{1,64}}[\"'”]\s*:"
    r"|```[ \t]*\w{0,20}[ \t]*\n\s*(?:\[?[\w.]+\(|<)|\[\s{0,200}[A-Za-z_][\w.]*\s*\("
    r"|Action:\s*(?:[`\[]|[\w.-]{1,160}\s*\nAction Input:)|(?:assistant)?commentary to=|>>>\s*[A-Za-z_]"
    r"|TOOL_CALLS(?=[A-Za-z_])"
)


@functools.lru_cache(maxsize=64)
def weak_tag(names: tuple[str, ...]) -> regex.Pattern[str]:
    """Return the pattern of an opening tag of a call without a wrapper."""
    return regex.compile(rf"{n.CALL_OPEN}|<(?:tool:\s*)?(?:{n.alternatives(names)})>\s*(?=\S)")


def may_begin(text: str, pattern: re.Pattern[str] = _SIGNS) -> bool:
    """Return whether a sign may begin in a text, or at its end, whatever precedes the text."""
    return bool(LINE_SIGN.match(text) or pattern.search(text))


@functools.lru_cache(maxsize=64)
def reply_start(names: tuple[str, ...]) -> regex.Pattern[str]:
    """Return the pattern of text that may begin a call only at the start of a reply."""
    tools = n.alternatives(names)
    return regex.compile(
        rf"(?:functions?[.]?|(?:{tools})\.|>>>\s*)?(?:{tools})(?::\d{{1,6}})?"
        r"(?:[ ]?json\s*|\n\s*|[ ](?=<\|tool_call_arg))?(?:\[ARGS\]|[{(<])"
        rf"|function(?:{tools})\s*```|(?:thought\n)?call:|functools\s*\[|TOOL_CALLS|[\[{{`]|;\s*\{{|function call\s*\{{"
        r"|(?:assistant)?commentary to=|to=|Action:|all\n|print\(|default_api"
    )


_BY_SIGN = {"{": "json", "[": "list", "`": "fence", ">": "functionary", "A": "Action:", "T": "TOOL_CALLS"}
_WORD = re.compile(n.alternatives(n.WRAPPER_WORDS))
# Notations that rules may disable.
ROW_NAMES = frozenset(
    (
        "start",
        "harmony",
        "tag",
        *_BY_SIGN.values(),
        *map(str.strip, n.TOKENS),
        *(f"<{word}>" for word in n.WRAPPER_WORDS),
    )
)


def row_name(text: str, start: int) -> str:
    """Return the name of the notation at a position, as used in the `formats.off` rule."""
    found = STRONG_WHOLE.match(text, start)
    if found is None:
        return "tag" if text.startswith("<", start) else _BY_SIGN.get(text[start : start + 1], "start")
    if found.group() in n.TOKENS:
        return found.group().strip()
    word = _WORD.search(found.group())
    return f"<{word.group()}>" if word and not HEADER.match(text, start) else "harmony"
