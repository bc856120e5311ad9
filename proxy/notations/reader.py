"""Reader of calls in every notation: the opener of a wrapper, the calls in it, and its closer."""

from __future__ import annotations

import re
from contextlib import suppress

import regex

from proxy.notations import tables as n
from proxy.notations.arguments import FENCE, FILLERS, NAME_FOLLOWS, NO_HEAD, ArgumentReader
from proxy.notations.calls import NO_OPENER, Call, Opener, ReadCalls
from proxy.notations.literals import DELIMITERS
from proxy.notations.marks import Level, spelling
from proxy.notations.raw_values import ends_turn
from proxy.notations.signs import MAX_WRAPPERS, MESSAGE_ENDS
from proxy.notations.source import Empty, NeedMore, NoCall, Rejection, Source, Tokens, Torn, Touched
from proxy.notations.tags import CALL_END, CALL_TAG, CLOSERS, VALUE_END, WRAPPER_TAG
from proxy.notations.toolset import ToolSet

OPENERS = Tokens(n.TOKENS)
_LOST_BRACKETS = regex.compile(r"(?<![<\w/])(?:invoke|parameter) name=")
_BARE_END = re.compile(r"(?<!<)(?<!</)/?(parameter|invoke)>")
_ROUTED = regex.compile(r" ?to=[\w.-]+(?=<[^|])")
_QUOTED_KEY = re.compile(r"[\"']([^\"'\n\\]{1,80})[\"']\s*:")
_WRAPPER_NAME = re.compile(r"name=[\"']?([^\"'>]+)")
# Maximum number of surplus closing brackets in a wrapper.
MAX_BRACKETS = 2
_HEADER = regex.compile(
    r"(?:<\|start\|>\s*)?(?:assistant)?\s*(?:to=(?P<role>[^\s<]+))?\s*"
    r"(?P<channels>(?:<\|channel\|>\s*\w+\s*(?:to=[^\s<]+)?\s*)*)"
    r"(?:<\|constrain\|>)?\s*\w*\s*(?:to=[^\s<]+\s*)?<\|message\|>\s*"
)
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_PEOPLE = frozenset(("self", "user", "all", "assistant"))
# Maximum length of surplus brackets and whitespace after the arguments of a message.
MAX_MESSAGE_BRACKETS = 3
_ENDS = Tokens(MESSAGE_ENDS)


class CallReader(ArgumentReader):
    """Reader of calls to the offered tools, at positions in a source.

    `bare_names`: a bare name may begin a call. State after a read: `broken`, a call after the returned ones is
    unreadable; `in_doubt`, a raw value may continue after the calls if the reply was cut off; `run_end`, the end of a
    run of equal openers; `left`, the end of the leftovers found before NeedMore was raised; `wrapper_first`, a row
    begins with a wrapper.
    """

    def __init__(self, source: Source, tools: ToolSet, *, bare_names: bool = True) -> None:
        super().__init__(source, tools)
        self.bare_names = bare_names
        # `foreign`: a closer other than the opener's own ended a wrapper.
        self.broken = self.in_doubt = self.foreign = self.wrapper_first = False
        self.run_end = self.left = 0

    # -- wrappers ---------------------------------------------------------------------------------------------------

    def opener(self, pos: int) -> Opener | None:
        """Return the wrapper opener at a position, or None."""
        source = self.source
        if token := source.token(OPENERS, pos):
            return Opener(pos + len(token), n.TOKENS[token], text=token)
        found = source.match(WRAPPER_TAG, pos) if source.text.startswith(("<", "]"), pos) else None
        if not found:
            return None
        name = _WRAPPER_NAME.search(found.group())
        return Opener(found.end(), tag=True, name=name.group(1) if name else "", text=found.group())

    def read_strong(self, pos: int) -> ReadCalls:
        """Return the calls of the wrapper or message at a position, and their end.

        If text follows a raw value's closers, a second chain of closers proves that the first is part of the value. If
        the read fails after strict JSON, retry with strings that may extend beyond their first possible end.
        """
        try:
            return self._read_strong(pos)
        except NoCall as refusal:
            if not self._read_value or refusal.rejection is Rejection.NOT_OFFERED:
                raise
            known, self._strict = (self.deep, self.broken), False
            with suppress(NoCall):
                read = self._read_strong(pos)
                if not read[0][-1].unclosed:
                    return read
            self.deep, self.broken = known
            raise

    def _read_strong(self, pos: int) -> ReadCalls:
        self.foreign = False
        calls, end = self.strong(pos)
        value, lacking = self.last, missing(calls)
        if not (value or self.delimited or lacking or self.foreign):
            return calls, end
        after = self.skip_left(end)
        if value and value.unended and VALUE_END.search(self.source.text, calls[-1].end, after):
            self.deep = True
            raise NoCall("the end tag of a value follows the call's")
        if after == self.source.size or self.source.match(n.STRONG, after) or self.source.match(CALL_TAG, after):
            return calls, end
        # Text follows that is neither a leftover nor another call.
        if not self.source.final:
            raise NeedMore
        if value is None:
            self._check_behind(end, lacking)
            return calls, end
        if (last := value.last_chain(end)) >= 0:
            self.layout.shown = range(value.own.start, last + 1)
            self.deep = True
            return self.strong(pos)
        if value.foreign or value.goes_on(after):
            self.deep = True
            raise NoCall("a value may end elsewhere")
        self.in_doubt = self.uneven
        return calls, end

    def _check_behind(self, end: int, lacking: set[str]) -> None:
        """Reject calls if a key, closer or delimiter that they lack follows: a string may extend to it."""
        following = n.STRONG.search(self.source.text, end)
        text = self.source.text[end : following.start() if following else self.source.size]
        if (
            any(found.group(1) in lacking for found in _QUOTED_KEY.finditer(text))
            or (self.foreign and CLOSERS.pattern.search(text))
            or (self.delimited and DELIMITERS.pattern.search(text))
        ):
            self.deep = True
            raise NoCall("a string may end elsewhere")

    def skip_left(self, pos: int, *, after_calls: bool = True) -> int:
        """Return the position after whitespace, end-of-turn tokens and, after calls, unmatched closers and commas."""
        source = self.source
        while (pos := source.blanks(pos)) < source.size:
            sign = source.text[pos]
            end = ends_turn(source, pos) if sign in "<[" else 0
            if after_calls and not end:
                end = pos + 1 if sign in ",;" else self.orphan_end(pos)
            if not end:
                break
            self.left = pos = end
        return pos

    def strong(self, pos: int) -> ReadCalls:
        """Return the calls of the wrapper or the message at a position."""
        if found := self.source.match(_ROUTED, pos):
            return self.wrapped(found.end())
        if self.source.text.startswith(("<|start|>", "<|channel|>", " to=", "to="), pos):
            return _read_message(self, pos + (self.source.text[pos] == " "))
        return self.wrapped(pos)

    def wrapped(self, pos: int, depth: int = 0) -> ReadCalls:
        """Return the calls in the wrapper at a position, and the position after it."""
        source, opener = self.source, self.opener(pos)
        if opener is None or depth > MAX_WRAPPERS or (not opener.name and NO_HEAD.match(source.text, opener.end)):
            raise NoCall("too many wrappers, or no call begins like this")
        self.positional = opener.text.startswith("<tool_code")
        self.layout.words = {Level.WRAPPER: spelling(opener.text) if opener.tag else ""}
        # The opener may be repeated, and then its closer.
        at = behind = self._repeated((opener.text,), opener.end)
        if at > opener.end:
            self.run_end = at
        calls: list[Call] = []
        closed, brackets = False, 0
        while True:
            self.astray = False
            start, at = at, source.blanks(at)
            if at == source.size:
                break
            if (end := self.closer(at, opener)) >= 0:
                self.foreign |= bool(opener.closers) and not source.text.startswith(opener.closers, at)
                at, closed = self._repeated(opener.closers, end) if self.run_end else end, True
                break
            if calls:
                brackets += source.text[at] in "}]"
                if end := self._leftover(at, opener, brackets):
                    at = end
                    continue
                if ends_turn(source, at):
                    break
                again = at + len(opener.text)
                if opener.tag and source.starts(opener.text, at) and self.skip_left(again) == source.size:
                    at = again  # the opener in place of its end tag
                    break
                if opener.no_closer and not (opener.text == "<|python_tag|>" and source.text[at] == "{"):
                    if not source.text[behind].isspace() and not self.opener(at):
                        self.deep = True
                        raise Touched(calls[-1].end)
                    at = start
                    break
                before = calls[-1]
                told = before.told and not opener.no_closer
                if not before.closed_itself and (before.tagged or (told and self.opener(at))):
                    self.deep = True
                    raise NoCall("another call begins before one is closed")
            try:
                got, at = self.body(at, opener, depth)
            except NoCall as refusal:
                torn = isinstance(refusal, Torn)
                self.deep |= torn
                if torn or not calls or opener.no_closer or not all(call.closed_itself for call in calls):
                    raise
                self.broken, self.closed = self.deep, False
                return calls, calls[-1].end
            calls, behind = calls + got, at
        if not calls:
            raise Empty("an empty wrapper", end=at if closed and not depth else -1)
        for call in calls:
            call.unclosed = opener.no_closer and not closed
        self.closed = (closed or opener.no_closer) and opener.closers != ("]",)
        return calls, at

    def _leftover(self, at: int, opener: Opener, brackets: int) -> int:
        """Return the position after a leftover of a call in its wrapper, or 0."""
        source = self.source
        sign = source.text[at]
        bracket = sign in "}]" and brackets <= MAX_BRACKETS and not source.starts(n.SEP, at)
        if sign in ",;" or (bracket and (source.text[at - 1] in "}]" or not opener.no_closer)):
            return at + 1
        if sign in "<]" and (found := source.match(CALL_END, at) or source.match(VALUE_END, at)):
            return found.end()
        filler = source.token(FILLERS, at)
        return at + len(filler) if filler else 0

    # -- contents of a wrapper --------------------------------------------------------------------------------------

    def body(self, pos: int, opener: Opener, depth: int) -> ReadCalls:
        """Return the calls at a position; the first characters select the notation."""
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
            calls, end = self.wrapped(pos, depth + 1)
            for call in calls:
                call.closed_itself |= self.closed
            if len(calls) == 1:
                calls[0].start, calls[0].end = pos, end
            return calls, end
        if sign == "`" and (fence := source.match(FENCE, pos)):
            return self._fenced(fence.end(), opener, depth)
        if sign == "[":
            after = source.blanks(pos + 1)
            if after < source.size and (source.text[after].isalpha() or source.text[after] == "_"):
                return self.python_list(pos)
        if sign in "{[":
            return self.json(pos, alone=opener is NO_OPENER)
        if sign in "<]":
            return self.tag_call(pos, opener)
        if opener.tag and source.match(_LOST_BRACKETS, pos):
            return self._without_brackets(pos, opener)
        if not self.bare_names:
            raise NoCall("a name alone")
        return self.named(pos, opener)

    def _fenced(self, pos: int, opener: Opener, depth: int) -> ReadCalls:
        """Return the calls in a fence."""
        source, text = self.source, self.source.text
        at = source.blanks(pos)
        if text.startswith("`", at):
            raise NoCall("a fence in a fence")
        alone = opener is NO_OPENER
        if alone and not self.bare_names and at < source.size and text[at] in "<[]" and self.opener(at):
            raise NoCall("a wrapper in code")
        calls, end = self.body(at, opener, depth)
        at = source.blanks(end)
        while at < source.size and not source.starts("```", at) and not self.is_left(at):
            if text[at] in ",;":
                at = source.blanks(at + 1)
                continue
            if text[at] not in "{[<" and not (text[at].isalpha() and (self.code or not alone)):
                break
            self.row_begun = True
            more, end = self.body(at, opener, depth)
            calls, at = calls + more, source.blanks(end)
        if source.starts("```", at):
            return calls, at + 3
        # After a Python call, a closing tag belongs to other text.
        code = alone and text[end - 1] == ")"
        over = at == source.size or (alone and bool(ends_turn(source, at) if code else self.is_left(at)))
        if over and not (alone and (not self.bare_names or text[source.blanks(pos)] in "<]")):
            return calls, at
        if at < source.size and not code and self.closer(at, opener) >= 0:
            return calls, at
        raise NoCall("the end of the fence was expected")

    def _without_brackets(self, pos: int, opener: Opener) -> ReadCalls:
        """Return calls in tags that lost their angle brackets: `invoke name="f">` … `invoke>`."""
        end = self.source.find("</", pos)
        if end < 0 or self.closer(end, opener) < 0:
            raise NoCall("the end of the wrapper was expected")
        text = _BARE_END.sub(r"</\1>", _LOST_BRACKETS.sub(r"<\g<0>", self.source.text[pos:end]))
        calls, _ = CallReader(Source(text), self.tools).tag_call(0, opener)
        for call in calls:
            call.start, call.end = pos, end
        return calls, end


def missing(calls: list[Call]) -> set[str]:
    """Return the required keys missing from calls."""
    return {
        key
        for call in calls
        if call.tool
        for key in call.tool.required - {call.tool.meant(each, call.arguments) for each in call.arguments}
    }


def _read_message(reader: CallReader, pos: int) -> ReadCalls:
    """Read a Harmony message to a tool as a call."""
    source, found = reader.source, reader.source.match(_HEADER, pos)
    names = _RECIPIENT.findall(found.group()) if found else []
    if not found or not names:
        raise NoCall("the message goes to no tool")
    channels = set(_CHANNEL.findall(found["channels"]))
    analysis = channels == {"analysis"}
    if not analysis and (names[0] in _PEOPLE or channels - {"commentary"}):
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
    call.end, at = at, source.blanks(at)
    while not analysis and at < source.size:
        bracket = source.text[at] in "}]" and at - call.end < MAX_MESSAGE_BRACKETS
        if not (end := at + 1 if bracket else reader.orphan_end(at)):
            break
        at = source.blanks(end)
    # In the analysis channel, only `<|call|>` closes a message.
    reader.closed = at < source.size and not analysis
    if token := source.token(_ENDS, at):
        call.end, reader.closed = at + len(token), not analysis or token == "<|call|>"
    elif at < source.size and not source.starts("<|start|>", at):
        raise NoCall("more than an object")
    return [call], call.end
