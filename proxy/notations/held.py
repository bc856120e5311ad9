"""Held text: when to read it again, which calls count, and how to continue when none does."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.notations.arguments import json_end
from proxy.notations.calls import Call, closed_calls
from proxy.notations.copies import Copies
from proxy.notations.judge import Judge, Listing, StringGoesOn
from proxy.notations.rows import RowReader
from proxy.notations.signs import BARE, HEADER, MESSAGE_ENDS, STRONG_WHOLE, reply_start, row_name, signs, weak_tag
from proxy.notations.source import Empty, NeedMore, NoCall, Rejection, Source, end_of
from proxy.notations.stream import Channel, Found, Piece, Stream
from proxy.notations.tags import CALL_TAG
from proxy.notations.thoughts import Thoughts, marks_of
from proxy.notations.toolset import Tool, ToolSet

# Read held text again once it has grown by this many characters, or by an eighth.
LITTLE = 64
# Characters that all reads at end tags may take: a multiple of the reply's length, plus a constant.
MAX_WORK, MORE_WORK = 3, 20_000
# Steps that one read, and all failed reads together, may take: per character, plus a constant.
HELD_STEPS, MORE_HELD_STEPS = 8, 50_000
# Maximum length of a call's opener, unless its name is long.
MAX_OPENER = 60
# The parameters of a tool's definition.
_DEFINES = re.compile(r"\"type\"\s*:\s*\"object\"\s*,\s*\"properties\"\s*:")
# Maximum number of refusals to keep, and of characters to search for a tool's name.
MAX_REFUSED, MAX_SHOWN = 200, 400
BLANKS = re.compile(r"\s*")
_END_SIGNS = ("</", "|>", "]", "}", "｜>", ")", ">")


class Kind(Enum):
    """Kind of call that the held text may contain.

    FIRST counts only at the start of a reply. TOKENS are end-of-turn tokens. LAST is a call at the end of unclosed
    reasoning.
    """

    STRONG = auto()
    WEAK = auto()
    FIRST = auto()
    TOKENS = auto()
    LAST = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """Text that looked like a call: its position, the notation tried, and why it was rejected."""

    start: int
    row: str
    why: str
    rejection: Rejection = Rejection.BROKEN


@dataclass(slots=True)
class OpenThought:
    """Open reasoning and its closers. A reasoning field has none: all its text is reasoning.

    `first`: the reply began with it. `separated`: it is separated from the text. `prompt` is the opener at the end of
    the prompt; "" without an opener, or if the reply repeats it.
    """

    closers: tuple[str, ...]
    first: bool = False
    separated: bool = False
    prompt: str = ""


class HeldText(Stream):
    """Text of one reply: settings from its request, what has been read, and what is held.

    `channel` is the field of the text. `json_reply`: the client asked for JSON, so weak evidence does not count.
    `raw_text`: the server leaves end-of-turn tokens in the text. `thoughts`: separate reasoning from the text. `forced`
    is the tool that the client forced. `off` names disabled notations. `watch_broken`: report an unreadable call at the
    end of the reply. At most `max_held` characters are held, and at most `max_calls` calls count or are copies.
    """

    def __init__(
        self,
        tools: ToolSet,
        copies: Copies | None = None,
        *,
        channel: Channel = Channel.CONTENT,
        json_reply: bool = False,
        raw_text: bool = False,
        thoughts: Thoughts | None = None,
        forced: str = "",
        off: frozenset[str] = frozenset(),
        watch_broken: bool = False,
        max_held: int = MAX_HELD,
        max_calls: int = MAX_CALLS,
    ) -> None:
        super().__init__()
        # The newest refusals, each once: held text is read again as it grows.
        self.refused: dict[Refused, None] = {}
        self.refusals: Counter[str] = Counter()
        self._tools, self._copies = tools, copies or Copies(tools)
        self._channel, self._json_reply, self._raw_text = channel, json_reply, raw_text
        self._forced, self._off, self._watch_broken = forced, off, watch_broken
        self._max_held, self._calls_left = max_held, max_calls
        # Start and kind of the held text, the length last read without success, and the sum of all lengths read.
        self._held, self._kind, self._tried, self._work = -1, Kind.STRONG, 0, 0
        self._vain_steps = 0
        # Position in the reply after a listing of tools, or -1.
        self._listed = -1
        # The tool of the held call, if it cannot be read.
        self._broken_tool = ""
        # Closers of the open marked text in which calls count.
        self._shown: tuple[str, ...] = ()
        self._behind_call = self._begun = self._found_any = self._stripped = False
        self.separate(thoughts)
        # The model invents the client's turn or the result of its call.
        self._made_up = False
        self._no_calls = not tools
        # The reply is over, and the model ended it.
        self._finished = self._stopped = False

    def separate(self, thoughts: Thoughts | None) -> None:
        """Set which reasoning is separated from the text, and whether the prompt opened it."""
        names = self._tools.names
        thoughts = thoughts or Thoughts(markers=())
        self._marks = marks_of(thoughts.markers)
        self._start, self._weak_tag = reply_start(names), weak_tag(names)
        self._signs = signs(names, self._marks, stripped=self._stripped)
        self._unknown, begun = thoughts.unknown, thoughts.begun
        self._thought = OpenThought((), True) if self._channel is Channel.REASONING else None
        if begun:
            self._thought = OpenThought(self._marks.closers[begun], True, True, begun)

    def _reader(self) -> RowReader:
        """Return a reader of the text that has arrived."""
        return RowReader(Source(self.text, self.final), self._tools)

    def _hold(self, at: int, kind: Kind) -> None:
        """Hold the text from a position: a call may begin there."""
        self._held, self._tried, self._kind, self._broken_tool = at, 0, kind, ""

    def _leave_before(self, at: int) -> None:
        """Release prose up to a sign, except whitespace at the start of a segment: a call drops it."""
        if not self._is_gap(at):
            self.leave(at)

    def _is_gap(self, at: int) -> bool:
        """Return whether only whitespace precedes a position in its segment."""
        return self.blank and not self.text[self.out : at].strip()

    def _judge(self, source: Source, start: int) -> Judge:
        """Return the judge of calls that begin at a position."""
        self.see(start)
        listed = self._listed - self.base
        after_listing = listed >= 0 and not self.text[listed:start].strip()
        return Judge(
            source,
            self._tools,
            self._copies,
            self.prose,
            self._kind is Kind.FIRST,
            self._stopped,
            self._json_reply,
            after_listing,
        )

    def _take(self, calls: list[Call], end: int, *, weak: bool) -> None:
        """Emit calls. A call to a tool that is not offered stays text."""
        row = row_name(self.text, self.out)
        taken: list[Found] = []
        for call in calls:
            if call.tool is not None:
                taken.append(Found(call.name, call.written, call.arguments, call.id, weak, call.odd))
                continue
            if taken:
                self._emit(taken, max(call.start, self.out), row)
                taken = []
            self.leave(call.end)
        self._emit(taken, end, row)

    def _emit(self, calls: list[Found], end: int, row: str) -> None:
        self._calls_left -= len(calls)
        self.emit(Piece(self.text[self.out : end], tuple(calls), row), end)

    def _note(self, start: int, refusal: NoCall) -> bool:
        """Record why the text at a position is not a call. Return False if that is already recorded."""
        place = Refused(self.base + start, row_name(self.text, start), str(refusal), refusal.rejection)
        if place in self.refused:
            return False
        if len(self.refused) == MAX_REFUSED:
            del self.refused[next(iter(self.refused))]
        self.refused[place] = None
        return True

    def _refused(self, start: int, refusal: NoCall) -> None:
        """Record a refusal, and count it once, unless the text is just prose with brackets."""
        text, rejection = self.text, refusal.rejection
        counts = rejection.telling or any(name in text[start : start + MAX_SHOWN] for name in self._tools.names)
        if self._note(start, refusal) and counts:
            self.refusals[rejection.label] += 1

    # -- reading held text ----------------------------------------------------------------------------------------

    def _next_size(self) -> int:
        """Return the length at which held text is read again."""
        return self._tried + max(LITTLE, self._tried >> 3)

    def _is_due(self) -> bool:
        """Return whether held text should be read again."""
        size = len(self.text) - self._held + self.pending_size
        if size >= self._next_size() or size > self._max_held:
            return True
        if self._work > MAX_WORK * self.size + MORE_WORK:
            return False
        new = "".join((self.text[-2:], *self._pending[-2:]))
        return bool(self._pending) and any(sign in new for sign in _END_SIGNS)

    def _read_held(self) -> bool:
        """Read the held text; return whether it was decided."""
        start, size = self._held, len(self.text) - self._held
        self._work += size
        if size >= self._next_size():
            self._tried = size
        steps = HELD_STEPS * size + MORE_HELD_STEPS
        source = Source(self.text, self.final, steps)
        reader = RowReader(source, self._tools, bare_names=self._kind is not Kind.WEAK)
        try:
            if self._kind is Kind.TOKENS:
                return self._read_tokens(reader, start)
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
            self.drop(start, "")
        self.leave(start)
        self._take(calls, end, weak=weak)
        if reader.broken and self.final and not self._stopped:
            self.drop(len(self.text), "cut_call")
        self._no_calls = reader.broken or not self._calls_left
        self._behind_call = self._found_any = self.blank = True
        self._unknown = False
        return True

    def _read_tokens(self, reader: RowReader, start: int) -> bool:
        """Drop end-of-turn tokens at the end of the reply. Raise NoCall if text follows."""
        end = reader.skip_left(start, after_calls=False)
        if end < len(self.text) or not self.final:
            raise NoCall("text follows", end=end)
        self._held = -1
        self.drop(end, "end_of_turn")
        return True

    def _leave_astray(self) -> None:
        """Release the text of an incomplete call to a tool that is not offered. Calls may follow in its wrapper."""
        text = self.text
        # The opener of the next call may have begun.
        sign = text.find("<", max(self.out, len(text) - MAX_OPENER))
        # Keep the whitespace before a possible call: it is dropped with the call.
        self.leave(self.out + len(text[self.out : len(text) if sign < 0 else sign].rstrip()))

    # -- which calls count ------------------------------------------------------------------------------------------

    def _counting(self, reader: RowReader, start: int) -> tuple[list[Call], int, bool]:
        """Return the calls that count, their end, and whether they are weak evidence. Raise NoCall if none counts."""
        judge, strong = self._judge(reader.source, start), self._kind is Kind.STRONG
        calls, end, weak = list[Call](), -1, True
        if strong:
            calls, end = reader.read_strong(start)
            if reader.in_doubt and not self._stopped:
                raise NoCall("the reply was cut off", Rejection.CUT_OFF)
            weak = not reader.closed
        while True:
            try:
                if weak:
                    if self._kind is Kind.FIRST:
                        calls, end = reader.first(start, self._forced)
                    else:
                        calls, end = reader.row(calls, end if strong else start)
                judge.check(calls, start, end, weak=weak)
                break
            except NoCall as refusal:
                refusal.end = max(refusal.end, end)
                copied = refusal.rejection is Rejection.COPIED
                if not weak or not strong or copied or isinstance(refusal, Listing):
                    raise
                # In text that breaks off, closed calls count, unless a raw value may continue.
                calls, weak = closed_calls(calls, refusal), False
                end = calls[-1].end
                if calls[-1].tagged and reader.skip_left(end) == reader.source.size:
                    raise
        if sum(call.tool is not None for call in calls) > self._calls_left or end - start > self._max_held:
            raise NoCall("it is over a limit", Rejection.OVER_LIMIT)
        if row_name(self.text, start) in self._off:
            raise NoCall("its notation is off for this model", Rejection.FORMAT_OFF)
        return calls, end, weak

    # -- when none counts -------------------------------------------------------------------------------------------

    def _refuse_reading(self, reader: RowReader, refusal: NoCall) -> bool:
        """Continue after held text without a call; return whether there is more to do."""
        start, end, kind = self._held, refusal.end, self._kind
        self._refused(start, refusal)
        if row := self._cut_row(start, refusal):
            if self._finished:
                self.drop(len(self.text), row)
                self._held = -1
            return False
        empty = isinstance(refusal, Empty) and end >= 0 > refusal.first_end
        if empty and not self._found_any and self._is_gap(start):
            # `<tools></tools>` is nothing: what follows is judged as if the reply began there.
            self._held, self._begun = -1, False
            self.leave(end)
            self.restart(end)
            return True
        if not empty and self._is_broken(start, reader.offered, refusal):
            self._no_calls = kind is Kind.STRONG or (end < 0 and reader.deep)
            return True
        if isinstance(refusal, Listing):
            self._listed = self.base + max(end, start)
        self._calls_left -= refusal.rejection is Rejection.COPIED
        self._no_calls |= isinstance(refusal, StringGoesOn) or self._calls_left <= 0
        self._no_calls |= (end < 0 or reader.broken) and reader.deep and kind is not Kind.FIRST
        self._refuse(end)
        if kind is not Kind.FIRST:
            self.pos = max(self.pos, reader.run_end)
        # A failed row may contain wrapped calls, but not inside its first call.
        end = refusal.first_end if kind in (Kind.FIRST, Kind.WEAK) else end
        if end >= 0:
            # The last token of any message may end the reply.
            token = len("<|call|>") if self.text.endswith("<|call|>", start, end) else 0
            self.pos = max(self.pos, end - token)
        self._no_calls |= self._vain_steps > HELD_STEPS * (self.base + start) + MORE_HELD_STEPS
        return True

    def _refuse(self, end: int = -1) -> None:
        """Release held text and resume the search after its first sign, skipping JSON strings."""
        start, self._held, self._begun = self._held, -1, True
        if self._kind is Kind.FIRST:
            self.pos = start
        elif self._kind is Kind.STRONG and end < 0 and HEADER.match(self.text, start):
            # A message to no tool: nothing in it counts.
            self._thought = OpenThought((*MESSAGE_ENDS, "<|start|>"))
            self.pos = start + 1
        else:
            self.pos = max(start + 1, self._strings_end(start), self.out)

    def _strings_end(self, start: int) -> int:
        """Return the end of JSON that is not a call. Calls in its strings do not count."""
        text = self.text
        at = end_of(BLANKS, text, end_of(STRONG_WHOLE, text, start))
        if text[at : at + 1] not in ("{", "["):
            return at
        end = json_end(text, at)
        if end < 0:
            self.see(at)
            self.prose.json = True
        return max(end, at)

    def _give_up(self) -> None:
        """Release held text as prose. Calls in its strings do not count either."""
        held, self._held = self._held, -1
        if self._behind_call:
            # An incomplete closer.
            self.drop(len(self.text), "leftover")
        if held >= 0:
            self._refused(held, NoCall("it waited too long, or something else came", Rejection.RELEASED))
            self._no_calls |= self._kind is not Kind.TOKENS and json_end(self.text, held) != len(self.text)
        self._begun = self._begun or bool(self.text.strip())
        self.leave(len(self.text))

    def _cut_row(self, start: int, refusal: NoCall) -> str:
        """Return why the rest of a reply is dropped: a lone opener or a truncated further call; empty if it is kept.

        A truncated call stays text if it is the only one: there is nothing else to show.
        """
        text = self.text
        if refusal.rejection.telling:
            return ""
        further = self.final and self._found_any and self._is_gap(start)
        if further and not self._stopped and self._kind in (Kind.STRONG, Kind.WEAK) and text[start] == "<":
            return "cut_call"
        if self._kind is not Kind.STRONG:
            return ""
        at_line = not self.prose.line.strip()
        if at_line and self.final and HEADER.match(text, start) and "<|message|>" not in text[start:]:
            return "lone_opener"
        alone = BARE.fullmatch(text, start)
        # `It begins with <tool_call>` mentions a token.
        mentioned = not at_line and self.prose.line[-1:].isspace()
        return "lone_opener" if alone and (alone["more"] or not mentioned) else ""

    # -- a call that cannot be read ---------------------------------------------------------------------------------

    def _is_broken(self, start: int, tool: Tool | None, refusal: NoCall) -> bool:
        """Return whether the model meant a call here that cannot be read.

        It must be a wrapper around an offered name at the start of a line, outside code, quotations, listings and
        copies.
        """
        strong = self._kind is Kind.STRONG or (self._kind is Kind.WEAK and CALL_TAG.match(self.text, start))
        if not self._watch_broken or not strong or self._found_any:
            return False
        if refusal.rejection.telling or isinstance(refusal, Listing):
            return False
        self.see(start)
        prose = self.prose
        if prose.line.strip() or prose.in_code() or prose.indented() or prose.open_container():
            return False
        if _DEFINES.search(self.text, start) or tool is None:
            return False
        self._broken_tool = tool.name
        return True

    def _read_broken(self) -> bool:
        """Wait for the text after an unreadable call. Report the call if only its closers follow."""
        held = self._held
        behind = self._reader().behind_broken(held)
        if behind == len(self.text) and not self.final:
            raise NeedMore
        if behind == len(self.text) and self._stopped and not self._copies.shows(self.text[held:]):
            self._held = -1
            self.leave(held)
            row = row_name(self.text, held)
            self.emit(Piece(self.text[self.out :], row=row, broken=self._broken_tool), behind)
            return False
        self._refuse()
        return True
