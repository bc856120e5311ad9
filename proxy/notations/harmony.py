"""Messages of gpt-oss and its kin that name their recipient: `<|channel|>commentary to=functions.f<|message|>{…}`."""

from __future__ import annotations

import re

import regex

from proxy.notations.arguments import ArgumentReader
from proxy.notations.calls import Call, Opener, ReadCalls
from proxy.notations.source import NoCall, Tokens

_HEADER = regex.compile(
    r"(?:<\|start\|>\s*)?(?:assistant)?\s*(?:to=(?P<role>[^\s<]+))?\s*"
    r"(?P<channels>(?:<\|channel\|>\s*\w+\s*(?:to=[^\s<]+)?\s*)*)"
    r"(?:<\|constrain\|>)?\s*\w*\s*<\|message\|>\s*"
)
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_PEOPLE = frozenset(("self", "user", "all", "assistant"))
# Brackets and blanks that may be left over after the arguments.
MAX_BRACKETS = 3
_ENDS = Tokens(("<|call|>", "<|end|>", "<|eot|>", "<|eom|>", "<|return|>"))


def read_message(reader: ArgumentReader, pos: int) -> ReadCalls:
    """Read the call that a message to a tool is."""
    source, found = reader.source, reader.source.match(_HEADER, pos)
    names = _RECIPIENT.findall(found.group()) if found else []
    if not found or not names:
        raise NoCall("the message goes to no tool")
    channels = set(_CHANNEL.findall(found["channels"]))
    if channels != {"analysis"} and (names[0] in _PEOPLE or channels - {"commentary"}):
        raise NoCall("a message that calls nothing")
    tool, at = reader.tool(names[0]), source.blanks(found.end())
    if source.starts("<|call|>", at):
        reader.closed = True
        return [Call(tool, names[0], {}, pos, at + len("<|call|>"))], at + len("<|call|>")
    if source.text.startswith("<", at) and reader.opener(at):
        return reader.wrapped(at)
    if not source.text.startswith(("{", '"', "<"), at):
        raise NoCall("the arguments are missing")
    (call,), at = reader.arguments(at, names[0], pos, "", Opener(0))
    call.end, reader.closed = _end(reader, at, analysis=channels == {"analysis"})
    return [call], call.end


def _end(reader: ArgumentReader, pos: int, *, analysis: bool) -> tuple[int, bool]:
    """Return where a message ends, and whether it is closed; in the channel of reasoning only a call's token does."""
    source, at = reader.source, reader.source.blanks(pos)
    while not analysis and at < source.size:
        bracket = source.text[at] in "}]" and at - pos < MAX_BRACKETS
        if not (end := at + 1 if bracket else reader.orphan_end(at)):
            break
        at = source.blanks(end)
    if token := source.token(_ENDS, at):
        return at + len(token), not analysis or token == "<|call|>"
    if at < source.size and not source.starts("<|start|>", at):
        raise NoCall("more than an object")
    return pos, at < source.size and not analysis
