"""Rows of calls, which count only at the end of a reply, and calls at the start of a reply."""

from __future__ import annotations

import re
from contextlib import suppress

import regex

from proxy.notations import tables as n
from proxy.notations.calls import NO_OPENER, Call, Opener
from proxy.notations.reader import CallReader
from proxy.notations.signs import CUT_OPENERS
from proxy.notations.source import NoCall, Rejection
from proxy.notations.tags import WRAPPER_END

_GEMMA_OPENER = Opener(0, ("<tool_call|>",))
_LEADS = regex.compile(r"functools\s*|TOOL_CALLS|;\s*|function call\s*|(?:thought\n)?(?=call:[A-Za-z])")
# Text before a name and arguments: a Harmony header without its tokens, and ReAct.
_SAID = regex.compile(
    r"(?:assistant)?commentary to=functions\.(?P<header>[\w.-]+?)\s*(?:json|<\|constrain\|>json)?\s*"
    r"(?:<\|message\|>)?\s*(?=\{)|Action:\s*(?P<react>[\w.-]+)\s*\nAction Input:\s*(?=\{)"
)
_BEHIND_BRACKET = re.compile(r"[}\]]\s*[^\s}\],]")


class RowReader(CallReader):
    """Reader of rows of calls."""

    def row(self, calls: list[Call], pos: int) -> tuple[list[Call], int]:
        """Return `calls` and the calls after them until the end of the reply, and the end."""
        calls = [*calls]
        try:
            return calls, self._read_row(calls, pos)
        except NoCall as refusal:
            refusal.first_end, refusal.end = (calls[0].end, calls[-1].end) if calls else (-1, -1)
            if self.wrapper_first:  # it counts without the row
                refusal.first_end = -1
            if any(call.told for call in calls):  # a string may extend to here
                self.broken = self.deep = True
            raise

    def _read_row(self, calls: list[Call], pos: int) -> int:
        """Add the calls of a row to `calls`; return its end."""
        source = self.source
        if source.text.startswith("Action:", pos) and not source.match(_SAID, pos):
            pos = source.blanks(pos + len("Action:"))
        new, code = calls, False
        while True:
            self.astray = False
            pos = self.skip_left(pos, after_calls=bool(calls))
            if self.code and calls and source.starts("```", pos) and self.skip_left(pos + 3) == source.size:
                pos = source.size
            if pos == source.size:
                if not calls:
                    raise NoCall("no call")
                return pos
            if any(call.told and not call.closed_itself for call in new):
                raise NoCall("a string may go on to here")
            text, begun = source.text, pos
            lead = next((each for each in ("TOOL_CALLS", ">>>") if source.starts(each, pos)), "")
            if said := source.match(_SAID, pos):
                got, pos = self.arguments(source.blanks(said.end()), said["header"] or said["react"], pos)
            elif text.startswith(("<|start|>", "<|channel|>", "to="), pos) or (text[pos] in "<[" and self.opener(pos)):
                got, pos = self.strong(pos)
            elif lead or (text[pos].isalpha() and (calls or self.bare_names)):
                pos = source.blanks(pos + len(lead))
                try:
                    got, pos = self.named(pos, _GEMMA_OPENER if source.starts("call:", pos) else None)
                except NoCall as refusal:
                    if calls and refusal.rejection is Rejection.NOT_OFFERED:
                        raise NoCall("text follows") from None
                    raise
                got[0].start = begun
            else:
                self.row_begun = bool(calls)
                got, pos = self.body(pos, NO_OPENER, 0)
            if not calls:
                self.wrapper_first = self.opener(begun) is not None
                code = any(call.bare and text[call.end - 1] == ")" for call in got)
            calls += got
            new = got
            # After a Python call, JSON that names no tool may be its result. Raise immediately, so that the result does
            # not depend on how the text is split.
            if any(call.spoils_row or (code and call.tool is None) for call in got):
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
        is_named = any(self.tools.resolve(str(read.value.get(word, ""))) is tool for word in n.NAME_WORDS)
        is_call = is_named and any(isinstance(read.value.get(w), dict) for w in n.ARGUMENT_WORDS if tool.is_text(w))
        if is_call or not tool.accepts(tool.meant(key) for key in read.value):
            raise NoCall("no arguments of the forced tool")
        return self.row([Call(tool, name, read.value, start, read.end, told=read.told)], read.end)

    def first(self, start: int, forced: str = "") -> tuple[list[Call], int]:
        """Return the calls at the start of a reply, and their end.

        Python calls count here. A lead-in such as `functools` or a truncated opener may precede the calls. An object
        may be the arguments of the `forced` tool.
        """
        source, self.code = self.source, True
        if forced:
            with suppress(NoCall):
                return self.forced(start, forced)
        lead = source.match(_LEADS, start)
        end = lead.end() if lead else start + len(source.token(CUT_OPENERS, start))
        calls, end = self.row([], source.blanks(end) if end > start else start)
        calls[0].start = start
        return calls, end
