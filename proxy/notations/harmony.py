"""Messages of gpt-oss and its kin that name their recipient: `<|channel|>commentary to=functions.f<|message|>{…}`."""

from __future__ import annotations

import re

import regex

from proxy.notations.calls import Call, ReadCalls
from proxy.notations.source import NoCall
from proxy.notations.tags import TagReader
from proxy.tools.toolset import Tool

_HEADER = regex.compile(
    r"(?:<\|start\|>\s*)?(?:assistant)?\s*(?:to=(?P<role>[^\s<]+))?\s*"
    r"(?P<channels>(?:<\|channel\|>\s*\w+\s*(?:to=[^\s<]+)?\s*)*)"
    r"(?P<constrained><\|constrain\|>)?\s*\w*\s*<\|message\|>\s*"
)
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_PEOPLE = frozenset(("self", "user", "all", "assistant"))
# Brackets and blanks that may be left over behind the arguments.
MAX_BRACKETS = 3
_ENDS = ("<|call|>", "<|end|>", "<|eot|>", "<|eom|>", "<|return|>")


def read_message(reader: TagReader, pos: int) -> ReadCalls:
    """Read the call that a message to a tool is."""
    source, found = reader.source, reader.source.match(_HEADER, pos)
    names = _RECIPIENT.findall(found.group()) if found else []
    if not found or not names:
        raise NoCall("the message goes to no tool")
    channels = set(_CHANNEL.findall(found["channels"]))
    if channels != {"analysis"} and (names[0] in _PEOPLE or channels - {"commentary"}):
        raise NoCall("a message that calls nothing")
    tool, at = reader.tool(names[0]), source.blanks(found.end())
    if at == source.size:
        raise NoCall("the arguments are missing")
    if source.starts("<|call|>", at):
        return [Call(tool, names[0], {}, pos, at + len("<|call|>"))], at + len("<|call|>"), True
    if source.text[at] == "<" and reader.opener(at):
        return reader.wrapped(at)
    call = _call(reader, tool, names[0], pos, at)
    call.end, closed = _end(reader, call.end, analysis=channels == {"analysis"})
    if channels == {"analysis"} and not found["constrained"]:
        closed = closed and source.text.endswith("<|call|>", 0, call.end)
    return [call], call.end, closed


def _call(reader: TagReader, tool: Tool | None, name: str, start: int, at: int) -> Call:
    """Return the call whose arguments begin at a position."""
    sign = reader.source.text[at]
    if sign == "<":
        value, end, _ = reader.tag_values(at, tool)
        return Call(tool, name, value, start, end)
    if sign not in '{"':
        raise NoCall("the arguments are missing")
    read = reader.json_arguments(at, tool)
    return Call(tool, name, read.value, start, read.end, told=read.told, completed=read.completed)


def _end(reader: TagReader, pos: int, *, analysis: bool) -> tuple[int, bool]:
    """Return where a message ends, and whether it is closed."""
    source, at = reader.source, reader.source.blanks(pos)
    while not analysis and at < source.size:
        bracket = source.text[at] in "}]" and at - pos < MAX_BRACKETS
        if not (end := at + 1 if bracket else reader.orphan_end(at)):
            break
        at = source.blanks(end)
    for token in _ENDS:
        if source.starts(token, at):
            return at + len(token), token != "<|end|>" or not analysis
    if source.starts("<|start|>", at):
        return pos, True
    if at != source.size:
        raise NoCall("more than an object")
    return pos, False
