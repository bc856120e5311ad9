"""One reader for calls in every notation: a wrapper, a name, keys and values, and what closes them."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import pairwise

import regex

from proxy.codec.json_text import Json, JsonObject
from proxy.notations import tables as n
from proxy.notations.bare_literals import BareLiterals, PythonLiterals
from proxy.notations.calls import NO_OPENER, Call, JsonArguments, Opener, ReadCalls
from proxy.notations.harmony import read_message
from proxy.notations.literals import STRICT, Literals
from proxy.notations.literals import TOKENS as DELIMITERS
from proxy.notations.raw_values import Level
from proxy.notations.shapes import Shape, shapes
from proxy.notations.source import NeedMore, NoCall, Rejection, Source, Tokens, Torn, Touched, end_of
from proxy.notations.tags import (
    CALL_END,
    CALL_TAG,
    CLOSING_TOKENS,
    VALUE_END,
    WRAPPER_END,
    WRAPPER_TAG,
    TagReader,
    spelling,
)
from proxy.tools.schema import ALL_TYPES, ANYTHING, Schema
from proxy.tools.toolset import Tool, ToolSet

# What may follow a value of JSON: an end tag, a token, the end of a fence.
CLOSING = regex.compile(
    r"\s*(?!<\|\"\|>|<escape>)(?:</[^<>\s]{1,60}>|<[|｜][^<>\n]{1,60}>|<\w+\|>|\[/?[A-Z_]+\]|```|>>>|\[e~\[|$)"
)
OPENERS = Tokens(n.TOKENS)
CLOSERS, FILLERS, NAME_FOLLOWS = Tokens(CLOSING_TOKENS), Tokens(n.FILLERS), Tokens(n.NAME_FOLLOWS)
FENCE = regex.compile(r"```[ \t]*[\w+-]{0,20}[ \t]*\n?")
_LOST_BRACKETS = regex.compile(r"(?<![<\w/])(?:invoke|parameter) name=")
_BARE_END = re.compile(r"(?<!<)(?<!</)/?(parameter|invoke)>")
_ROUTED = regex.compile(r" ?to=[\w.-]+(?=<[^|])")
_JSON_NAME = re.compile(rf"[\"'](?:{'|'.join(n.NAME_WORDS)})[\"']\s*:\s*[\"']([^\"'\n]{{1,200}})[\"']")
_JSON_HEAD = regex.compile(r"[\[{\s]+[\"'“](?P<K>[^\"'”\n\\]{1,64})[\"'”]\s*:")
_JSON_NAMED = regex.compile(r"\{\s*[\"'](?:name|tool_name)[\"']\s*:\s*[\"'](?P<N>[^\"'\n\\]{1,200})[\"']\s*,")
# The head of a call in a wrapper, which says its name, maybe behind an id or a type.
_JSON_HEAD_NAME = regex.compile(
    rf"(?:\[\s*)?\{{\s*(?:(?:[\"'](?:{'|'.join(sorted(n.BESIDE_WORDS))})[\"']\s*:\s*[\"'][^\"'\n\\]{{0,80}}[\"']\s*,\s*)?"
    r"(?:[\"']function[\"']\s*:\s*\{\s*)?"
    r"[\"'](?:name|tool_name)[\"']\s*:\s*[\"'](?P<N>[^\"'\n\\]{1,200})[\"']\s*,|[\"'](?P<K>[\w.-]{1,200})[\"']\s*:\s*\{)"
)
# A name that goes on after its closing quotation mark.
_BROKEN_NAME = regex.compile(rf"\{{\s*[\"'](?:{'|'.join(n.NAME_WORDS)})[\"']\s*:\s*[\"'][\w.-]{{1,200}}[\"']\w")
_QUOTED_KEY = re.compile(r"[\"']([^\"'\n\\]{1,80})[\"']\s*:")
_CALL_WORDS = frozenset(
    (*n.NAME_WORDS, *n.ARGUMENT_WORDS, *n.LIST_WORDS, *n.BESIDE_WORDS, "role", "content", "response")
)
_NAMESPACED = re.compile(r"(?:(?:functions|default_api|google|mcp|tools?|api)[.:/])*(?P<N>[\w-]+?)(?:[.!:]\d{1,6})?")
_KEY_TAG = regex.compile(r"</[^<>\s]*arg_key[^<>\s]*>")
_KEY_END = re.compile(r"</[^>]*arg_key")
_NAME_GOES_ON = re.compile(r":\w*")
_CALL_ID = regex.compile(r"\[CALL_ID\]([\w.:-]+)")
_KIMI_ID = re.compile(r"functions\.[^\s:]+:[0-9]{1,6}")
_PYTHON_NAME = regex.compile(r"([A-Za-z_][\w.-]*)(?::\d{1,6})?\s*\(")
_TOOL_SEP = regex.compile(r"<(?:[\w.-]+[:|])?tool_sep(?::\w+)?>")
_WRAPPER_NAME = re.compile(r"name=[\"']?([^\"'>]+)")
# Where the head of a call in a wrapper may say its name.
_HEAD_NAME = re.compile(
    r"""(?:["']?(?:name|tool_name|function|tool|action)["']?\s*[:=]\s*["']?|to=|\A\W{0,20}(?!name|tool_name|function|tool|action))([A-Za-z_][\w.-]{0,160})"""
)
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_RESIDUE = re.compile(
    r"\s*</(?:parameter|arg_value)>\s*<(?:parameter=|arg_key>)([\w-]+)(?:>|</arg_key>)\s*(?:<arg_value>)?\s*\Z"
)
_GEMMA_ENDS = (("<tool_call|>",), ("<end_function_call>",))
_INKLING = "<|content_invoke_tool_json|>"
# Wrappers in wrappers, and closing brackets that are left over in one.
MAX_WRAPPERS, MAX_BRACKETS = 4, 2
_LEFT_BRACKETS = re.compile(rf"[}}\]]{{0,{MAX_BRACKETS}}}")
# Words before the name of a call that are names themselves: `function`.
MAX_NAMES = 4
# A name is looked for so far in a call whose JSON cannot be read.
MAX_TO_NAME = 2_000
MAX_HEAD = 300
# A list of calls in an object, each with its function in an object, are three.
MAX_ENVELOPES = 5


class CallReader(TagReader):
    """Reads calls of the offered tools at positions of a source.

    `bare_names`: a name alone may begin a call. After a reading, `broken` says that a call after those that were
    returned could not be read, `astray` that the call which is not complete is of a tool that is not offered, `offered`
    that an offered one was named, `in_doubt` that a raw value may go on behind the calls if the reply was cut off, and
    `run_end` where a run of equal openers ends.
    """

    def __init__(self, source: Source, tools: ToolSet, *, bare_names: bool = True) -> None:
        super().__init__(source, tools)
        self.bare_names = bare_names
        self.broken = self.astray = self.offered = self.in_doubt = False
        self.run_end = 0
        # Whether Python's one positional argument counts, and whether its strings must be exact.
        self.positional = self.exact = False
        # Strings with tokens as delimiters were read; a row has a call already.
        self.delimited = self.row_begun = False
        # A closer that is not the opener's own ended a wrapper.
        self.foreign = False
        # Strict JSON is read as such; a value was read.
        self._strict, self._read_value = True, False
        # How many names are being read, each behind the one before.
        self._names = 0

    def tool(self, name: str) -> Tool | None:
        """Return the offered tool that a name means, with the namespaces and counters that models write around it."""
        tool = self.tools.resolve(name)
        if tool is None and (bare := _NAMESPACED.fullmatch(name)):
            tool = self.tools.resolve(bare["N"])
        self.astray, self.offered = tool is None, self.offered or tool is not None
        return tool

    # -- wrappers ---------------------------------------------------------------------------------------------------

    def opener(self, pos: int) -> Opener | None:
        """Return what opens a wrapper at a position."""
        source = self.source
        if token := source.token(OPENERS, pos):
            no_closer, weak = token in n.NO_CLOSER, token in n.WEAK_TOKENS
            return Opener(pos + len(token), n.TOKENS[token], no_closer=no_closer, weak=weak, text=token)
        if not source.text.startswith(("<", "]"), pos):
            return None
        found = source.match(WRAPPER_TAG, pos)
        if not found:
            return None
        name = _WRAPPER_NAME.search(found.group())
        return Opener(found.end(), tag=True, name=name.group(1) if name else "", text=found.group())

    def closer(self, pos: int, opener: Opener) -> int:
        """Return the position after the end of a wrapper; -1 if none is here."""
        for token in opener.closers:
            if self.source.starts(token, pos):
                return pos + len(token)
        if not self.source.text.startswith(("<", "]"), pos):
            return -1
        if found := self.source.match(WRAPPER_END, pos, ends=True):
            return found.end()
        token = self.source.token(CLOSERS, pos)
        return pos + len(token) if token else -1

    def read_strong(self, pos: int) -> ReadCalls:
        """Return the calls of the wrapper or message at a position, their end, and if they are closed.

        If text follows a raw value's closers, a second chain of them proves that the value shows the first. If nothing
        can be read where strict JSON ended within the wrapper, its strings go on.
        """
        try:
            return self._read_strong(pos)
        except NoCall as refusal:
            if not self._read_value or refusal.rejection is Rejection.NOT_OFFERED:
                raise
            known, self._strict, read = (self.deep, self.broken), False, None
            with suppress(NoCall):
                read = self._read_strong(pos)
            if read is None or read[0][-1].unclosed:
                self.deep, self.broken = known
                raise
            return read

    def _read_strong(self, pos: int) -> ReadCalls:
        self.foreign = False
        calls, end, closed = self.strong(pos)
        value, missing = self.last, _missing(calls)
        if not (value or self.delimited or missing or self.foreign) or not self._text_follows(end):
            return calls, end, closed
        if not self.source.final:
            raise NeedMore
        if value is None:
            self._check_behind(end, missing)
            return calls, end, closed
        if (last := value.last_chain(end)) >= 0:
            self.layout.shown = range(value.own.start, last + 1)
            self.deep = True
            return self.strong(pos)
        if value.foreign or value.goes_on(end):
            self.deep = True
            raise NoCall("a value may end elsewhere")
        self.in_doubt = self.uneven
        return calls, end, closed

    def _check_behind(self, end: int, missing: set[str]) -> None:
        """Refuse calls if what they lack follows in the text: a key, a closer, a delimiter. A string may go on."""
        following = n.STRONG.search(self.source.text, end)
        text = self.source.text[end : following.start() if following else self.source.size]
        lacks = any(found.group(1) in missing for found in _QUOTED_KEY.finditer(text))
        lacks |= self.foreign and CLOSERS.pattern.search(text) is not None
        if lacks or (self.delimited and any(token in text for token in DELIMITERS)):
            self.deep = True
            raise NoCall("a string may end elsewhere")

    def _text_follows(self, pos: int) -> bool:
        """Return whether text follows that is no leftover and no other call's opener."""
        source = self.source
        while (pos := source.blanks(pos)) < source.size:
            end = self.ends_turn(pos) or self.orphan_end(pos)
            if not end:
                return not (source.match(n.STRONG, pos) or source.match(CALL_TAG, pos))
            pos = end
        return False

    def _is_left(self, pos: int) -> bool:
        """Return whether an end-of-turn token or an end tag that closes nothing is here."""
        return bool(self.ends_turn(pos) or self.orphan_end(pos))

    def strong(self, pos: int) -> ReadCalls:
        """Return the calls of the wrapper or the message at a position."""
        if found := self.source.match(_ROUTED, pos):
            return self.wrapped(found.end())
        if self.source.text.startswith(("<|start|>", "<|channel|>", " to=", "to="), pos):
            return read_message(self, pos + (self.source.text[pos] == " "))
        return self.wrapped(pos)

    def wrapped(self, pos: int, depth: int = 0) -> ReadCalls:
        """Return the calls in the wrapper at a position, the position after it, and whether it is closed."""
        source, opener = self.source, self.opener(pos)
        if opener is None or depth > MAX_WRAPPERS:
            raise NoCall("too many wrappers")
        self.positional = opener.text.startswith("<tool_code")
        self.layout.words = {Level.WRAPPER: spelling(opener.text) if opener.tag else ""}
        at = behind = self._behind_run(opener)
        calls: list[Call] = []
        closed, brackets = False, 0
        while True:
            self.astray = False
            start, at = at, source.blanks(at)
            if at == source.size:
                break
            if (end := self.closer(at, opener)) >= 0:
                self.foreign |= bool(opener.closers) and not source.text.startswith(opener.closers, at)
                at, closed = self._behind_closers(end, opener), True
                break
            if calls:
                brackets += source.text[at] in "}]"
                if end := self._leftover(at, opener, brackets):
                    at = end
                    continue
                if self.ends_turn(at):
                    break
                if opener.no_closer and not (opener.text == "<|python_tag|>" and source.text[at] == "{"):
                    if not source.text[behind].isspace() and not self.opener(at):
                        self.deep = True
                        raise Touched(calls[-1].end)
                    at = start
                    break
            got = self._next_call(at, opener, depth, calls)
            if got is None:
                self.broken = self.deep
                return calls, calls[-1].end, False
            calls, at = calls + got[0], got[1]
            behind = at
        if not calls:
            raise NoCall("an empty wrapper")
        for call in calls:
            call.unclosed = opener.no_closer and not closed
        return calls, at, (closed or opener.no_closer) and not opener.weak

    def _behind_run(self, opener: Opener) -> int:
        """Return the position after an opener that may be there several times."""
        at = opener.end
        while (after := self.source.blanks(at)) < self.source.size and self.source.starts(opener.text, after):
            at = self.run_end = after + len(opener.text)
        return at

    def _behind_closers(self, at: int, opener: Opener) -> int:
        """Return the position after a closer that is there again, as the opener was."""
        while self.run_end and (after := self.source.blanks(at)) < self.source.size:
            if not any(self.source.starts(closer, after) for closer in opener.closers):
                break
            at = after + next(len(each) for each in opener.closers if self.source.starts(each, after))
        return at

    def _leftover(self, at: int, opener: Opener, brackets: int) -> int:
        """Return the position after what may be left over behind a call in its wrapper; 0 if nothing is."""
        source = self.source
        sign = source.text[at]
        if sign in ",;":
            return at + 1
        glued = source.text[at - 1] in "}]"
        if (
            sign in "}]"
            and brackets <= MAX_BRACKETS
            and (glued or not opener.no_closer)
            and not source.starts(n.SEP, at)
        ):
            return at + 1
        if sign in "<]" and (found := source.match(CALL_END, at) or source.match(VALUE_END, at)):
            return found.end()
        filler = source.token(FILLERS, at)
        return at + len(filler) if filler else 0

    def _next_call(self, at: int, opener: Opener, depth: int, calls: list[Call]) -> tuple[list[Call], int] | None:
        """Return the next calls in a wrapper and their end; None if what follows the calls before cannot be read."""
        before = calls[-1] if calls and not calls[-1].closed_itself else None
        if before and (before.tagged or (before.told and not opener.no_closer and self.opener(at))):
            self.deep = True
            raise NoCall("another call begins before one is closed")
        try:
            got, end, _ = self.body(at, opener, depth)
        except Torn:
            self.deep = True
            raise
        except NoCall:
            if calls and all(call.closed_itself for call in calls) and not opener.no_closer:
                return None
            raise
        return got, end

    # -- what a wrapper holds ---------------------------------------------------------------------------------------

    def body(self, pos: int, opener: Opener, depth: int) -> ReadCalls:
        """Return the calls that begin at a position; the first characters tell the notation."""
        source = self.source
        while filler := source.token(FILLERS, pos):
            pos = source.blanks(pos + len(filler))
        if pos >= source.size:
            raise NoCall("a call was expected")
        sign = source.text[pos]
        if opener.name and sign in "{<":
            return self.arguments(pos, opener.name, pos)
        if token := source.token(NAME_FOLLOWS, pos):
            return self.named(source.blanks(pos + len(token)), opener)
        if sign in "<]" and self.opener(pos):
            return self._inner_wrapper(pos, depth)
        if sign == "`" and (fence := source.match(FENCE, pos)):
            return self._fenced(fence.end(), opener, depth)
        if sign in "{[":
            after = source.blanks(pos + 1)
            if sign == "[" and after < source.size and (source.text[after].isalpha() or source.text[after] == "_"):
                return self.python_list(pos)
            return self.json(pos, alone=opener is NO_OPENER)
        if sign in "<]":
            return self.tag_call(pos, opener)
        if opener.tag and source.match(_LOST_BRACKETS, pos):
            return self._without_brackets(pos, opener)
        if not self.bare_names:
            raise NoCall("a name alone")
        return self.named(pos, opener)

    def _inner_wrapper(self, pos: int, depth: int) -> ReadCalls:
        calls, end, closed = self.wrapped(pos, depth + 1)
        for call in calls:
            call.closed_itself |= closed
        if len(calls) == 1:
            calls[0].start, calls[0].end = pos, end
        return calls, end, closed

    def _fenced(self, pos: int, opener: Opener, depth: int) -> ReadCalls:
        """Return the calls in a fence."""
        source, text = self.source, self.source.text
        at = source.blanks(pos)
        if text.startswith("`", at):
            raise NoCall("a fence in a fence")
        alone = opener is NO_OPENER
        if alone and not self.bare_names and at < source.size and text[at] in "<[]" and self.opener(at):
            raise NoCall("a wrapper in code")
        calls, at, _ = self.body(at, opener, depth)
        at = source.blanks(at)
        while at < source.size and not source.starts("```", at) and not self._is_left(at):
            if text[at] not in ",;{[<" and (alone or not text[at].isalpha()):
                break
            more, at, _ = self.body(source.blanks(at + (text[at] in ",;")), opener, depth)
            calls, at = calls + more, source.blanks(at)
        if source.starts("```", at):
            return calls, at + 3, False
        over = at == source.size or (alone and self._is_left(at))
        if over and not (alone and (not self.bare_names or text[source.blanks(pos)] in "<]")):
            return calls, at, False
        if at < source.size and self.closer(at, opener) >= 0:
            return calls, at, False
        raise NoCall("the end of the fence was expected")

    def _without_brackets(self, pos: int, opener: Opener) -> ReadCalls:
        """Return calls in tags that lost their angle brackets: `invoke name="f">` … `invoke>`."""
        end = self.source.find("</", pos)
        if end < 0 or self.closer(end, opener) < 0:
            raise NoCall("the end of the wrapper was expected")
        text = _BARE_END.sub(r"</\1>", _LOST_BRACKETS.sub(r"<\g<0>", self.source.text[pos:end]))
        calls, _, _ = CallReader(Source(text, True), self.tools).tag_call(0, opener)
        for call in calls:
            call.start, call.end = pos, end
        return calls, end, False

    # -- JSON -------------------------------------------------------------------------------------------------------

    def json(self, pos: int, *, alone: bool) -> ReadCalls:
        """Return the calls that a value of JSON says; `alone`: no wrapper holds it."""
        if alone:
            self._check_head(pos)
        else:
            self._name_first(pos)
        literals = Literals(self.source, None, CLOSING)
        literals.schema_later = lambda: self._envelope(pos)
        value, end = self.whole(literals, pos)
        self.deep |= literals.completed
        found = shapes(value, self.tools)
        if literals.completed and not all(shape.says_arguments for shape in found):
            raise NoCall("the arguments are missing")
        spans = _item_spans(self.source.text, pos, end, len(found), value)
        calls = [self._shaped(shape, span, literals) for shape, span in zip(found, spans, strict=True)]
        for call in calls:
            call.in_list = isinstance(value, list)
        return calls, end, False

    def named_tool(self, pos: int) -> str:
        """Return the name of the offered tool that the head of the call in a wrapper names; empty if it names none."""
        opener = self.opener(pos)
        start = opener.end if opener else pos
        head = self.source.text[start : start + MAX_HEAD]
        tools = (self.tool(found.group(1)) for found in _HEAD_NAME.finditer(head))
        return next((tool.name for tool in tools if tool), "")

    def _check_head(self, pos: int) -> None:
        """Refuse JSON whose first key is none that a call begins with."""
        head = self.source.match(_JSON_HEAD, pos)
        if head is None or (head["K"] not in _CALL_WORDS and self.tools.resolve(head["K"]) is None):
            raise NoCall("no call begins like this, or with this key")
        if self.source.match(_BROKEN_NAME, pos):
            raise NoCall("the name goes on after its quotation mark")
        name = None if self.row_begun else self.source.match(_JSON_HEAD_NAME, pos)
        if name and name["N"] and self.tool(name["N"]) is None:
            raise NoCall("no tool of this name is offered", Rejection.NOT_OFFERED)

    def _name_first(self, pos: int) -> None:
        """Note the tool that the first call in a wrapper names, while it is written."""
        named = self.source.match(_JSON_HEAD_NAME, pos)
        if named is None or named["K"] in _CALL_WORDS:
            return
        try:
            STRICT.raw_decode(self.source.text, self.source.text.index("{", pos))
        except (ValueError, RecursionError, NoCall):
            self.tool(named["N"] or named["K"])

    def _shaped(self, shape: Shape, span: tuple[int, int], literals: Literals) -> Call:
        tool = self.tool(shape.name)
        arguments = without_residue(self.object(shape.arguments, tool))
        call = Call(tool, shape.name, arguments, *span, clear=shape.clear, id=shape.id, completed=literals.completed)
        call.json, call.told = shape.says_name, literals.is_told
        return call

    def _envelope(self, pos: int) -> Schema:
        """Return what a call in JSON is: a name, and arguments of the tool that is named near, or of any."""
        found = _JSON_NAME.search(self.source.text, pos, pos + MAX_TO_NAME)
        tool = self.tools.resolve(found.group(1)) if found else None
        tools = [tool] if tool else [*self.tools]
        arguments = Schema(properties={key: each.parameter(key) for each in tools for key in each.properties})
        envelope = Schema(own_types=ALL_TYPES)
        for _ in range(MAX_ENVELOPES):
            inner, envelope = envelope, Schema(own_types=ALL_TYPES)
            envelope.items = inner
            envelope.properties = {
                **{each.name: each.compiled for each in tools},
                **dict.fromkeys((*n.BESIDE_WORDS, "role", "content"), ANYTHING),
                **dict.fromkeys((*n.NAME_WORDS, *n.LIST_WORDS), inner),
                **dict.fromkeys(n.ARGUMENT_WORDS, arguments),
            }
        return envelope

    def whole(self, literals: Literals, at: int) -> tuple[Json, int]:
        """Return a value and its end; where a string cannot be read, what follows may all be in it."""
        literals.strict = self._strict
        try:
            value, end = literals.whole(at)
            self._read_value = True
            if literals.marks_told and (n.STRONG.search(self.source.text, at, end) or self._shows_call(literals.told)):
                literals.in_string = True
                raise NoCall("a string may end elsewhere")
        except NoCall:
            self.deep |= literals.in_string
            raise
        return value, end

    def _shows_call(self, told: list[str]) -> bool:
        """Return whether a string whose end was told may have taken a call in JSON along."""
        return any(self.tool(found["N"]) for text in told for found in _JSON_NAMED.finditer(text))

    def json_arguments(self, at: int, tool: Tool | None) -> JsonArguments:
        """Return the object that a call's arguments are, and where it ends."""
        return self._arguments_of(Literals(self.source, schema_of(tool), CLOSING), at, tool)

    def _arguments_of(self, literals: Literals, at: int, tool: Tool | None) -> JsonArguments:
        value, end = self.whole(literals, at)
        arguments = without_residue(self.object(value, tool))
        return JsonArguments(arguments, end, literals.is_told, literals.completed)

    def object(self, arguments: Json, tool: Tool | None) -> JsonObject:
        """Return arguments as an object: what a string of JSON says, the one item of a list."""
        for _ in range(2):
            if not isinstance(arguments, str):
                break
            if not arguments.strip():
                return {}
            inner = Source(arguments, True)
            arguments, end = Literals(inner, schema_of(tool)).whole(inner.blanks(0))
            if not inner.at_end(end):
                raise NoCall("more than an object")
        if isinstance(arguments, list) and len(arguments) == 1:
            arguments = arguments[0]
        if arguments is None:
            return {}
        if not isinstance(arguments, dict):
            raise NoCall("the arguments are no object")
        return arguments

    # -- a name, then arguments -------------------------------------------------------------------------------------

    def named(self, pos: int, opener: Opener | None) -> ReadCalls:
        """Return the call that a name and its arguments are."""
        if self._names > MAX_NAMES:
            raise NoCall("names behind names")
        self._names += 1
        try:
            return self._named(pos, opener)
        finally:
            self._names -= 1

    def _named(self, pos: int, opener: Opener | None) -> ReadCalls:
        source, start = self.source, pos
        if source.starts("call:", pos):
            pos = source.blanks(pos + 5)
        elif source.text.startswith(":", pos):
            pos += 1
        found = source.match(n.NAME, pos)
        if not found:
            raise NoCall("the name of a tool was expected")
        if not source.final and _NAME_GOES_ON.fullmatch(source.text, found.end()):
            raise NeedMore
        name, at = found.group(), source.blanks(found.end())
        if source.starts(_INKLING, at):
            return self.wrapped(at, 1)
        cut = source.text.startswith("<", at) and self.tools.resolve(name) is None and source.match(_KEY_TAG, at)
        if cut and (split := self.tools.split(name)):  # the opening tag of the first key is missing
            name, at = split[0].name, found.end() - len(split[1])
        if name == "function" and at < source.size and source.text[at] not in "{(":
            at = source.blanks(at + len(source.token(NAME_FOLLOWS, at)))
            return self._call_or_name(at, opener)
        return self._behind_name(at, name, start, opener)

    def _call_or_name(self, at: int, opener: Opener | None) -> ReadCalls:
        if self.source.text.startswith("<", at) and self.source.match(CALL_TAG, at):
            return self.tag_call(at, opener)
        return self.named(at, opener)

    def _behind_name(self, at: int, name: str, start: int, opener: Opener | None) -> ReadCalls:
        """Return the call of a name, after what may be written between it and its arguments."""
        source, call_id = self.source, ""
        while True:
            if source.starts("[CALL_ID]", at) and (written := source.match(_CALL_ID, at)):
                call_id, at = written.group(1), source.blanks(written.end())
                continue
            if follows := source.token(NAME_FOLLOWS, at):
                at = source.blanks(at + len(follows))
                if source.text.startswith(("{", "`", '"'), at):
                    continue
                return self._call_or_name(at, opener)
            end = self._filler_end(at)
            if not end:
                return self.arguments(at, name, start, call_id, opener)
            at = source.blanks(end)

    def _filler_end(self, at: int) -> int:
        """Return the position after something that says nothing; 0 if nothing of the kind is here."""
        source = self.source
        if filler := source.token(FILLERS, at):
            return at + len(filler)
        if not source.text.startswith("<", at):
            return 0
        if found := source.match(_TOOL_SEP, at):
            return found.end()
        found = source.match(VALUE_END, at)
        return found.end() if found and not _KEY_END.match(found.group()) else 0

    def arguments(self, at: int, name: str, start: int, call_id: str = "", opener: Opener | None = None) -> ReadCalls:
        """Return the call of a name whose arguments begin at a position."""
        tool = self.tool(name)
        if tool is None and self.source.text.startswith("(", at):
            tool = self.tool(name.removesuffix(".call"))
        if tool is None and (opener is None or opener is NO_OPENER):
            raise NoCall("no tool of this name is offered", Rejection.NOT_OFFERED)
        if not call_id and _KIMI_ID.fullmatch(name):
            call_id = name
        sign = self.source.text[at : at + 1]
        read = self._read_arguments(at, tool, opener)
        if not read.value and (not sign or sign not in '{(`"') and (tool is None or tool.required or not opener):
            raise NoCall("the arguments are missing")
        call = Call(tool, name, read.value, start, read.end, id=call_id, completed=read.completed, told=read.told)
        call.bare = True
        return [call], read.end, False

    def _read_arguments(self, at: int, tool: Tool | None, opener: Opener | None) -> JsonArguments:
        """Return the arguments at a position; the first character tells how they are written."""
        source = self.source
        sign = source.text[at : at + 1]
        gemma = opener is not None and opener.closers[:1] in _GEMMA_ENDS
        if sign == "{" and gemma:
            return self._gemma_arguments(at, tool)
        if sign == "{" or (sign == '"' and tool and opener and opener is not NO_OPENER):
            return self.json_arguments(at, tool)
        if sign == "`" and (fence := source.match(FENCE, at)):
            read = self._arguments_of(Literals(source, schema_of(tool), CLOSING), source.blanks(fence.end()), tool)
            end = source.blanks(end_of(_LEFT_BRACKETS, source.text, read.end))
            return read._replace(end=end + 3 if source.starts("```", end) else end)
        if sign == "(":
            if opener is NO_OPENER and not self.exact:
                raise NoCall("code")
            return JsonArguments(*self.parenthesised(at, tool, python=not gemma), False, False)
        pair = opener and opener.tag and tool and sign and sign not in "({`" and self.key_style(at, tool) == "pair"
        if sign in ("<", "]") or pair:
            value, end, _ = self.tag_values(at, tool)
            return JsonArguments(value, end, False, False)
        if sign == "" or (opener and self.closer(at, opener) >= 0):
            return JsonArguments({}, at, False, False)
        raise NoCall("the arguments were expected")

    def _gemma_arguments(self, at: int, tool: Tool | None) -> JsonArguments:
        """Return Gemma's object, whose strings may lack their delimiters."""
        literals, self.delimited = BareLiterals(self.source, schema_of(tool), CLOSING), True
        read = self._arguments_of(literals, at, tool)
        return read if literals.plain else read._replace(value=_typed(read.value, tool, literals.bares))

    # -- Python -----------------------------------------------------------------------------------------------------

    def parenthesised(self, at: int, tool: Tool | None, *, python: bool = True) -> tuple[JsonObject, int]:
        """Return Python's arguments, or an object in round brackets, and their end."""
        source = self.source
        schema = schema_of(tool)
        literals = PythonLiterals(source, schema, None, python=python)
        after = literals.skip(at + 1)
        sign = source.text[after : after + 1]
        only = next(iter(tool.required)) if self.positional and tool and len(tool.required) == 1 else ""
        arguments: JsonObject
        if sign == "{" or (only and sign and sign in "\"'"):
            (value, *more), end = literals.items(at + 1, ")", Schema(items=schema))
            if more:
                raise NoCall("an end of the brackets was expected")
            arguments = self.object(value, tool) if sign == "{" else {only: value}
        else:
            arguments, end = literals.members(at + 1, ")", schema, ("=", ":"))
        literals.check()
        if literals.completed:
            raise NoCall("brackets without their end")
        if literals.marks_told and self.exact:
            raise NoCall("a string may end elsewhere")
        return _typed(arguments, tool, literals.bares), end

    def python_list(self, pos: int) -> ReadCalls:
        """Return the calls of `[NAME(…), NAME(…)]`."""
        source, calls = self.source, list[Call]()
        at = pos + 1
        while True:
            at = source.blanks(at)
            if calls and source.starts(",", at):
                at = source.blanks(at + 1)
            if source.starts("]", at):
                break
            if calls and (at == source.size or self._is_left(at)):
                return calls, at, False
            found = source.match(_PYTHON_NAME, at)
            if not found:
                raise NoCall("the call of a function was expected")
            tool = self.tool(found.group(1))
            value, end = self.parenthesised(found.end() - 1, tool)
            calls.append(Call(tool, found.group(1), value, at, end))
            self.astray = False
            at = end
        if not calls:
            raise NoCall("an empty list")
        return calls, at + 1, False


def _missing(calls: list[Call]) -> set[str]:
    """Return the required keys that calls lack."""
    return {
        key
        for call in calls
        if call.tool and call.tool.required
        for key in call.tool.required - {call.tool.meant(each, call.arguments) for each in call.arguments}
    }


def schema_of(tool: Tool | None) -> Schema:
    """Return what a tool's arguments should be."""
    return tool.compiled if tool else ANYTHING


def _typed(values: JsonObject, tool: Tool | None, bares: set[str]) -> JsonObject:
    """Return values with those that had no quotation marks as the schema types them."""
    if tool is None or not bares:
        return values
    return {
        key: tool.typed(key, value) if isinstance(value, str) and value in bares else value
        for key, value in values.items()
    }


def _item_spans(text: str, pos: int, end: int, count: int, value: Json) -> list[tuple[int, int]]:
    """Return where each of several calls in one value is."""
    whole = [(pos, end)] * count
    if not isinstance(value, list) or len(value) != count or count < 2:
        return whole
    spans, at = list[tuple[int, int]](), pos + 1
    for _ in value:
        between = _BETWEEN_ITEMS.match(text, at)
        at = between.end() if between else at
        try:
            stop = STRICT.raw_decode(text, at)[1]
        except (ValueError, NoCall):
            return whole
        spans.append((at, stop))
        at = stop
    return spans


def without_residue(values: JsonObject) -> JsonObject:
    """Return values without tags at their ends that name the next key (F17)."""
    for key, following in pairwise([*values]):
        value = values[key]
        found = _RESIDUE.search(value) if isinstance(value, str) else None
        if found and found.group(1) == following:
            values[key] = found.string[: found.start()]
    return values
