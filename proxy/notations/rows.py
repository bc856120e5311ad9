"""Rows of calls, which count only at the end of a reply, and calls at the start of a reply."""

from __future__ import annotations

import re
from contextlib import suppress

import regex

from proxy.notations import tables as n
from proxy.notations.arguments import FENCE
from proxy.notations.calls import NO_OPENER, Call, Opener
from proxy.notations.reader import CallReader
from proxy.notations.signs import CUT_OPENERS
from proxy.notations.source import NeedMore, NoCall, Rejection
from proxy.notations.tags import WRAPPER_END

_GEMMA = regex.compile(r"(?:thought\n)?call:(?=[A-Za-z])")
_GEMMA_OPENER = Opener(0, ("<tool_call|>",))
_LEADS = regex.compile(r"functools\s*|TOOL_CALLS|;\s*|function call\s*")
# Text before a name and arguments: a Harmony header without its tokens, and ReAct.
_SAID = regex.compile(
    r"(?:assistant)?commentary to=functions\.(?P<header>[\w.-]+?)\s*(?:json|<\|constrain\|>json)?\s*"
    r"(?:<\|message\|>)?\s*(?=\{)|Action:\s*(?P<react>[\w.-]+)\s*\nAction Input:\s*(?=\{)"
)
_ALL = regex.compile(r"all\n.*?\n(?=>>>)", regex.S)
_BARE_CALL = regex.compile(r"(?:print\(\s*)?(?:default_api\.)?[A-Za-z_][\w.-]{0,128}(?:\(| ?\{\s*[A-Za-z_])")
_GLUED_JSON = regex.compile(r"(?:functions\.)?([A-Za-z_][\w-]{0,128}?)(?::\d{1,6})? ?json\s*(?=[{`])")
_BEHIND_BRACKET = re.compile(r"[}\]]\s*[^\s}\],]")
_CALLED = regex.compile(r"(?:(?P<printed>print\(\s*)?default_api\.)?(?P<N>[A-Za-z_][\w.-]{0,128})(?=\(|\s?\{)")


class RowReader(CallReader):
    """Reader of rows of calls."""

    def row(self, calls: list[Call], pos: int) -> tuple[list[Call], int]:
        """Return `calls` and the calls after them until the end of the reply, and the end."""
        calls = [*calls]
        try:
            return calls, self._read_row(calls, pos)
        except NoCall as refusal:
            refusal.first_end, refusal.end = (calls[0].end, calls[-1].end) if calls else (-1, -1)
            if any(call.told for call in calls):  # a string may extend to here
                self.broken = self.deep = True
            raise

    def _read_row(self, calls: list[Call], pos: int) -> int:
        """Add the calls of a row to `calls`; return its end."""
        source = self.source
        if source.text.startswith("Action:", pos) and not source.match(_SAID, pos):
            pos = source.blanks(pos + len("Action:"))
        new = calls
        while True:
            pos = self.skip_left(pos, after_calls=bool(calls))
            if pos == source.size:
                if not source.final:
                    raise NeedMore
                if not calls:
                    raise NoCall("no call")
                return pos
            if any(call.told and not call.closed_itself for call in new):
                raise NoCall("a string may go on to here")
            text, begun = source.text, pos
            lead = next((each for each in ("TOOL_CALLS", ">>>") if source.starts(each, pos)), "")
            if said := source.match(_SAID, pos):
                got, pos = self.arguments(source.blanks(said.end()), said["header"] or said["react"], pos)
            elif lead or (calls and text[pos].isalpha()):
                try:
                    got, pos = self.named(source.blanks(pos + len(lead)), None)
                except NoCall as refusal:
                    if calls and refusal.rejection is Rejection.NOT_OFFERED:
                        raise NoCall("text follows") from None
                    raise
                got = _from(got, begun)
            elif text.startswith(("<|start|>", "<|channel|>"), pos) or (text[pos] in "<[" and self.opener(pos)):
                got, pos = self.strong(pos)
            else:
                self.row_begun = bool(calls)
                got, pos = self.body(pos, NO_OPENER, 0)
            calls += got
            new = got
            if any(call.spoils_row for call in got):  # at once, so that the pieces of a stream change nothing
                raise NoCall("no tool of this name is offered", Rejection.NOT_OFFERED)

    def behind_broken(self, start: int) -> int:
        """Return the position after an unreadable wrapper and its leftovers; -1 if text follows that may not belong
        to it.
        """
        source, opener = self.source, self.opener(start)
        closers = opener.closers if opener else ()
        ends = [at + len(closer) for closer in closers if (at := source.text.find(closer, start)) >= 0]
        if opener and opener.tag and (found := WRAPPER_END.search(source.text, opener.end)):
            ends.append(found.end())
        if not ends and source.final and _BEHIND_BRACKET.search(source.text, opener.end if opener else start):
            return -1
        at = self.skip_left(min(ends)) if ends else source.size
        while at < source.size and source.text[at] in "]}":
            at = self.skip_left(at + 1)
        return at

    def forced(self, start: int, name: str) -> tuple[list[Call], int]:
        """Return the call to the tool that the client forced, with the whole reply as its arguments (F87)."""
        tool = self.tools.resolve(name)
        if tool is None or not self.source.text.startswith("{", start):
            raise NoCall("no arguments of the forced tool")
        read = self.json_arguments(start, tool)
        names = [self.tools.resolve(str(read.value.get(word, ""))) for word in n.NAME_WORDS]
        texts = [word for word in n.ARGUMENT_WORDS if tool.is_text(word)]
        is_call = tool in names and any(isinstance(read.value.get(word), dict) for word in texts)
        if is_call or not tool.accepts(tool.meant(key) for key in read.value):
            raise NoCall("no arguments of the forced tool")
        return self.row([Call(tool, name, read.value, start, read.end, told=read.told)], read.end)

    def first(self, start: int, forced: str = "") -> tuple[list[Call], int]:
        """Return the calls at the start of a reply, and their end. A lead-in such as `functools` may precede them."""
        source, text = self.source, self.source.text
        if forced:
            with suppress(NoCall):
                return self.forced(start, forced)
        if text.startswith("to=", start):
            calls, pos = self.strong(start)
            return self.row(calls, pos)
        if gemma := source.match(_GEMMA, start):
            calls, pos = self.named(gemma.end() - 5, _GEMMA_OPENER)
            return self.row(_loose(_from(calls, start)), pos)
        # A lead-in or a truncated opener may precede the calls.
        lead = source.match(_LEADS, start)
        end = lead.end() if lead else start + len(source.token(CUT_OPENERS, start))
        pos = source.blanks(end) if end > start else start
        if said := source.match(_ALL, pos, bounded=False):
            return self.row([], said.end())
        if source.match(_BARE_CALL, pos):
            return self.code(pos)
        if text[pos : pos + 1] not in ("{", "[", "<", "`", ">") and not source.match(_SAID, pos):
            return self._named(pos, start)
        try:
            calls, end = self.row([], pos)
        except NoCall:
            if text[pos] != "`" or not (fence := source.match(FENCE, pos)):
                raise
            calls, end = self.code(fence.end())
        return _from(calls, start), end

    def _named(self, pos: int, start: int) -> tuple[list[Call], int]:
        """Return the calls in a row that begins with a name."""
        source = self.source
        name = source.match(n.NAME, pos)
        if name and not self.tools.resolve(name.group()) and name.group() != "function":
            pos += len("function") * name.group().startswith("function")
        head = source.match(_GLUED_JSON, pos)
        if head and self.tools.resolve(head.group(1)):
            calls, pos = self.arguments(source.blanks(head.end()), head.group(1), start)
        else:
            calls, pos = self.named(pos, None)
        return self.row(_from(calls, start), pos)

    def code(self, pos: int) -> tuple[list[Call], int]:
        """Return the Python calls that make up the whole reply: `read(path="a")`."""
        source, calls, self.exact = self.source, list[Call](), True
        while (pos := source.blanks(pos)) < source.size:
            if source.starts("```", pos):
                pos += 3
            elif calls and source.text[pos] in ";,":
                pos += 1
            elif end := self.ends_turn(pos):
                pos = end
            else:
                got, pos = self._python_call(pos)
                calls += got
        if not source.final:
            raise NeedMore
        return _loose(calls), pos

    def _python_call(self, pos: int) -> tuple[list[Call], int]:
        source = self.source
        found = source.match(_CALLED, pos)
        if not found:
            raise NoCall("a call was expected")
        got, at = self.arguments(found.end(), found["N"], pos, "", NO_OPENER)
        if found["printed"]:
            at = source.blanks(at)
            if not source.starts(")", at):
                raise NoCall("an end of the brackets was expected")
            at += 1
        return got, at


def _from(calls: list[Call], start: int) -> list[Call]:
    """Set the start of the first call to `start`."""
    if calls:
        calls[0].start = start
    return calls


def _loose(calls: list[Call]) -> list[Call]:
    """Mark the calls as counting only as the whole reply."""
    for call in calls:
        call.loose = True
    return calls
