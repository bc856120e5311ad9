"""Held text: when to read it again, which calls count, and how to continue when none does."""

from __future__ import annotations

import re

from proxy.notations import tables as n
from proxy.notations.arguments import json_end
from proxy.notations.calls import Call, closed_calls
from proxy.notations.judge import Copied, Judge, Listing, StringGoesOn
from proxy.notations.reply import BLANKS, Kind, Reply
from proxy.notations.rows import RowReader
from proxy.notations.signs import BARE, BARES, HEADER, MESSAGE_ENDS, STRONG_WHOLE, row_name
from proxy.notations.source import Empty, NeedMore, NoCall, Rejection, Source, end_of
from proxy.notations.stream import Piece
from proxy.notations.tags import CALL_TAG

# Read held text again once it has grown by this many characters, or by an eighth.
LITTLE = 64
# Characters that all reads at end tags may take: a multiple of the reply's length, plus a constant.
MAX_WORK, MORE_WORK = 3, 20_000
# Steps that one read, and all failed reads together, may take: per character, plus a constant.
MAX_STEPS, MORE_STEPS = 8, 50_000
# Number of copies after which no further calls in the reply count.
MAX_COPIED = 32
# Maximum number of failed rows to search again.
MAX_GOING_BACK = 4
# Maximum length of a call's opener, unless its name is long.
MAX_OPENER = 60
# The parameters of a tool's definition.
_DEFINES = re.compile(r"\"type\"\s*:\s*\"object\"\s*,\s*\"properties\"\s*:")
# Whitespace, a key or a name too long for the start of a JSON call.
_NO_HEAD = re.compile(r"[\[{\s]*(?:\s{200}|(?:\"(?:name|tool_name|id|type)\"\s*:\s*)?\"[^\"\\]{200})")
_END_SIGNS = ("</", "|>", "]", "}", "｜>", ")", ">")


class HeldReply(Reply):
    """A reply that reads its held text."""

    def _next_size(self) -> int:
        """Return the length at which held text is read again."""
        return self._tried + max(LITTLE, self._tried >> 3)

    def _is_due(self) -> bool:
        """Return whether held text should be read again."""
        stream = self._stream
        size = len(stream.text) - self._held + stream.pending_size
        if size >= self._next_size() or size > self._max_held:
            return True
        if self._work > MAX_WORK * stream.size + MORE_WORK:
            return False
        new = stream.newest()
        return any(sign in new for sign in _END_SIGNS)

    def _read_held(self) -> bool:
        """Read the held text; return whether it was decided."""
        stream = self._stream
        start, size = self._held, len(stream.text) - self._held
        self._work += size
        if size >= self._next_size():
            self._tried = size
        steps = MAX_STEPS * size + MORE_STEPS
        source = Source(stream.text, stream.final, steps)
        reader = RowReader(source, self._tools, bare_names=self._kind is not Kind.WEAK)
        try:
            if self._kind is Kind.TOKENS:
                return self._read_tokens(reader, start)
            self._check_head(start)
            calls, end, weak = self._counting(reader, start)
        except NeedMore:
            if size > self._max_held:
                self._give_up()
            elif reader.astray and not reader.offered:
                self._leave_astray()
            return False
        except NoCall as refusal:
            self._vain_steps += steps - source.steps
            return self._refuse_reading(reader, refusal)
        self._held = -1
        if self._is_gap(start):
            stream.drop(start, "")
        stream.leave(min(start if self._kind is not Kind.FIRST else max(start, calls[0].start), end))
        self._take(calls, end, weak=weak)
        if reader.broken and stream.final and not self._stopped:
            stream.drop(len(stream.text), "cut_call")
        self._no_calls = reader.broken or not self._calls_left
        self._behind_call = self._found_any = stream.fresh = True
        self._unknown = False
        return True

    def _read_tokens(self, reader: RowReader, start: int) -> bool:
        """Drop end-of-turn tokens at the end of the reply. Raise NoCall if text follows."""
        stream, end = self._stream, reader.skip_left(start, after_calls=False)
        if end < len(stream.text) or not stream.final:
            self._text_follows = stream.base + end
            raise NoCall("text follows")
        self._held = -1
        stream.drop(end, "end_of_turn")
        return True

    def _leave_astray(self) -> None:
        """Release the text of an incomplete call to a tool that is not offered. Calls may follow in its wrapper."""
        stream, text = self._stream, self._stream.text
        # The opener of the next call may have begun.
        sign = text.find("<", max(stream.out, len(text) - MAX_OPENER))
        # Keep the whitespace before a possible call: it is dropped with the call.
        stream.leave(stream.out + len(text[stream.out : len(text) if sign < 0 else sign].rstrip()))

    # -- which calls count ------------------------------------------------------------------------------------------

    def _counting(self, reader: RowReader, start: int) -> tuple[list[Call], int, bool]:
        """Return the calls that count, their end, and whether they are weak evidence. Raise NoCall if none counts."""
        judge = Judge(reader, self._copies)
        calls, end, weak = self._reading(reader, start)
        try:
            judge.check(calls, self._place(start, end, weak))
        except NoCall as refusal:
            refusal.end = max(refusal.end, end)
            if not weak or self._kind is not Kind.STRONG or isinstance(refusal, Copied | Listing):
                raise
            # In text that breaks off, closed calls count, unless a raw value may continue.
            calls, weak = closed_calls(calls, refusal), False
            end = calls[-1].end
            if calls[-1].tagged and reader.skip_left(end) == reader.source.size:
                raise
            judge.check(calls, self._place(start, end, weak))
        if sum(call.tool is not None for call in calls) > self._calls_left or end - start > self._max_held:
            raise NoCall("it is over a limit", Rejection.OVER_LIMIT)
        if row_name(self._stream.text, start) in self._off:
            raise NoCall("its notation is off for this model", Rejection.FORMAT_OFF)
        return calls, end, weak

    def _reading(self, reader: RowReader, start: int) -> tuple[list[Call], int, bool]:
        """Return the calls that begin at a position, their end, and whether they are weak evidence."""
        if self._kind is Kind.FIRST:
            return *reader.first(start, self._forced), True
        if self._kind is not Kind.STRONG:
            return *reader.row([], start), True
        calls, end = reader.read_strong(start)
        if reader.in_doubt and not self._stopped:
            raise NoCall("the reply was cut off", Rejection.CUT_OFF)
        if reader.closed:
            return calls, end, False
        try:
            return *reader.row(calls, end), True
        except NoCall as refusal:
            whole = closed_calls(calls, refusal)
            if reader.skip_left(whole[-1].end) == reader.source.size:
                raise
            return whole, whole[-1].end, False

    def _check_head(self, start: int) -> None:
        """Reject incomplete JSON that cannot become a call."""
        text, opener = self._stream.text, STRONG_WHOLE.match(self._stream.text, start)
        given = "name=" in opener.group() or HEADER.match(text, start) if opener else self._forced
        if not given and _NO_HEAD.match(text, opener.end() if opener else start):
            raise NoCall("no call begins like this")

    # -- when none counts -------------------------------------------------------------------------------------------

    def _refuse_reading(self, reader: RowReader, refusal: NoCall) -> bool:
        """Continue after held text without a call; return whether there is more to do."""
        stream, start, end, kind = self._stream, self._held, refusal.end, self._kind
        self._refused(start, refusal)
        if row := self._cut_row(start, refusal):
            if self._finished:
                stream.drop(len(stream.text), row)
                self._held = -1
            return False
        empty = isinstance(refusal, Empty) and end >= 0 > refusal.first_end
        if empty and stream.fresh and not self._found_any and not stream.text[stream.out : start].strip():
            # `<tools></tools>` is nothing: what follows is judged as if the reply began there.
            self._held, self._begun = -1, False
            stream.leave(end)
            stream.restart(end)
            return True
        if not empty and self._is_broken(start, refusal):
            self._ends_calls = kind is Kind.STRONG or (end < 0 and reader.deep)
            self._kind = Kind.BROKEN
            return True
        if isinstance(refusal, Listing):
            self._listed = stream.base + max(end, start)
        self._copied += isinstance(refusal, Copied)
        self._no_calls |= isinstance(refusal, StringGoesOn) or self._copied >= MAX_COPIED
        self._no_calls |= (end < 0 or reader.broken) and reader.deep and kind is not Kind.FIRST
        self._refuse(end)
        stream.pos = max(stream.pos, reader.run_end)
        if kind in (Kind.FIRST, Kind.WEAK) and (0 <= refusal.first_end == end or self._went_back < MAX_GOING_BACK):
            # A failed row may contain wrapped calls, but not inside its first call.
            self._went_back += refusal.first_end != end
            stream.pos = max(stream.pos, refusal.first_end)
        elif end >= 0:
            # The last token of any message may end the reply.
            token = len("<|call|>") if stream.text.endswith("<|call|>", start, end) else 0
            stream.pos = max(stream.pos, end - token)
        self._no_calls |= self._vain_steps > MAX_STEPS * (stream.base + start) + MORE_STEPS
        return True

    def _refuse(self, end: int = -1) -> None:
        """Release held text and resume the search after its first sign, skipping JSON strings."""
        stream, start, self._held, self._begun = self._stream, self._held, -1, True
        if self._kind is Kind.FIRST:
            stream.pos = start
        elif self._kind is Kind.STRONG and end < 0 and HEADER.match(stream.text, start):
            # A message to no tool: nothing in it counts.
            self._thought, self._thought_first, self._separated = MESSAGE_ENDS, False, False
            stream.pos = start + 1
        else:
            stream.pos = max(start + 1, self._strings_end(start), stream.out)

    def _strings_end(self, start: int) -> int:
        """Return the end of JSON that is not a call. Calls in its strings do not count."""
        text = self._stream.text
        opener = STRONG_WHOLE.match(text, start)
        at = end_of(BLANKS, text, opener.end()) if opener else start
        if text[at : at + 1] not in ("{", "["):
            return at
        end = json_end(text, at)
        if end < 0:
            self._json.begin(self._stream.base + at)
        return max(end, at)

    def _give_up(self) -> None:
        """Release held text as prose. Calls in its strings do not count either."""
        stream, held, self._held = self._stream, self._held, -1
        if self._behind_call:
            # An incomplete closer.
            stream.drop(len(stream.text), "leftover")
        if held >= 0:
            self._refused(held, NoCall("it waited too long, or something else came", Rejection.RELEASED))
            self._no_calls |= self._kind is not Kind.TOKENS and json_end(stream.text, held) != len(stream.text)
        self._begun = self._begun or bool(stream.text.strip())
        stream.leave(len(stream.text))

    def _cut_row(self, start: int, refusal: NoCall) -> str:
        """Return why the rest of a reply is dropped: a lone opener or a truncated further call; empty if it is kept.

        A truncated call stays text if it is the only one: there is nothing else to show.
        """
        stream, text = self._stream, self._stream.text
        if refusal.rejection not in (Rejection.BROKEN, Rejection.CUT_OFF):
            return ""
        further = stream.final and self._found_any and not text[stream.out : start].strip() and stream.fresh
        if further and not self._stopped and self._kind in (Kind.STRONG, Kind.WEAK) and text[start] == "<":
            return "cut_call"
        if self._kind is not Kind.STRONG:
            return ""
        at_line = not stream.prose.line.strip()
        if at_line and stream.final and HEADER.match(text, start) and "<|message|>" not in text[start:]:
            return "lone_opener"
        if BARE.fullmatch(text, start):
            return "lone_opener" if at_line or not stream.prose.line[-1:].isspace() else ""
        return "lone_opener" if text.startswith(tuple(n.TOKENS), start) and BARES.fullmatch(text, start) else ""

    # -- a call that cannot be read ---------------------------------------------------------------------------------

    def _is_broken(self, start: int, refusal: NoCall) -> bool:
        """Return whether the model meant a call here that cannot be read.

        It must be a wrapper around an offered name at the start of a line, outside code, quotations, listings and
        copies.
        """
        stream = self._stream
        strong = self._kind is Kind.STRONG or (self._kind is Kind.WEAK and CALL_TAG.match(stream.text, start))
        if not self._watch_broken or not strong or self._found_any:
            return False
        if refusal.rejection not in (Rejection.BROKEN, Rejection.CUT_OFF) or isinstance(refusal, Listing):
            return False
        stream.see(start)
        prose = stream.prose
        if prose.line.strip() or prose.in_code() or prose.indented() or prose.open_container() or prose.behind_quote():
            return False
        if _DEFINES.search(stream.text, start):
            return False
        self._broken_tool = self._reader(final=True).named_tool(start)
        return bool(self._broken_tool)

    def _read_broken(self) -> bool:
        """Wait for the text after an unreadable call. Report the call if only its closers follow."""
        stream, held = self._stream, self._held
        behind = self._reader().behind_broken(held)
        if behind == len(stream.text) and not stream.final:
            raise NeedMore
        if behind == len(stream.text) and self._stopped and not self._copies.shows(stream.text[held:]):
            self._held = -1
            stream.leave(held)
            row = row_name(stream.text, held)
            stream.emit(Piece(stream.text[stream.out :], row=row, broken=self._broken_tool), behind)
            return False
        self._kind = Kind.STRONG
        self._refuse()
        self._no_calls = self._ends_calls
        return True
