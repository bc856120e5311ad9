"""Calls in tags. The name is in an opening tag, in a sub-tag, or the tag itself; keys and raw values are in tags."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod

import regex

from proxy.json import Json, JsonObject
from proxy.notations import tables as n
from proxy.notations.calls import Call, JsonArguments, Opener, ReadCalls
from proxy.notations.literals import element_value, literal, typed
from proxy.notations.marks import NAMED, Level, Mark, Marks, spelling
from proxy.notations.raw_values import Layout, RawEnd, RawValue, ValueEnd, ends_turn
from proxy.notations.source import NoCall, Source, Tokens, Torn
from proxy.notations.toolset import Tool, ToolSet
from proxy.notations.validator import Validator

WRAPPER_TAG = regex.compile(n.WRAPPER_OPEN)
WRAPPER_END = regex.compile(n.WRAPPER_CLOSE)
CALL_TAG = regex.compile(n.CALL_OPEN)
CALL_END = regex.compile(n.CALL_CLOSE)
VALUE_END = regex.compile(rf"</(?:[\w.-]+[:|])?(?:arg_value|arg_key|{n.alternatives(n.PARAMETER_WORDS)})(?::\w+)?>")
TAG_NAME = re.compile(r"(?:=|name\s*=)\s*[\"']?([^<>\"'\n]+?)[\"']?\s*(?:/?>|\s\w+=|<\|sep)|tool=\"([^\"]+)\"")
# A closing tag of a wrapper, call or value.
_ORPHAN = regex.compile(f"{n.WRAPPER_CLOSE}|{n.CALL_CLOSE}|{VALUE_END.pattern}")
CLOSERS = Tokens(n.CLOSING_TOKENS)
SUBNAME = regex.compile(r"<(name|tool_name|function|function_name|Function|tool)>\s*(?P<N>[^<>\n]{1,120}?)\s*</\1>\s*")
SUBARGS = regex.compile(r"<(arguments|parameters|args|Parameters|input)>\s*")
_PLAIN_TAG = regex.compile(r"(?:\]<\]minimax\[>\[)?<(?:tool:\s*)?([A-Za-z_][\w.-]*)>")
# `<parameter=read>` in place of `<function=read>`.
_MISNAMED = regex.compile(r"<parameter=([\w.-]{1,200})>(?=\s{0,99}(?:<parameter=|</function>))")
_CDATA = re.compile(r"\s*<!\[CDATA\[((?:(?!\]\]>).)*)\]\]>\s*", re.S)
_BARS = re.compile(r"<[｜|‖\s]*(DSML|GCML)")
_ONE_LINE = re.compile(r"\r?\n[ \t]*([^\n]*?)\r?\n[ \t]*")
_LINE_END = re.compile(r"\r?\n[ \t]*\Z")
_NO_KEY = re.compile(r"[=<>\"'{}]")


class TagReader(ABC):
    """Reader of calls in tags. Its subclass `CallReader` reads everything else.

    State after a read: `closed`, the wrapper or message is closed; `deep`, the unreadable text may contain anything, so
    calls in it do not count; `last`, the last value; `uneven`, the last value begins on a new line but its end tag does
    not; `offered`, the first tool that was named; `astray`, the last name is not that of an offered tool.
    """

    def __init__(self, source: Source, tools: ToolSet) -> None:
        self.source, self.tools, self.layout = source, tools, Layout()
        self.last: RawValue | None = None
        self.offered: Tool | None = None
        self.uneven = self.deep = self.closed = self.astray = False

    @abstractmethod
    def wrapped(self, pos: int, depth: int = 0) -> ReadCalls:
        """Return the calls in the wrapper at a position."""

    @abstractmethod
    def json_arguments(self, at: int, tool: Tool | None) -> JsonArguments:
        """Return the arguments object of a call, and its end."""

    def tool(self, name: str) -> Tool | None:
        """Return the offered tool that a name refers to."""
        tool = self.tools.resolve(name)
        self.astray, self.offered = tool is None, self.offered or tool
        return tool

    def closer(self, pos: int, opener: Opener) -> int:
        """Return the position after a wrapper's closer, or -1."""
        for token in opener.closers:
            if self.source.starts(token, pos):
                return pos + len(token)
        if not self.source.text.startswith(("<", "]"), pos):
            return -1
        if found := self.source.match(WRAPPER_END, pos, ends=True):
            return found.end()
        token = self.source.token(CLOSERS, pos)
        return pos + len(token) if token else -1

    def orphan_end(self, pos: int) -> int:
        """Return the position after a closing tag of a wrapper, call or value, or 0."""
        found = self.source.match(_ORPHAN, pos) if self.source.text[pos] in "<]" else None
        return found.end() if found else 0

    # -- calls ------------------------------------------------------------------------------------------------------

    def tag_call(self, pos: int, opener: Opener | None) -> ReadCalls:
        """Read a call whose name is in an opening tag, in a sub-tag, or the tag itself."""
        if found := self.source.match(CALL_TAG, pos):
            return self._in_call_tag(pos, found.group(), found.end())
        if found := self.source.match(SUBNAME, pos):
            return self._in_sub_tags(pos, found["N"], found.end())
        found = self.source.match(_PLAIN_TAG, pos)
        if found and (tool := self.tools.resolve(found.group(1))):
            return self._in_element(pos, found, tool, opener)
        found = self.source.match(_MISNAMED, pos) if opener and opener.tag else None
        if found and self.tools.resolve(found.group(1)):
            return self._in_call_tag(pos, f"<function={found.group(1)}>", found.end())
        raise NoCall("a tag of a call was expected")

    def _in_call_tag(self, pos: int, tag: str, at: int) -> ReadCalls:
        """Read `<function=NAME>`, tags or JSON, `</function>`."""
        source, named = self.source, TAG_NAME.search(tag)
        if named is None:
            raise NoCall("a name was expected")
        self.layout.words[Level.CALL] = spelling(tag)
        self.layout.lined = source.text[pos - 1 : pos] == "\n"
        name = (named.group(1) or named.group(2)).strip()
        if tag.endswith("/>"):
            return [Call(self.tool(name), name, {}, pos, at)], at
        tool, at = self.tool(name), source.blanks(self._repeated((tag,), at))
        value, at, told, _ = self._values(at, tool)
        end = source.blanks(at)
        found = source.match(CALL_END, end) if source.text.startswith(("<", "]"), end) else None
        if found is None and end < source.size and not ends_turn(source, end) and self.closer(end, Opener(0)) < 0:
            opens = source.match(WRAPPER_TAG, end) or source.match(CALL_TAG, end)
            if not value and (opens or source.text[end] not in "<]"):
                raise Torn("no call goes on like this")
            if not opens:
                raise NoCall("a value or the end of the call was expected")
        call = Call(tool, name, value, pos, found.end() if found else at)
        call.tagged, call.closed_itself, call.told = True, found is not None, told
        return [call], call.end

    def _values(self, at: int, tool: Tool | None, elements: tuple[str, ...] = ()) -> JsonArguments:
        """Return values in JSON or in tags, and their end."""
        if self.source.text.startswith("{", at):
            return self.json_arguments(at, tool)
        return self.tag_values(at, tool, elements)

    def _in_sub_tags(self, pos: int, name: str, at: int) -> ReadCalls:
        """Read `<name>NAME</name>`, then JSON or tags, maybe inside `<arguments>`."""
        source, tool = self.source, self.tool(name)
        inner = source.match(SUBARGS, at)
        if inner:
            at = source.blanks(inner.end())
        value, at, told, _ = self._values(at, tool, (inner.group(1),) if inner else ())
        end_tag, after = f"</{inner.group(1)}>" if inner else "", source.blanks(at)
        if inner and not (source.starts(end_tag, after) or after == source.size or ends_turn(source, after)):
            self.deep = tool is not None
            raise NoCall("an end tag was expected")
        at = self._repeated((end_tag,), at) if inner else at
        return [Call(tool, name, value, pos, at, told=told)], at

    def _in_element(self, pos: int, found: regex.Match[str], tool: Tool, opener: Opener | None) -> ReadCalls:
        """Read `<NAME>`, then tags, JSON, or the tool's only required string, then `</NAME>`."""
        source, name, at, told = self.source, found.group(1), self.source.blanks(found.end()), False
        end_tag = "</tool>" if "tool:" in found.group() else f"</{name}>"
        value: JsonObject = {}
        closes = source.starts("</", at)
        if source.text.startswith("{", at) or source.starts(n.SEP, at) or (source.starts("<", at) and not closes):
            # Without a wrapper, a call of any tool may follow.
            value, at, told, _ = self._values(at, tool, (name, *(each.name for each in self.tools)))
        elif not closes or tool.required:
            value, at = self._only_text(found, end_tag, tool)
        at = source.blanks(at)
        if source.starts(end_tag, at):
            at += len(end_tag)
        elif source.text.startswith("<", at) and (other := source.match(CALL_END, at)):
            at = other.end()
        elif not (opener and opener.tag):
            raise NoCall("an end tag was expected")
        return [Call(tool, name, value, pos, at, told=told)], at

    def _only_text(self, opening: regex.Match[str], end_tag: str, tool: Tool) -> tuple[JsonObject, int]:
        """Return the tool's only required string, up to an end tag."""
        texts = [key for key in tool.required if tool.is_text(key)]
        end = self.source.find(end_tag, opening.end())
        text = self.source.text[opening.end() : end]
        if end < 0:
            raise NoCall("an end tag was expected")
        if opening.group() in text:
            self.deep = True
            raise NoCall("a call in a call")
        if len(tool.required) != 1 or not texts or not text.strip():
            raise NoCall("the values of a call were expected")
        return {texts[0]: _unpadded(text)}, end

    # -- keys and values --------------------------------------------------------------------------------------------

    def tag_values(self, at: int, tool: Tool | None, elements: tuple[str, ...] = ()) -> JsonArguments:
        """Return the keys and raw values from a position, and their end.

        `elements` are the names of elements that contain calls; the first one is open.
        """
        source, values, given = self.source, JsonObject(), set[str]()
        style = self.key_style(source.blanks(at), tool)
        unended, spans = False, list[tuple[RawValue, int]]()
        while style:
            behind, at = at, source.blanks(at)
            if at == source.size:
                return JsonArguments(values, behind)
            marks = self._marks_at(at, style, tool, elements)
            mark = marks.at(at)
            if mark is None or mark.level is not Level.VALUE:
                break
            if mark.closing:
                raise NoCall("an end tag is there twice")
            if not values:
                self.layout.indented = source.text[at - 1 : at] in (" ", "\t")
            key = mark.key = html.unescape(mark.key) if style == "k3" else mark.key
            mark.key = tool.meant(key, given) if tool else key
            if mark.key in given:
                raise NoCall("a key is there twice")
            if tool and style != "k3" and mark.key not in tool.properties and _NO_KEY.search(mark.key):
                raise NoCall("not a key")
            self.deep |= tool is not None
            # The whole opener may be repeated, or only the second tag of a pair.
            tag, once = source.text[at : mark.end], mark.end
            halves = (tag[tag.rindex("<") :], "<arg_value>") if mark.kind == "arg_value" else ()
            mark.end = self._repeated((tag, *halves), mark.end)
            self.last = RawValue(source, marks, self.layout, mark, {*given}, tool)
            end = ValueEnd(self.last).find()
            if mark.end > once and self.last.shown(end.end)[0]:
                # The second opener is part of the value, which also contains its end tag.
                mark.end = once
                end = ValueEnd(self.last).find()
            empty = not source.text[mark.end : end.end].strip()
            if empty and mark.end > once:
                raise NoCall("the opening tag of a value twice, and no value")
            if unended and self.last.foreign:
                raise NoCall("the end tag of the value before may end a part of it")
            given.add(mark.key)
            values[key] = self._typed(self.last, end, style, unended=unended)
            unended = end.unended
            self.last.unended = unended or empty
            at = end.resume
            self.uneven = source.text.startswith(("\n", "\r\n"), mark.end) and source.text[end.end - 1] != "\n"
            if end.unended or not self.last.holds_keys:
                spans.append((self.last, end.end))
        if tool and (missing := tool.required - given):
            # One of the values may include a required one.
            for value, stop in spans:
                for inner in value.between(value.own.end, stop):
                    if inner.key and not inner.closing and inner.end <= stop and tool.meant(inner.key) in missing:
                        raise NoCall("a value may hold a required one")
        return JsonArguments(values, at)

    def _repeated(self, literals: tuple[str, ...], at: int) -> int:
        """Return the position after repetitions of the literals."""
        source = self.source
        while (after := source.blanks(at)) < source.size:
            again = next((each for each in literals if source.starts(each, after)), "")
            if not again:
                break
            at = after + len(again)
        return at

    def key_style(self, at: int, tool: Tool | None) -> str:
        """Return the style of the key at a position, or an empty one."""
        for style in n.STYLES:
            keys = self._keys_at(at, style, tool)
            if self.source.match(n.style_opener(style, keys), at):
                return style
        return ""

    def _keys_at(self, at: int, style: str, tool: Tool | None) -> tuple[str, ...]:
        """Return the keys that tags of a style may name: the tool's keys, and that of an element at the position."""
        if tool is None or style not in n.KEYED_STYLES:
            return ()
        own = self.source.match(n.KEY_ELEMENT, at) if style == "element" else None
        return tuple(dict.fromkeys((*tool.properties, *([own["K"]] if own else []))))

    def _marks_at(self, at: int, style: str, tool: Tool | None, elements: tuple[str, ...]) -> Marks:
        """Return the finder of marks in the notation that begins at a position, with the same spelling."""
        keys = self._keys_at(at, style, tool)
        prefix = n.SEP if self.source.text.startswith(n.SEP, at) else ""
        if not prefix and (bars := _BARS.match(self.source.text, at)):
            prefix = bars.group(1)
        return Marks(self.source, n.family(style, keys, elements), prefix, style == "pair")

    def _typed(self, written: RawValue, end: RawEnd, style: str, *, unended: bool) -> Json:
        """Return a raw text as a value of the schema's type. Raise NoCall if it has another reading.

        `unended`: the end tag of the previous value is missing.
        """
        tool, mark, marks = written.tool, written.own, written.marks
        text = self.source.text[mark.end : end.end]
        if end.unended and not text.strip():
            raise NoCall("a key without a value")
        tag = self.source.text[mark.start : mark.end]
        if style == "parameter" and text.lstrip().startswith("<![CDATA["):
            inside = _CDATA.fullmatch(text)
            if inside is None:
                raise NoCall("character data without its end")
            text = inside.group(1)
        if "DSML" in tag:
            text = text.replace("<\u200b", "<")
        text = self._trimmed(text, mark, tag, style, end.unended)
        if tool is None:
            return text
        prefix = n.SEP if n.SEP in text else ""
        if mark.key not in tool.properties and text.lstrip().startswith("{") and self.tools.resolve(mark.key) is tool:
            raise NoCall("an object under the name of its tool")
        # Elements inside an undeclared element are the tool's own arguments.
        schema = tool.compiled if prefix and mark.key not in tool.properties else tool.parameter(mark.key)
        listed = all(Validator().is_listed(text.strip(), part) for part in (schema, *schema.parts))
        free = "string" in schema.types and listed
        nested = style == "element" and schema.types & {"array", "object"}
        if nested and (prefix or "string" not in schema.types) and ("<" in text or not text.strip()):
            return element_value(text.strip(), schema, prefix)
        declared = {"true": "string", "false": "other"}.get(mark.declared, mark.declared)
        value = typed(schema, text, declared)
        if not isinstance(value, str):
            return value
        if (prefix and end.unended) or (
            not free and (prefix or ((inner := marks.after(mark.end)) and inner.end <= end.end))
        ):
            raise NoCall("markup in a value that is no text")
        if "string" in schema.types and (free or not end.unended):
            return value
        if end.unended or unended:
            raise NoCall("no value fits")
        return literal(text, tolerant=True) if text.lstrip().startswith(("{", "[")) else value

    def _trimmed(self, text: str, mark: Mark, tag: str, style: str, unended: bool) -> str:
        """Return a raw value without the line ends that its chat template adds."""
        # If the tag is repeated, the line may end after the first one.
        padded = f"\n{text}" if "\n" in tag and not text.startswith(("\n", "\r\n")) else text
        plain = style in ("parameter", "element") and n.SEP not in tag
        indented = self.source.text[mark.start - 1 : mark.start] in " \t"
        single = _ONE_LINE.fullmatch(text)
        if plain and indented and single and single.group(1):
            return single.group(1)
        if plain and (style == "element" or not NAMED.search(tag) or tag.startswith("<rfl:")):
            return _unpadded(padded, unended)
        return _LINE_END.sub("", text) if unended else text


def _unpadded(text: str, unended: bool = False) -> str:
    """Return a value without the line ends of the surrounding markup."""
    padded = text.startswith(("\n", "\r\n"))
    if padded:
        text = text.removeprefix("\r").removeprefix("\n")
    if unended:
        return _LINE_END.sub("", text)
    if padded and text.endswith("\n"):
        return text.removesuffix("\n").removesuffix("\r")
    return text
