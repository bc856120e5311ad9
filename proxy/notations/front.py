"""The streaming front: prose leaves at once; from the first sign that may begin a call the text is held.

    I read the file. <tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>

leaves as prose up to the blank, as it arrives, and as a call once the end tag is there. Held text is read again when an
end tag arrives and when it has grown by an eighth; what was read never depends on the cuts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

import regex

from proxy.codec.json_text import JsonObject
from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.notations import tables as n
from proxy.notations.calls import Call
from proxy.notations.copies import Copies
from proxy.notations.judge import Copied, Judge, Listing, Place, StringGoesOn
from proxy.notations.literals import STRICT
from proxy.notations.reader import MAX_WRAPPERS, CallReader
from proxy.notations.rows import Rows
from proxy.notations.signs import (
    END_TOKENS,
    ENOUGH,
    HEADER,
    JSON_HEAD,
    MAY_BECOME_SIGN,
    MESSAGE_ENDS,
    RESET,
    SIGNS,
    STRONG,
    STRONG_WHOLE,
    THOUGHT,
    THOUGHT_WHOLE,
    any_tag,
    reply_start,
    weak_tag,
)
from proxy.notations.source import NeedMore, NoCall, Source, end_of
from proxy.notations.surroundings import Prose
from proxy.tools.toolset import ToolSet

# Held text is read again once it has grown by so many characters, or by an eighth.
LITTLE = 64
# All readings of a reply at end tags may take so many times its length, and so much more.
MAX_WORK, MORE_WORK = 3, 20_000
# Copies after which a reply means none of its calls.
MAX_COPIED = 32
# How often a row that came to nothing is looked through again.
MAX_GOING_BACK = 4
# Openers at the end of unfinished reasoning that are tried.
MAX_TRIED = 16
# Released text that is kept to look back at, and how much more before it is dropped.
LOOK_BACK, MUCH = 256, 8_192
_BLANKS = re.compile(r"\s*")
# Whole strings of JSON with what is between them, and the rest of one string.
_STRINGS = re.compile(r'(?:[^"]*"[^"\\\n]*(?:\\.[^"\\\n]*)*")*')
_STRING_REST = re.compile(r'[^"\\\n]*(?:\\.?[^"\\\n]*)*')
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")
_END_SIGNS = ("</", "|>", "]", "}", "｜>", ")", ">")


class Kind(Enum):
    """What may begin where text is held."""

    STRONG = auto()
    WEAK = auto()
    FIRST = auto()
    GLUED = auto()
    TOKENS = auto()
    THOUGHT = auto()
    RESET = auto()


class Channel(Enum):
    """The field of a reply that a text is from."""

    CONTENT = auto()
    REASONING = auto()


@dataclass(frozen=True, slots=True)
class Found:
    """A call as it leaves: the name of an offered tool and its arguments; `weak` if the end of the reply proved it."""

    name: str
    arguments: JsonObject
    id: str = ""
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text: prose, or calls; text that is dropped is a piece without calls. `row` is what read it."""

    text: str
    calls: tuple[Found, ...] | None = None
    row: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Text that looked like a call: its position, the row that was tried, and why it was rejected."""

    start: int
    row: str
    why: str


class Reader:
    """Reads the text of one reply, in any pieces, into prose and calls.

    `channel` is where the text is from; `json_reply`: the client asked for JSON, so nothing weak counts; `raw_text`:
    the server leaves end-of-turn tokens in the text. At most `max_held` characters wait, and `max_calls` calls count.
    """

    def __init__(
        self,
        tools: ToolSet,
        copies: Copies | None = None,
        *,
        channel: Channel = Channel.CONTENT,
        json_reply: bool = False,
        raw_text: bool = False,
        max_held: int = MAX_HELD,
        max_calls: int = MAX_CALLS,
    ) -> None:
        self.refused: list[Refused] = []
        self._tools, self._copies = tools, copies or Copies(tools)
        self._channel, self._json_reply, self._raw_text = channel, json_reply, raw_text
        self._max_held, self._calls_left, self._copied = max_held, max_calls, 0
        self._start, self._weak_tag = reply_start(tools.names), weak_tag(tools.names)
        self._any_tag = any_tag(tools.names)
        # The text from character `_base` on, and what arrived since it was last looked at.
        self._text, self._base = "", 0
        self._pending: list[str] = []
        self._pending_size = 0
        # Positions in the text: where to look on, what has left, and up to where the prose was followed.
        self._pos = self._out = self._fed = 0
        self._prose = Prose()
        # Where a call may begin, how much of it was read in vain, and all that was.
        self._held, self._tried, self._work = -1, 0, 0
        self._kind = Kind.STRONG
        # What ends the reasoning that is open, and whether the reply began with it.
        self._thought: tuple[str, ...] = ()
        self._thought_first = False
        # Where JSON that is not a call may go on, and a listing of tools ended; -1 for none.
        self._json = self._listed = -1
        self._string = False
        self._went_back = 0
        self._behind_call = self._begun = self._found_any = False
        self._dead = not tools
        self._final = self._stopped = False
        self._pieces: list[Piece] = []

    @property
    def held(self) -> bool:
        """True if some text waits."""
        return self._out < len(self._text) or bool(self._pending)

    def feed(self, text: str) -> list[Piece]:
        """Take more text; return what is decided."""
        self._pending.append(text)
        self._pending_size += len(text)
        if self._held >= 0 and not self._is_due(text):
            return []
        self._join()
        return self._run()

    def finish(self, *, stopped: bool = True) -> list[Piece]:
        """Take the end of the reply; `stopped` if the model ended it."""
        self._join()
        self._final, self._stopped = True, stopped
        return self._run()

    def release(self) -> list[Piece]:
        """Release all text that waits, as prose; what it began is no call any more."""
        self._join()
        self._give_up()
        return self._taken()

    def _give_up(self) -> None:
        """Release what is held; what it began is no call any more, nor is what its strings show."""
        if self._held >= 0:
            self._refuse("released")
            self._dead = True
        self._leave(len(self._text))
        self._pos = len(self._text)

    def _join(self) -> None:
        if self._pending:
            self._text += "".join(self._pending)
            self._pending, self._pending_size = [], 0

    def _taken(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _run(self) -> list[Piece]:
        while self._step():
            pass
        if self._final:
            self._leave(len(self._text))
        elif self._out > MUCH:
            self._forget()
        return self._taken()

    def _forget(self) -> None:
        """Drop released text that nothing looks back at."""
        self._see(self._out)
        gone = self._out - LOOK_BACK
        self._text = self._text[gone:]
        self._base += gone
        self._pos, self._out, self._fed = self._pos - gone, self._out - gone, self._fed - gone
        self._held = max(self._held - gone, -1) if self._held >= 0 else -1
        self._listed = self._listed - gone if self._listed >= gone else -1
        self._json = max(self._json - gone, 0) if self._json >= 0 else -1

    # -- steps ------------------------------------------------------------------------------------------------------

    def _leave(self, end: int) -> None:
        """Release prose up to a position."""
        if end > self._out:
            self._pieces.append(Piece(self._text[self._out : end]))
            self._out = end

    def _drop(self, end: int) -> None:
        """Drop text up to a position: tokens that are neither prose nor call."""
        if end > self._out:
            self._pieces.append(Piece(self._text[self._out : end], ()))
            self._out = end

    def _see(self, end: int) -> None:
        """Follow the prose up to a position."""
        if end > self._fed:
            self._prose.feed(self._text[self._fed : end])
            self._fed = end

    def _restart(self, pos: int, *, any_text: bool = False) -> None:
        """Go on at a position at which no quotation or code is open."""
        self._pos = self._fed = pos
        self._prose = Prose()
        self._prose.any = any_text

    def _step(self) -> bool:
        """Go on as far as the text decides; return whether there is more to do."""
        if self._dead:
            self._leave(len(self._text))
            self._pos = len(self._text)
            return False
        if self._channel is Channel.REASONING or self._thought:
            return self._in_thought()
        if self._held >= 0:
            return self._read_held()
        if self._behind_call:
            return self._behind()
        return self._look()

    # -- reasoning --------------------------------------------------------------------------------------------------

    def _in_thought(self) -> bool:
        """Go on to the end of the reasoning."""
        text, ends = self._text, self._thought
        if ends and ends[0].startswith("</"):
            ends = (*ends, "</think>", "</mm:think>", "</seed:think>", "</thinking>")
        at = min((place for end in ends if (place := text.find(end, self._pos)) >= 0), default=-1)
        if at < 0:
            return self._unended_thought()
        end = next(each for each in ends if text.startswith(each, at))
        if not self._final and any(each != end and each.startswith(text[at:]) for each in ends):
            return False
        after = at if end in ("<|start|>", "<|channel|>") else at + len(end)
        self._leave(after)
        self._restart(after)
        self._begun = self._found_any or not self._thought_first
        self._thought = ()
        return True

    def _unended_thought(self) -> bool:
        """Let reasoning flow on; a wrapped call at its very end is meant if the reply is nothing else (F70)."""
        whole = self._channel is Channel.REASONING or self._thought_first
        if not self._final:
            self._pos = max(self._pos, len(self._text) - 80, 0)
            shown = STRONG_WHOLE.search(self._text, self._out) if whole else None
            self._pos = max(self._out, min(self._pos, shown.start())) if shown else self._pos
            self._leave(self._pos)
            return False
        if whole and self._stopped:
            self._take_last_call()
        self._leave(len(self._text))
        return False

    def _take_last_call(self) -> None:
        openers = [found.start() for found in STRONG_WHOLE.finditer(self._text, self._out)]
        self._kind = Kind.STRONG
        for start in openers[-MAX_TRIED:]:
            reader = CallReader(Source(self._text, True), self._tools)
            try:
                calls, end, _ = reader.read_strong(start)
                if Rows(reader).skip_left(end) != len(self._text):
                    continue
                self._see(start)
                Judge(reader, self._copies).check(calls, self._place(start, end, weak=True))
            except NoCall as refusal:
                self._note(start, refusal)
                continue
            self._leave(start)
            self._take(calls, len(self._text), weak=True)
            return

    # -- looking for signs ------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Look for what may begin a call, reasoning, or a token that is dropped."""
        if not self._begun:
            if not self._begin():
                return False
            if self._held >= 0 or self._thought:
                return True
        text = self._text
        while True:
            found = SIGNS.search(text, self._pos)
            if found is None:
                self._pass_prose()
                return False
            sign = found.group()
            at = found.end() - 1 if sign[0] in " \t{[`" and sign != " to=" else found.start()
            if self._json >= 0 and self._in_string(at):
                self._pos = at + 1
                continue
            try:
                kind = self._kind_at(at)
            except NeedMore:
                self._leave(at)
                self._pos = at
                return False
            if kind is None:
                self._pos = at + 1
                continue
            self._begin_kind(kind, at)
            return True

    def _in_string(self, at: int) -> bool:
        """Return whether a position is in a string of JSON that is not a call."""
        text = self._text
        while True:
            if self._string:
                self._json = end_of(_STRING_REST, text, min(self._json, at), at)
                if self._json >= at:
                    return True
                self._string, self._json = False, self._json + 1
            if _BLANK_LINE.search(text, self._json, at):
                self._json = -1
                return False
            self._json = end_of(_STRINGS, text, self._json, at)
            quote = text.find('"', self._json, at)
            if quote < 0:
                return False
            self._string, self._json = True, quote + 1

    def _pass_prose(self) -> None:
        """Release prose without signs, but for an end that may become one."""
        text = self._text
        self._pos = len(text)
        if not self._final:
            tail = text[-16:]
            if any(tail.endswith(word[:size]) for word in MAY_BECOME_SIGN for size in range(len(word), 0, -1)):
                self._pos = max(self._out, len(text) - 11)
            if tail.endswith(">") and not text[(line := text.rfind("\n") + 1) :].strip(" \t>"):
                self._pos = max(self._out, line)
        self._leave(self._pos)

    def _begin_kind(self, kind: Kind, at: int) -> None:
        """Begin what a sign begins."""
        text = self._text
        if kind is Kind.THOUGHT:
            found = THOUGHT_WHOLE.match(text, at)
            assert found is not None
            self._open_thought(found.group(), found.end(), first=not text[:at].strip() and not self._base)
            return
        self._leave(at)
        if kind is Kind.RESET:
            ended = RESET.match(text, at)
            assert ended is not None
            self._leave(ended.end())
            self._restart(ended.end())
            self._begun = self._found_any
            return
        self._held, self._tried, self._kind = at, 0, kind

    def _open_thought(self, opener: str, end: int, *, first: bool) -> None:
        self._thought, self._thought_first, self._pos = n.THOUGHTS[opener], first, end
        self._leave(end)

    def _begin(self) -> bool:
        """Pass leaked tokens, and try what counts only as the first thing of a reply; False while more must come."""
        text, final = self._text, self._final
        at = end_of(_BLANKS, text, self._pos)
        if at == len(text):
            return final
        if not final and any(token.startswith(text[at:]) for token in n.BEFORE_TEXT):
            return False
        for token in n.BEFORE_TEXT:
            if text.startswith(token, at):
                self._drop(at + len(token))
                self._pos = self._fed = self._out
                return self._begin()
        thought = THOUGHT.match(text, at, partial=not final)
        if thought:
            if thought.partial:
                return False
            self._see(at)
            self._open_thought(thought.group(), thought.end(), first=True)
            return True
        strong = STRONG.match(text, at, partial=not final)
        if strong is None:
            head = self._start.match(text, at, partial=not final)
            if head and head.partial and head.end() == len(text) and not final:
                return False
            if head:
                self._see(at)
                self._held, self._tried, self._kind = at, 0, Kind.FIRST
        elif strong.partial:
            return False
        self._begun = True
        return True

    def _kind_at(self, at: int) -> Kind | None:
        """Return what may begin at a sign; NeedMore if more text must tell."""
        text, partial = self._text, not self._final and len(self._text) - at < ENOUGH
        if text.startswith("TOOL_CALLS", at):
            self._see(at)
            return None if self._prose.fence else Kind.GLUED
        if text[at] == "<" and not partial and not self._any_tag.match(text, at):
            return None
        if _found(RESET, text, at, not partial):
            return Kind.RESET
        if text.startswith(" to=", at) and text[text.rfind("\n", 0, at) + 1 : at].strip():
            return None
        strong = self._strong_at(at, partial)
        token = self._end_token(at)
        nothing = strong is None and not token and text[at] == "<" and not partial
        if nothing and not THOUGHT_WHOLE.match(text, at) and not self._weak_tag.match(text, at):
            return None
        self._see(at)
        if token and not self._raw_text and self._prose.in_code():
            return None
        if self._prose.in_region() and not token:
            if strong is not None:
                self._note(at, NoCall("in code"))
            return None
        if self._is_thought(at, partial, strong or 0):
            return None if self._prose.in_code() else Kind.THOUGHT
        if strong is not None:
            return Kind.STRONG
        if token:
            return Kind.TOKENS
        return self._weak_kind(at, partial)

    def _strong_at(self, at: int, partial: bool) -> int | None:
        """Return the end of the opener of a wrapper or a message at a sign."""
        if not partial:
            whole = STRONG_WHOLE.match(self._text, at)
            return whole.end() if whole else None
        found = STRONG.match(self._text, at, partial=True)
        if found is None:
            return None
        if found.partial or found.end() == len(self._text):
            raise NeedMore
        return found.end()

    def _end_token(self, at: int) -> str:
        """Return the end-of-turn token at a position; without `raw_text` one that leaked into a sentence."""
        token = Source(self._text, self._final).token(END_TOKENS, at)
        if not token or self._raw_text:
            return token
        leaked = token.startswith(("<|", "<｜", "<end_of_turn>"))
        return token if leaked and at and not re.match(r"[\s\"'`]", self._text[at - 1]) else ""

    def _is_thought(self, at: int, partial: bool, strong_end: int) -> bool:
        """Return whether reasoning begins at a sign."""
        text, line = self._text, self._prose.line.strip()
        header = text.startswith("<|channel|>", at)
        if line and self._prose.any and not header:
            return False
        found = THOUGHT.match(text, at, partial=partial)
        if found is None:
            return False
        if found.partial:
            raise NeedMore
        if header and line and not line.endswith("<|start|>assistant"):
            return False
        return strong_end <= found.end()

    def _weak_kind(self, at: int, partial: bool) -> Kind | None:
        """Return whether something that counts at the end of the reply may begin."""
        if _found(self._weak_tag, self._text, at, not partial):
            return Kind.WEAK
        line = self._prose.line
        if line.strip() or (self._text[at] == "`" and re.match(r"\t| {4,}", line)):
            return None
        return Kind.WEAK if _found(JSON_HEAD, self._text, at, not partial) else None

    # -- held text --------------------------------------------------------------------------------------------------

    def _is_due(self, new: str) -> bool:
        """Return whether held text is to be read again."""
        size = len(self._text) - self._held + self._pending_size
        if size >= self._tried + max(LITTLE, self._tried >> 3) or size > self._max_held:
            return True
        if self._work > MAX_WORK * (self._base + len(self._text) + self._pending_size) + MORE_WORK:
            return False
        new = self._text[-2:] + new if len(self._pending) == 1 else "".join(self._pending[-2:])
        return any(sign in new for sign in _END_SIGNS)

    def _read_held(self) -> bool:
        """Read what is held; return whether it was decided."""
        start, size = self._held, len(self._text) - self._held
        self._work += size
        self._tried = size
        reader = CallReader(Source(self._text, self._final), self._tools, bare_names=self._kind is not Kind.WEAK)
        try:
            calls, end, weak = self._reading(reader, start)
            if self._kind is Kind.TOKENS:
                self._held = -1
                self._drop(end)
                self._pos = end
                return True
            calls, end, weak = self._judged(reader, calls, start, end, weak)
        except NeedMore:
            if size > self._max_held:
                self._give_up()
            return False
        except NoCall as refusal:
            self._note(start, refusal)
            self._refuse_reading(reader, refusal)
            return True
        self._held = -1
        self._leave(min(start if self._kind is not Kind.FIRST else max(start, calls[0].start), end))
        self._take(calls, end, weak=weak)
        self._pos = end
        self._dead = reader.broken or not self._calls_left
        self._behind_call = self._found_any = True
        return True

    def _judged(
        self, reader: CallReader, calls: list[Call], start: int, end: int, weak: bool
    ) -> tuple[list[Call], int, bool]:
        """Return the calls that count, their end, and whether they are weak; NoCall if none counts."""
        self._see(end_of(_BLANKS, self._text, start))
        judge = Judge(reader, self._copies)
        try:
            judge.check(calls, self._place(start, end, weak))
        except NoCall as refusal:
            closed = [call for call in calls if call.closed_itself]
            if any(call.tool is None for call in closed):
                closed = []
            if not weak or self._kind is not Kind.STRONG or not closed or isinstance(refusal, Copied | Listing):
                refusal.end = max(refusal.end, end)
                raise
            # Of what breaks off, the calls that were closed count.
            calls, end, weak = closed, closed[-1].end, False
            if Rows(reader).skip_left(end) == reader.source.size:
                raise
            judge.check(calls, self._place(start, end, weak))
        if sum(call.tool is not None for call in calls) > self._calls_left or end - start > self._max_held:
            raise NoCall("over a limit")
        return calls, end, weak

    def _place(self, start: int, end: int, weak: bool) -> Place:
        first = self._kind is Kind.FIRST and not self._found_any
        return Place(self._prose, start, end, weak, first, self._stopped, self._json_reply, self._listed)

    def _take(self, calls: list[Call], end: int, *, weak: bool) -> None:
        """Emit calls; one of a tool that is not offered stays text in its place."""
        row = _row_name(self._text, self._held if self._held >= 0 else self._out)
        taken: list[Found] = []
        made = False
        for call in calls:
            if call.tool is not None:
                taken.append(Found(call.name, call.arguments, call.id, weak))
                made = True
                continue
            if made:
                self._emit(taken, max(call.start, self._out), row)
                taken = []
            self._leave(call.end)
        self._emit(taken, end, row)

    def _emit(self, calls: list[Found], end: int, row: str) -> None:
        self._calls_left -= len(calls)
        self._pieces.append(Piece(self._text[self._out : end], tuple(calls), row))
        self._out = end

    def _note(self, start: int, refusal: NoCall) -> None:
        self.refused.append(Refused(self._base + start, _row_name(self._text, start), str(refusal)))

    def _refuse_reading(self, reader: CallReader, refusal: NoCall) -> None:
        """Continue after held text that contains no call."""
        start, end = self._held, refusal.end
        if isinstance(refusal, Listing):
            self._listed = max(end, start)
        self._copied += isinstance(refusal, Copied)
        self._dead = isinstance(refusal, StringGoesOn) or self._copied >= MAX_COPIED
        self._dead |= (end < 0 or reader.broken) and reader.deep and self._kind is not Kind.FIRST
        run_end = reader.run_end
        self._refuse(str(refusal), end)
        self._pos = max(self._pos, run_end)
        if self._kind in (Kind.FIRST, Kind.WEAK) and self._went_back < MAX_GOING_BACK:
            self._went_back += end >= 0  # a row that fails may hold wrapped calls
        elif end >= 0:
            # A message's last token may end the reply, whatever the message is.
            token = len("<|call|>") if self._text.endswith("<|call|>", start, end) else 0
            self._pos = max(self._pos, end - token)

    def _refuse(self, why: str, end: int = -1) -> None:
        """Release what is held: look again after its first sign, and not in its strings."""
        start, kind, self._held = self._held, self._kind, -1
        self._begun = True
        if kind is Kind.FIRST:
            self._pos = start
        elif kind is Kind.STRONG and end < 0 and HEADER.match(self._text, start) and why != "released":
            # A message that goes to no tool: nothing in it counts.
            self._thought, self._thought_first, self._pos = MESSAGE_ENDS, False, start + 1
        else:
            self._pos = max(start + 1, self._strings_end(start))

    def _strings_end(self, start: int) -> int:
        """Return the end of JSON that is not a call: calls shown in its strings do not count either."""
        text = self._text
        opener = STRONG_WHOLE.match(text, start)
        at = end_of(_BLANKS, text, opener.end()) if opener else start
        if at < len(text) and text[at] in "{[":
            try:
                return int(STRICT.raw_decode(text, at)[1])
            except (ValueError, RecursionError):
                self._json, self._string = at, False
                return at
        return at if opener else start + 1

    def _reading(self, reader: CallReader, start: int) -> tuple[list[Call], int, bool]:
        """Return the calls that begin at a position, their end, and whether they are weak."""
        rows, source = Rows(reader), reader.source
        if self._kind is Kind.TOKENS:
            end = rows.skip_left(start, after_calls=False)
            if end < source.size or not source.final:
                raise NoCall("text follows")
            return [], end, False
        if self._kind is Kind.STRONG:
            return self._read_strong(reader, rows, start)
        if self._kind is Kind.FIRST:
            calls, end = rows.first(start)
        elif self._kind is Kind.GLUED:
            calls, end, _ = reader.named(start + len("TOOL_CALLS"), None)
            for call in calls[:1]:
                call.start = start
            calls, end = rows.row(calls, end)
        else:
            calls, end = rows.row([], start)
        return calls, end, True

    def _read_strong(self, reader: CallReader, rows: Rows, start: int) -> tuple[list[Call], int, bool]:
        self._check_depth(start)
        calls, end, closed = reader.read_strong(start)
        if closed:
            return calls, end, False
        try:
            calls, end = rows.row(calls, end)
        except NoCall:
            whole = [call for call in calls if call.closed_itself]
            if any(call.tool is None for call in whole):
                raise
            if not whole or rows.skip_left(whole[-1].end) == reader.source.size:
                raise
            return whole, whole[-1].end, False
        return calls, end, True

    def _check_depth(self, pos: int) -> None:
        """Refuse wrappers in wrappers before anything is read."""
        before = ""
        for _ in range(MAX_WRAPPERS + 2):
            found = STRONG_WHOLE.match(self._text, pos)
            if found is None or found.group() == before or HEADER.match(self._text, pos):
                return
            before, pos = found.group(), end_of(_BLANKS, self._text, found.end())
        raise NoCall("too many wrappers")

    def _behind(self) -> bool:
        """Drop blanks, closers and tokens after a call, if another call or the end follows."""
        reader = CallReader(Source(self._text, self._final), self._tools)
        try:
            pos = Rows(reader).skip_left(self._pos)
        except NeedMore:
            return False
        self._behind_call = False
        written = self._text[self._pos : pos]
        if pos < len(self._text) or not self._final:
            pos -= len(written) - len(written.rstrip()) if written.strip() else len(written)
        self._drop(pos)
        self._restart(pos, any_text=True)
        self._begun = True
        return True


def _found(pattern: regex.Pattern[str], text: str, at: int, final: bool) -> bool:
    """Return whether a pattern matches at a position; NeedMore if more text could make it match."""
    found = pattern.match(text, at, partial=not final)
    if found and found.partial:
        raise NeedMore
    return bool(found)


def _row_name(text: str, start: int) -> str:
    """Return the name of the row that reads what begins at a position."""
    found = STRONG_WHOLE.match(text, start)
    return found.group().strip() if found else text[start : start + 1]
