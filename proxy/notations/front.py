"""The streaming front: prose leaves at once; from the first sign that may begin a call the text is held.

    I read the file. <tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>

leaves as prose up to the blank, as it arrives, and as a call once the end tag is there. Held text is read again when an
end tag arrives and when it has grown by an eighth; what was read never depends on the cuts.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

import regex

from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.notations import tables as n
from proxy.notations.calls import Call
from proxy.notations.copies import Copies
from proxy.notations.judge import Copied, Judge, Listing, Place, StringGoesOn
from proxy.notations.literals import STRICT
from proxy.notations.reader import MAX_WRAPPERS, CallReader
from proxy.notations.rows import Rows
from proxy.notations.signs import (
    BARE,
    END_TOKENS,
    ENOUGH,
    HEADER,
    JSON_HEAD,
    MADE_UP,
    MAY_BECOME_SIGN,
    MAY_BECOME_STRIPPED_SIGN,
    MESSAGE_ENDS,
    PLAIN,
    SIGNS,
    STRIPPED,
    STRIPPED_SIGNS,
    STRONG,
    STRONG_WHOLE,
    any_tag,
    cut_opener,
    may_begin,
    reply_start,
    row_name,
    weak_tag,
)
from proxy.notations.source import NeedMore, NoCall, Rejection, Source, end_of
from proxy.notations.stream import Found, Piece, Stream
from proxy.notations.tags import CALL_TAG
from proxy.notations.thoughts import SHARED_CLOSERS, Mark, Section, Thoughts, is_shown, marks_of
from proxy.tools.toolset import ToolSet

# Held text is read again once it has grown by so many characters, or by an eighth.
LITTLE = 64
# All readings of a reply at end tags may take so many times its length, and so much more.
MAX_WORK, MORE_WORK = 3, 20_000
# A reading may take so many steps for each character, and so many more; so may all that came to nothing.
MAX_STEPS, MORE_STEPS = 8, 50_000
# Copies after which a reply means none of its calls.
MAX_COPIED = 32
# How often a row that came to nothing is looked through again.
MAX_GOING_BACK = 4
# Openers at the end of unfinished reasoning that are tried.
MAX_TRIED = 16
# No closer of reasoning is longer, no beginning of a sign, and no opener of a call but one with a long name.
MAX_CLOSER, MAX_SIGN, MAX_OPENER = 80, 40, 60
# Refusals that are kept, and how much of a text shows the tool that it names.
MAX_REFUSED, MAX_SHOWN = 200, 400
_BLANKS = re.compile(r"\s*")
# The parameters of a tool's definition.
_DEFINES = re.compile(r"\"type\"\s*:\s*\"object\"\s*,\s*\"properties\"\s*:")
# Whole strings of JSON with what is between them, and the rest of one string.
_STRINGS = re.compile(r'(?:[^"]*"[^"\\\n]*(?:\\.[^"\\\n]*)*")*')
_STRING_REST = re.compile(r'[^"\\\n]*(?:\\.?[^"\\\n]*)*')
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")
# No name, no key and no blanks in the head of a call in JSON are so long.
_NO_HEAD = re.compile(r"[\[{\s]*(?:\s{200}|(?:\"(?:name|tool_name|id|type)\"\s*:\s*)?\"[^\"\\]{200})")
_END_SIGNS = ("</", "|>", "]", "}", "｜>", ")", ">")


class Kind(Enum):
    """What may begin where text is held. LAST: a call that ends unfinished reasoning; BROKEN: one that ends the reply
    and cannot be read.
    """

    STRONG = auto()
    WEAK = auto()
    FIRST = auto()
    GLUED = auto()
    TOKENS = auto()
    THOUGHT = auto()
    RESET = auto()
    LAST = auto()
    BROKEN = auto()


class Channel(Enum):
    """The field of a reply that a text is from."""

    CONTENT = auto()
    REASONING = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """Text that looked like a call: its position, the row that was tried, and why it was rejected."""

    start: int
    row: str
    why: str
    rejection: Rejection = Rejection.BROKEN


class Reader:
    """Reads the text of one reply, in any pieces, into prose, calls and marks of reasoning.

    `channel` is where the text is from; `json_reply`: the client asked for JSON, so nothing weak counts; `raw_text`:
    the server leaves end-of-turn tokens in the text. `thoughts`: reasoning is separated from the text. `forced` is the
    tool that the client forced. `off` are rows that read nothing. `watch_broken`: a call that cannot be read and ends
    the reply is told. At most `max_held` characters wait, and `max_calls` calls count.
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
        self.refused: list[Refused] = []
        self.refusals: Counter[str] = Counter()
        self._tools, self._copies = tools, copies or Copies(tools)
        self._channel, self._json_reply, self._raw_text = channel, json_reply, raw_text
        self._forced, self._off, self._watch_broken = forced, off, watch_broken
        self._max_held, self._calls_left, self._copied = max_held, max_calls, 0
        self._stream = Stream()
        # Where a call may begin, how much of it was read in vain, and all that was.
        self._held, self._tried, self._work = -1, 0, 0
        self._vain_steps = 0
        # Text follows the tokens before this position of the reply; up to that one, nothing but blanks begins it.
        self._text_follows = self._blank = 0
        self._kind = Kind.STRONG
        self._broken_tool, self._ends_calls = "", False
        # What ends the reasoning that is open, whether the reply began with it, and whether it is separated.
        self._thought: tuple[str, ...] = ()
        self._thought_first = self._separated = self._prompted = False
        # Ends of marked text in which calls count.
        self._shown: tuple[str, ...] = ()
        self._separate(thoughts)
        # Where JSON that is not a call may go on, and a listing of tools ended; -1 for none.
        self._json = self._listed = -1
        self._string = False
        self._went_back = 0
        self._behind_call = self._begun = self._found_any = self._stripped = False
        # Up to this position of the reply there are leftovers behind a call.
        self._left = 0
        # The model goes on with the client's turn, or with the result of its call: that is no answer.
        self._made_up, self._made_up_row = False, "made_up_turn"
        self._no_calls = not tools
        # The reply is over, and the model ended it.
        self._finished = self._stopped = False

    def _separate(self, thoughts: Thoughts | None) -> None:
        """Set which reasoning is separated from the text, and whether the prompt began one."""
        names = self._tools.names
        self._marks = marks_of(thoughts.markers if thoughts else ())
        self._start, self._weak_tag = reply_start(names), weak_tag(names)
        self._any_tag = any_tag(names, self._marks)
        self._unknown = thoughts is not None and thoughts.unknown
        self._begun_by_prompt = thoughts.begun if thoughts else ""
        if self._begun_by_prompt:
            self._thought = self._marks.closers[self._begun_by_prompt]
            self._thought_first = self._separated = self._prompted = True

    # -- what callers ask --------------------------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """True if some text waits."""
        return self._channel is Channel.CONTENT and self._stream.waits

    @property
    def confident(self) -> bool:
        """True while a wrapper is held: the prose before it need not wait for it."""
        return self._held >= 0 and self._kind is Kind.STRONG

    @property
    def room(self) -> int:
        """How many characters may arrive before a held wrapper is read again, if no sign is in them."""
        if self._held < 0 or self._kind is not Kind.STRONG:
            return 0
        size = self._stream.size - self._stream.base - self._held
        return min(self._next_size(), self._max_held) - size

    @property
    def prompted(self) -> bool:
        """True in reasoning that the reply itself did not open."""
        return self._prompted

    @property
    def closer(self) -> str:
        """What would end the separated reasoning that is open; empty if none is."""
        return self._thought[0] if self._separated and self._thought else ""

    @property
    def fresh(self) -> bool:
        """True if nothing but blanks has come, or followed reasoning or a call."""
        stream = self._stream
        return stream.fresh and not stream.pending_size and not stream.text[stream.out :].strip()

    def reasoning_is_separate(self) -> None:
        """Take the text as it is: the server separates reasoning."""
        self._thought, self._thought_first, self._separated, self._prompted = (), False, False, False
        self._separate(None)

    # -- the text ---------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> list[Piece]:
        """Take more text; return what is decided."""
        stream = self._stream
        if stream.final:
            raise ValueError("text after the finish")
        stream.add(text)
        if self._channel is Channel.REASONING:
            # Only the end of it is read, when it is there.
            if stream.pending_size > 2 * self._max_held:
                stream.join()
                stream.text = stream.text[-self._max_held :]
            return []
        if self._held >= 0 and not self._thought and not self._is_due():
            return []
        stream.join()
        return self._run()

    def passes(self, text: str) -> bool:
        """Take more text if all of it is prose that leaves at once; return whether it is."""
        if not self.is_idle or may_begin(text):
            return False
        if self._looks or self._thought:
            self._stream.pass_by(text)
            self._forget()
        return True

    def begins_nothing(self, text: str) -> bool:
        """Return whether a whole reply is prose without anything that may be more."""
        if not self._looks:
            return True
        start = end_of(_BLANKS, text, 0)
        marks = (
            (not self._json_reply and self._start.match(text, start))
            or text.startswith(STRIPPED, start)
            or self._marks.opener.match(text, start)
            or cut_opener(text, start)
        )
        return not marks and not may_begin(text)

    @property
    def is_idle(self) -> bool:
        """True if nothing waits, and what comes is neither the first of a reply nor what follows a call."""
        if self._stream.waits or self._behind_call or self._made_up:
            return False
        return (self._begun and not self._stripped) or not self._looks

    @property
    def lane(self) -> re.Pattern[bytes] | None:
        """What matches a text, as it is in a string of JSON, that would pass now; None if none would."""
        return PLAIN if self.is_idle and not self._thought else None

    def finish(self, *, stopped: bool = True) -> list[Piece]:
        """Take the end of the reply; `stopped` if the model ended it."""
        self._stream.join()
        self._stream.final, self._finished, self._stopped = True, True, stopped
        return self._run()

    def release(self) -> list[Piece]:
        """Release all text that waits: calls that are complete, and prose. What it began is no call any more."""
        stream = self._stream
        stream.join()
        if self._held >= 0 and self._kind is Kind.STRONG:
            stream.final = True
            while self._held >= 0 and self._kind is Kind.STRONG and self._read_held():
                pass
            stream.final = False
        self._give_up()
        return stream.taken()

    def _give_up(self) -> None:
        """Release what is held; what it began is no call any more, nor is what its strings show."""
        stream = self._stream
        if self._behind_call:
            # Half a closer.
            stream.drop(len(stream.text), "leftover")
        if self._held >= 0:
            self._refused(self._held, NoCall("it waited too long, or something else came", Rejection.RELEASED))
            self._no_calls = self._kind is not Kind.TOKENS and not self._is_whole_json(self._held)
            self._held = -1
        self._begun = self._begun or bool(stream.text.strip())
        stream.leave(len(stream.text))
        stream.pos = len(stream.text)

    def _run(self) -> list[Piece]:
        while self._step():
            pass
        if self._stream.final:
            self._stream.leave(len(self._stream.text))
        else:
            self._forget()
        return self._stream.taken()

    def _forget(self) -> None:
        keep = self._stream.out if self._held < 0 else min(self._held, self._stream.out)
        if gone := self._stream.forget(keep):
            self._held = max(self._held - gone, -1) if self._held >= 0 else -1
            self._listed = self._listed - gone if self._listed >= gone else -1
            self._json = max(self._json - gone, 0) if self._json >= 0 else -1

    @property
    def _looks(self) -> bool:
        """True if anything is looked for in the text."""
        tokens = (self._raw_text or self._json_reply) and bool(self._tools)
        return not self._no_calls or bool(self._marks.separated) or tokens

    def _step(self) -> bool:
        """Go on as far as the text decides; return whether there is more to do."""
        stream = self._stream
        if self._channel is Channel.REASONING or self._thought:
            return self._in_thought()
        if self._made_up:
            stream.drop(len(stream.text), self._made_up_row)
            self._made_up_row, stream.pos = "", len(stream.text)
            return False
        if not self._looks:
            stream.leave(len(stream.text))
            stream.pos = len(stream.text)
            return False
        if self._held >= 0:
            return self._read_broken() if self._kind is Kind.BROKEN else self._read_held()
        if self._behind_call:
            return self._behind()
        return self._look()

    # -- reasoning --------------------------------------------------------------------------------------------------

    def _in_thought(self) -> bool:
        """Go on to the end of the reasoning."""
        stream, text = self._stream, self._stream.text
        if self._prompted and stream.fresh and not self._skip_opener():
            return False
        if not self._thought and self._channel is Channel.CONTENT:
            return True
        try:
            found = self._end_of_thought()
        except NeedMore:
            return False
        if found is None:
            return self._unended_thought()
        at, end = found
        self._held = -1
        closer = text[at:end]
        if closer in SHARED_CLOSERS:
            end = at
        if self._separated:
            stream.leave(at)
            stream.mark(end, Mark.TEXT)
        else:
            stream.leave(end)
        stream.restart(end)
        self._begun = self._found_any or not self._thought_first
        self._thought, self._separated, self._prompted, self._unknown = (), False, False, False
        return True

    def _skip_opener(self) -> bool:
        """Take the opener that the prompt has written already; False while more must come."""
        stream, opener = self._stream, self._begun_by_prompt.lstrip()
        at = end_of(_BLANKS, stream.text, stream.pos)
        rest = stream.text[at : at + len(opener)]
        shown = [row.opener for row in self._marks.separated.values() if row.section is Section.TEXT]
        if any(stream.text.startswith(each, at) for each in shown):
            # The model did not reason, though the prompt began with it.
            stream.leave(at)
            stream.mark(at, Mark.TEXT)
            stream.restart(at)
            self._thought, self._separated, self._prompted = (), False, False
            return True
        if not stream.final and any(each.startswith(stream.text[at:]) for each in shown):
            return False
        if not stream.final and rest != opener and opener.startswith(rest):
            return False
        if rest == opener:
            stream.mark(at + len(opener), Mark.THOUGHT)
            stream.restart(stream.out)
            self._prompted = False
        return True

    def _end_of_thought(self) -> tuple[int, int] | None:
        """Return where the next closer of the reasoning is; None if there is none."""
        stream, text, ends = self._stream, self._stream.text, self._thought
        if not ends:
            return None
        if ends[0].startswith("</") and not self._separated:
            ends = (*ends, "</think>", "</mm:think>", "</seed:think>", "</thinking>")
        while True:
            at = min((place for end in ends if (place := text.find(end, stream.pos)) >= 0), default=-1)
            if at < 0:
                return None
            end = next(each for each in ends if text.startswith(each, at))
            if not stream.final and any(each != end and each.startswith(text[at:]) for each in ends):
                raise NeedMore
            stream.see(at)
            in_code, line = bool(stream.prose.in_code()), stream.prose.line
            shown = is_shown(text, at, at + len(end), in_code=in_code, line_start=not line.strip(), final=stream.final)
            if shown is None:
                stream.leave(at)
                stream.pos = at
                raise NeedMore
            if not shown:
                return at, at + len(end)
            stream.pos = at + len(end)

    def _unended_thought(self) -> bool:
        """Let reasoning flow on; a wrapped call at its very end is meant if the reply is nothing else (F70)."""
        stream = self._stream
        whole = (self._channel is Channel.REASONING or self._thought_first) and not self._no_calls
        if stream.final:
            if whole and self._stopped:
                self._take_last_call()
            stream.leave(len(stream.text))
            return False
        end = self._begun_closer()
        if whole:
            end = min(end, self._last_call())
        stream.leave(end)
        stream.pos = max(stream.pos, end)
        return False

    def _begun_closer(self) -> int:
        """Return where the text may end in the beginning of a closer; its end if it does not."""
        text = self._stream.text
        for at in range(max(self._stream.pos, len(text) - MAX_CLOSER), len(text)):
            rest = text[at:]
            if any(closer.startswith(rest) for closer in self._thought):
                return at
        return len(text)

    def _last_call(self) -> int:
        """Return where a call may begin that ends the reasoning; the text's end if none does."""
        stream = self._stream
        while True:
            if self._held < 0:
                found = STRONG.search(stream.text, max(stream.out, stream.pos - MAX_CLOSER), partial=True)
                if found is None:
                    return len(stream.text)
                if found.partial:
                    return int(found.start())
                self._held, self._tried, self._kind = found.start(), 0, Kind.LAST
            if not self._is_due():
                return self._held
            size = len(stream.text) - self._held
            self._work += size
            self._tried = size
            reader = CallReader(Source(stream.text, False), self._tools)
            try:
                _, end, _ = reader.read_strong(self._held)
                if Rows(reader).skip_left(end) == len(stream.text):
                    return self._held
            except NeedMore:
                if size <= self._max_held:
                    return self._held
                end = len(stream.text)
            except NoCall:
                end = self._held + 1
            self._held = -1
            stream.leave(end)
            stream.pos = max(stream.pos, end)

    def _take_last_call(self) -> None:
        stream = self._stream
        openers = [found.start() for found in STRONG_WHOLE.finditer(stream.text, stream.out)]
        self._kind = Kind.STRONG
        for start in openers[-MAX_TRIED:]:
            reader = CallReader(Source(stream.text, True), self._tools)
            try:
                calls, end, _ = reader.read_strong(start)
                if Rows(reader).skip_left(end) != len(stream.text):
                    continue
                stream.see(start)
                Judge(reader, self._copies).check(calls, self._place(start, end, weak=True))
            except NoCall as refusal:
                self._refused(start, refusal)
                continue
            stream.leave(start)
            self._take(calls, len(stream.text), weak=True)
            return

    def _open_thought(self, at: int, opener: str, *, first: bool) -> None:
        """Begin reasoning, or other marked text, at a position."""
        stream, end = self._stream, at + len(opener)
        row = self._marks.separated.get(opener) if stream.fresh or at == stream.out else None
        if row and stream.text[stream.out : at].strip():
            row = None
        if row is None or not stream.fresh:
            row = None
            stream.leave(end)
        else:
            if self._is_gap(at):
                stream.drop(at, "")
            stream.leave(at)
            stream.mark(end, Mark.THOUGHT if row.section is Section.THOUGHT else Mark.TEXT)
            self._unknown = False
        stream.pos = end
        if row and row.section is Section.TEXT:
            self._shown = row.closers
            self._begun = self._found_any
            stream.restart(end)
            return
        stream.restart(end, any_text=stream.prose.any)
        self._thought, self._thought_first, self._separated = self._marks.closers[opener], first, row is not None

    def _end_orphan(self, at: int, closer: str) -> None:
        """Go on after an end of reasoning that nothing opened: the prompt did, or the server dropped the opener."""
        stream, end = self._stream, at + len(closer)
        stream.leave(at)
        if self._unknown or closer in self._shown:
            stream.mark(end, Mark.STRAY if self._unknown else Mark.TEXT)
        else:
            stream.leave(end)
        self._unknown, self._shown = False, ()
        stream.restart(end)
        self._begun = self._found_any

    # -- looking for signs ------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Look for what may begin a call, reasoning, or a token that is dropped."""
        while not self._begun:
            if not self._begin():
                return False
            if self._held >= 0 or self._thought:
                return True
        stream, text = self._stream, self._stream.text
        while True:
            found = (STRIPPED_SIGNS if self._stripped else SIGNS).search(text, self._behind_indent())
            if found is None:
                self._pass_prose()
                return False
            at = max(found.start() if found["line"] is None else found.start("line"), stream.pos)
            if self._json >= 0 and self._in_string(at):
                stream.pos = at + 1
                continue
            try:
                kind = self._kind_at(at)
            except NeedMore:
                self._leave_before(at)
                stream.pos = at
                return False
            if kind is None:
                stream.pos = at + 1
                continue
            self._begin_kind(kind, at)
            return True

    def _behind_indent(self) -> int:
        """Return where to look on: at the line's start, if only its indentation has been passed."""
        text, pos = self._stream.text, self._stream.pos
        at = pos
        while at and text[at - 1] in " \t" and pos - at < MAX_SIGN:
            at -= 1
        return at if text[at - 1 : at] in ("", "\n") else pos

    def _in_string(self, at: int) -> bool:
        """Return whether a position is in a string of JSON that is not a call."""
        text = self._stream.text
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
        stream, text = self._stream, self._stream.text
        stream.pos = len(text)
        partial = MAY_BECOME_STRIPPED_SIGN if self._stripped else MAY_BECOME_SIGN
        if not stream.final and (begun := partial.search(text, max(stream.out, len(text) - MAX_SIGN))):
            stream.pos = begun.start()
        self._leave_before(stream.pos)
        if self._is_gap(stream.pos):
            stream.pos = stream.out

    def _begin_kind(self, kind: Kind, at: int) -> None:
        """Begin what a sign begins."""
        stream, text = self._stream, self._stream.text
        if kind is Kind.THOUGHT:
            opener = self._marks.opener_at(text, at, stream.final)
            self._open_thought(at, opener, first=not text[:at].strip() and not stream.base)
        elif kind is Kind.RESET:
            ended = self._end_here(at)
            assert ended
            self._end_orphan(at, ended)
        else:
            self._leave_before(at)
            self._held, self._tried, self._kind = at, 0, kind

    def _end_here(self, at: int) -> str:
        """Return the end of reasoning or of marked text at a position; NeedMore if more text must tell."""
        text, final = self._stream.text, self._stream.final
        for closer in self._shown:
            if text.startswith(closer, at):
                return closer
            if not final and closer.startswith(text[at:]):
                raise NeedMore
        found = self._marks.orphan_end.match(text, at, partial=not final)
        if found is None:
            return ""
        if found.partial:
            raise NeedMore
        return str(found.group())

    def _begin(self) -> bool:
        """Pass a leaked token, or try what counts only as the first thing of a reply; False while more must come."""
        stream, text, final = self._stream, self._stream.text, self._stream.final
        at = end_of(_BLANKS, text, max(stream.pos, self._blank - stream.base))
        self._blank = stream.base + at
        if at == len(text):
            self._begun = final
            return final
        try:
            thought = self._marks.opener_at(text, at, final)
        except NeedMore:
            return False
        if not thought and not final and any(token.startswith(text[at:]) for token in n.BEFORE_TEXT):
            return False
        token = next((each for each in n.BEFORE_TEXT if text.startswith(each, at)), "")
        if token and not thought and not (self._unknown and self._marks.orphan_end.match(text, at)):
            stream.drop(at + len(token), "leaked_token")
            stream.pos = stream.fed = stream.out
            return True
        if thought:
            stream.see(at)
            self._open_thought(at, thought, first=True)
            return True
        strong = STRONG.match(text, at, partial=not final)
        self._stripped = text.startswith(STRIPPED, at)
        if not final and STRIPPED.startswith(text[at:]) and not self._stripped:
            return False
        if strong is None and self._json_reply:
            # Nothing in the JSON that the client asked for is a call.
            self._no_calls = text[at] in "{["
        elif strong is None:
            head = self._start.match(text, at, partial=not final)
            cut = cut_opener(text, at)
            if not final and (cut < 0 or (head and head.partial and head.end() == len(text))):
                return False
            if head or cut > 0:
                stream.see(at)
                self._held, self._tried, self._kind = at, 0, Kind.FIRST
        elif strong.partial:
            return False
        self._begun = True
        return True

    def _kind_at(self, at: int) -> Kind | None:
        """Return what may begin at a sign; NeedMore if more text must tell."""
        stream, text = self._stream, self._stream.text
        partial = not stream.final and len(text) - at < ENOUGH
        if text.startswith(("TOOL_CALLS", "assistantcomm"), at):
            stream.see(at)
            return None if stream.prose.fence or self._json_reply or self._no_calls else Kind.GLUED
        if text[at] == "<" and not partial and not self._any_tag.match(text, at):
            return None
        if self._end_here(at):
            return Kind.RESET
        strong = self._strong_at(at, partial)
        token = self._end_token(at)
        nothing = strong is None and not token and text[at] == "<" and not partial
        if nothing and not self._marks.opener_whole.match(text, at) and not self._weak_tag.match(text, at):
            return None
        stream.see(at)
        if token and not self._raw_text and stream.prose.in_code():
            return None
        if stream.prose.in_region() and not token:
            if strong is not None:
                self._note(at, NoCall("in code", Rejection.QUOTED))
            return None
        if self._is_thought(at, partial, strong or 0):
            return None if stream.prose.in_code() else Kind.THOUGHT
        if strong is not None and not self._no_calls:
            return Kind.STRONG
        if token:
            return Kind.TOKENS if stream.base + at >= self._text_follows else None
        if self._no_calls or self._json_reply:
            # A line of JSON begins what the client asked for.
            self._no_calls |= self._json_reply and text[at] in "{[" and not stream.prose.line.strip()
            return None
        return self._weak_kind(at, partial)

    def _strong_at(self, at: int, partial: bool) -> int | None:
        """Return the end of the opener of a wrapper or a message at a sign."""
        text = self._stream.text
        if not partial:
            whole = STRONG_WHOLE.match(text, at)
            return whole.end() if whole else None
        found = STRONG.match(text, at, partial=True)
        if found is None:
            return None
        if found.partial or found.end() == len(text):
            raise NeedMore
        return found.end()

    def _end_token(self, at: int) -> str:
        """Return the end-of-turn token at a position; without `raw_text` one that leaked into a sentence."""
        text = self._stream.text
        token = Source(text, self._stream.final).token(END_TOKENS, at)
        if not token or self._raw_text:
            return token
        leaked = token.startswith(("<|", "<｜", "<end_of_turn>"))
        return token if leaked and at and not re.match(r"[\s\"'`]", text[at - 1]) else ""

    def _is_thought(self, at: int, partial: bool, strong_end: int) -> bool:
        """Return whether reasoning begins at a sign."""
        text, line = self._stream.text, self._stream.prose.line.strip()
        header = text.startswith("<|channel|>", at)
        if line and self._stream.prose.any and not header:
            return False
        opener = self._marks.opener_at(text, at, not partial)
        if not opener:
            return False
        if header and line and not line.endswith("<|start|>assistant"):
            return False
        return strong_end <= at + len(opener)

    def _weak_kind(self, at: int, partial: bool) -> Kind | None:
        """Return whether something that counts at the end of the reply may begin."""
        text = self._stream.text
        if _found(self._weak_tag, text, at, not partial):
            return Kind.WEAK
        line = self._stream.prose.line
        if line.strip() or (text[at] == "`" and re.match(r"\t| {4,}", line)):
            return None
        return Kind.WEAK if _found(JSON_HEAD, text, at, not partial) else None

    # -- held text --------------------------------------------------------------------------------------------------

    def _next_size(self) -> int:
        """Return how much held text is read again."""
        return self._tried + max(LITTLE, self._tried >> 3)

    def _is_due(self) -> bool:
        """Return whether held text is to be read again."""
        stream = self._stream
        size = len(stream.text) - self._held + stream.pending_size
        if size >= self._next_size() or size > self._max_held:
            return True
        if self._work > MAX_WORK * stream.size + MORE_WORK:
            return False
        new = stream.newest()
        return any(sign in new for sign in _END_SIGNS)

    def _read_held(self) -> bool:
        """Read what is held; return whether it was decided."""
        stream = self._stream
        start, size = self._held, len(stream.text) - self._held
        self._work += size
        if size >= self._next_size():
            self._tried = size
        steps = MAX_STEPS * size + MORE_STEPS
        source = Source(stream.text, stream.final, steps)
        reader = CallReader(source, self._tools, bare_names=self._kind is not Kind.WEAK)
        try:
            calls, end, weak = self._reading(reader, start)
            if self._kind is Kind.TOKENS:
                self._held = -1
                stream.drop(end, "end_of_turn")
                stream.pos = end
                return True
            calls, end, weak = self._judged(reader, calls, start, end, weak)
        except NeedMore:
            if size > self._max_held:
                self._give_up()
            elif reader.astray and not reader.offered:
                self._leave_astray()
            return False
        except NoCall as refusal:
            self._vain_steps += steps - source.steps
            self._refused(start, refusal)
            if row := self._cut_row(start, refusal):
                if self._finished:
                    stream.drop(len(stream.text), row)
                    self._held, stream.pos = -1, len(stream.text)
                return False
            if self._is_broken(start, refusal):
                self._ends_calls = self._kind is Kind.STRONG or (refusal.end < 0 and reader.deep)
                self._kind = Kind.BROKEN
                return True
            self._refuse_reading(reader, refusal)
            self._no_calls |= self._vain_steps > MAX_STEPS * (stream.base + start) + MORE_STEPS
            return True
        self._held = -1
        if self._is_gap(start):
            stream.drop(start, "")
        stream.leave(min(start if self._kind is not Kind.FIRST else max(start, calls[0].start), end))
        self._take(calls, end, weak=weak)
        stream.pos = end
        if reader.broken and stream.final and not self._stopped:
            stream.drop(len(stream.text), "cut_call")
        self._no_calls = reader.broken or not self._calls_left
        self._behind_call = self._found_any = stream.fresh = True
        self._unknown = False
        return True

    def _leave_astray(self) -> None:
        """Release what was read of a call of a tool that is not offered, though calls may follow in its wrapper."""
        stream, text = self._stream, self._stream.text
        # The opener of the next call may have begun.
        sign = text.find("<", max(stream.out, len(text) - MAX_OPENER))
        # Blanks before what may be a call are dropped with it.
        stream.leave(stream.out + len(text[stream.out : len(text) if sign < 0 else sign].rstrip()))

    def _judged(
        self, reader: CallReader, calls: list[Call], start: int, end: int, weak: bool
    ) -> tuple[list[Call], int, bool]:
        """Return the calls that count, their end, and whether they are weak; NoCall if none counts."""
        self._stream.see(end_of(_BLANKS, self._stream.text, start))
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
            if calls[-1].tagged and Rows(reader).skip_left(end) == reader.source.size:  # a raw value may go on
                raise
            judge.check(calls, self._place(start, end, weak))
        if sum(call.tool is not None for call in calls) > self._calls_left or end - start > self._max_held:
            raise NoCall("it is over a limit", Rejection.OVER_LIMIT)
        if row_name(self._stream.text, start) in self._off:
            raise NoCall("its notation is off for this model", Rejection.FORMAT_OFF)
        return calls, end, weak

    def _place(self, start: int, end: int, weak: bool) -> Place:
        first = self._kind is Kind.FIRST and not self._found_any
        return Place(self._stream.prose, start, end, weak, first, self._stopped, self._json_reply, self._listed)

    def _take(self, calls: list[Call], end: int, *, weak: bool) -> None:
        """Emit calls; one of a tool that is not offered stays text in its place."""
        stream = self._stream
        row = row_name(stream.text, self._held if self._held >= 0 else stream.out)
        taken: list[Found] = []
        for call in calls:
            if call.tool is not None:
                taken.append(Found(call.name, call.written, call.arguments, call.id, weak))
                continue
            if taken:
                self._emit(taken, max(call.start, stream.out), row)
                taken = []
            stream.leave(call.end)
        self._emit(taken, end, row)

    def _emit(self, calls: list[Found], end: int, row: str) -> None:
        self._calls_left -= len(calls)
        self._stream.emit(Piece(self._stream.text[self._stream.out : end], tuple(calls), row), end)

    def _note(self, start: int, refusal: NoCall) -> None:
        """Note why something is no call."""
        row = row_name(self._stream.text, start)
        self.refused.append(Refused(self._stream.base + start, row, str(refusal), refusal.rejection))
        del self.refused[:-MAX_REFUSED]

    def _refused(self, start: int, refusal: NoCall) -> None:
        """Note why something is no call, and count it if it says more than that prose has brackets."""
        self._note(start, refusal)
        text, rejection = self._stream.text, refusal.rejection
        if rejection.telling or any(name in text[start : start + MAX_SHOWN] for name in self._tools.names):
            self.refusals[rejection.label] += 1

    def _refuse_reading(self, reader: CallReader, refusal: NoCall) -> None:
        """Continue after held text that contains no call."""
        stream, start, end = self._stream, self._held, refusal.end
        if isinstance(refusal, Listing):
            self._listed = max(end, start)
        self._copied += isinstance(refusal, Copied)
        self._no_calls = isinstance(refusal, StringGoesOn) or self._copied >= MAX_COPIED
        self._no_calls |= (end < 0 or reader.broken) and reader.deep and self._kind is not Kind.FIRST
        run_end = reader.run_end
        self._refuse(end)
        stream.pos = max(stream.pos, run_end)
        if self._kind in (Kind.FIRST, Kind.WEAK) and (
            0 <= refusal.first_end == end or self._went_back < MAX_GOING_BACK
        ):
            # A row that fails may hold wrapped calls, but not inside its first call.
            self._went_back += refusal.first_end != end
            stream.pos = max(stream.pos, refusal.first_end)
        elif end >= 0:
            # A message's last token may end the reply, whatever the message is.
            token = len("<|call|>") if stream.text.endswith("<|call|>", start, end) else 0
            stream.pos = max(stream.pos, end - token)

    def _refuse(self, end: int = -1) -> None:
        """Release what is held: look again after its first sign, and not in its strings."""
        stream, start, kind, self._held = self._stream, self._held, self._kind, -1
        self._begun = True
        if kind is Kind.FIRST:
            stream.pos = start
        elif kind is Kind.STRONG and end < 0 and HEADER.match(stream.text, start):
            # A message that goes to no tool: nothing in it counts.
            self._thought, self._thought_first, self._separated = MESSAGE_ENDS, False, False
            stream.pos = start + 1
        else:
            stream.pos = max(start + 1, self._strings_end(start), stream.out)

    def _is_whole_json(self, start: int) -> bool:
        """Return whether what is held is a whole value of JSON: no string goes on behind it."""
        try:
            return STRICT.raw_decode(self._stream.text, start)[1] == len(self._stream.text)
        except (ValueError, RecursionError, NoCall):
            return False

    def _strings_end(self, start: int) -> int:
        """Return the end of JSON that is not a call: calls shown in its strings do not count either."""
        text = self._stream.text
        opener = STRONG_WHOLE.match(text, start)
        at = end_of(_BLANKS, text, opener.end()) if opener else start
        if at < len(text) and text[at] in "{[":
            try:
                return int(STRICT.raw_decode(text, at)[1])
            except (ValueError, RecursionError, NoCall):
                self._json, self._string = at, False
                return at
        return at if opener else start + 1

    def _reading(self, reader: CallReader, start: int) -> tuple[list[Call], int, bool]:
        """Return the calls that begin at a position, their end, and whether they are weak."""
        rows, source = Rows(reader), reader.source
        self._check_head(start)
        if self._kind is Kind.TOKENS:
            end = rows.skip_left(start, after_calls=False)
            if end < source.size or not source.final:
                self._text_follows = self._stream.base + end
                raise NoCall("text follows")
            return [], end, False
        if self._kind is Kind.STRONG:
            return self._read_strong(reader, rows, start)
        if self._kind is Kind.FIRST:
            calls, end = rows.first(start, self._forced)
        elif self._kind is Kind.GLUED and source.text.startswith("TOOL_CALLS", start):
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
        if reader.in_doubt and not self._stopped:
            raise NoCall("the reply was cut off", Rejection.CUT_OFF)
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

    def _check_head(self, start: int) -> None:
        """Refuse what begins as JSON and goes on as no call's does, before it is complete."""
        text, opener = self._stream.text, STRONG_WHOLE.match(self._stream.text, start)
        given = "name=" in opener.group() or HEADER.match(text, start) if opener else self._forced
        if not given and _NO_HEAD.match(text, opener.end() if opener else start):
            raise NoCall("no call begins like this")

    def _check_depth(self, pos: int) -> None:
        """Refuse wrappers in wrappers before anything is read."""
        before, text = "", self._stream.text
        for _ in range(MAX_WRAPPERS + 2):
            found = STRONG_WHOLE.match(text, pos)
            if found is None or found.group() == before or HEADER.match(text, pos):
                return
            before, pos = found.group(), end_of(_BLANKS, text, found.end())
        raise NoCall("too many wrappers")

    def _leave_before(self, at: int) -> None:
        """Release prose up to a sign, but for blanks with which a segment begins: a call drops them."""
        if not self._is_gap(at):
            self._stream.leave(at)

    def _is_gap(self, at: int) -> bool:
        """Return whether a segment begins with nothing but blanks before a position."""
        stream = self._stream
        return stream.fresh and stream.text[stream.out : at].isspace()

    def _behind(self) -> bool:
        """Drop blanks, closers and tokens after a call, if another call or the end follows."""
        stream = self._stream
        rows = Rows(CallReader(Source(stream.text, stream.final), self._tools))
        try:
            pos = rows.skip_left(max(stream.pos, self._left - stream.base))
        except NeedMore:
            self._left = max(self._left, stream.base + rows.left)
            return False
        made_up = MADE_UP.match(stream.text, pos, partial=not stream.final)
        if made_up and made_up.partial:
            return False
        self._behind_call, self._made_up = False, bool(made_up)
        written = stream.text[stream.pos : pos]
        if pos < len(stream.text) or not stream.final:
            pos -= len(written) - len(written.rstrip()) if written.strip() else len(written)
        stream.drop(pos, "leftover" if written.strip() else "")
        stream.restart(pos, any_text=True)
        self._begun = True
        return True

    def _cut_row(self, start: int, refusal: NoCall) -> str:
        """Return as what the rest of a reply is dropped: an opener alone, or a further call that was cut off.

        A call that was cut off and is the only one stays text: there is nothing else to show.
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
        pos = count = 0
        while pos < len(text) - start and count <= MAX_WRAPPERS and (found := BARE.match(text, start + pos)):
            pos, count = found.end() - start, count + 1
        is_token = text.startswith(tuple(n.TOKENS), start)
        glued = is_token if count > 1 else at_line or not stream.prose.line[-1:].isspace()
        return "lone_opener" if pos == len(text) - start and glued and count <= MAX_WRAPPERS else ""

    # -- a call that cannot be read ----------------------------------------------------------------------------------

    def _is_broken(self, start: int, refusal: NoCall) -> bool:
        """Return whether a call was meant here that cannot be read: a wrapper that begins a line, around an offered
        name, in no code, quotation, listing or copy.
        """
        stream = self._stream
        strong = self._kind is Kind.STRONG or (self._kind is Kind.WEAK and CALL_TAG.match(self._stream.text, start))
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
        self._broken_tool = CallReader(Source(stream.text, True), self._tools).named_tool(start)
        return bool(self._broken_tool)

    def _read_broken(self) -> bool:
        """Wait for what follows a broken call; it is told if the reply ends with nothing but its closers."""
        stream = self._stream
        try:
            behind = Rows(CallReader(Source(stream.text, stream.final), self._tools)).behind_broken(self._held)
        except NeedMore:
            return False
        ended = behind == len(stream.text) and stream.final and self._stopped
        if ended and not self._copies.shows(stream.text[self._held :]):
            stream.leave(self._held)
            stream.emit(Piece(stream.text[stream.out :], row=self._row(), broken=self._broken_tool), behind)
            self._held = -1
            return False
        if behind >= 0 and behind == len(stream.text) and not stream.final:
            return False
        self._kind = Kind.STRONG
        self._refuse()
        self._no_calls = self._ends_calls
        return True

    def _row(self) -> str:
        return row_name(self._stream.text, self._held)


def _found(pattern: regex.Pattern[str], text: str, at: int, final: bool) -> bool:
    """Return whether a pattern matches at a position; NeedMore if more text could make it match."""
    found = pattern.match(text, at, partial=not final)
    if found and found.partial:
        raise NeedMore
    return bool(found)
