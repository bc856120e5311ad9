"""Streaming front: releases prose immediately, and holds text from the first sign that may begin a call.

    I read the file. <tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>

The prose before the space is released as it arrives, and the call once its end tag arrives. Held text is read again
when an end tag arrives and when it has grown by an eighth. The result never depends on how the text is split.
"""

from __future__ import annotations

import re
from contextlib import suppress

from proxy.notations import tables as n
from proxy.notations.held import BLANKS, Kind
from proxy.notations.reasoning import ReasoningText
from proxy.notations.signs import (
    CUT_OPENERS,
    END_TOKENS,
    JSON_HEAD,
    LINE_SIGN,
    MADE_UP,
    PLAIN,
    STRIPPED,
    STRONG,
    may_begin,
    signs,
)
from proxy.notations.source import NeedMore, NoCall, Rejection, Source, Tokens, end_of
from proxy.notations.stream import Channel, Piece

# Characters of released text to keep for looking back, and the size at which the rest is dropped.
LOOK_BACK, MUCH = 256, 8_192
# Maximum length of the start of a sign.
MAX_SIGN = 40
# The start of a line, or of the text, and indentation.
_INDENTED = re.compile(r"(?:\n|\A)[ \t]*\Z")
_LEAKED = Tokens(n.BEFORE_TEXT)


class Reader(ReasoningText):
    """Reader of one reply's text, in pieces of any size. Returns prose, calls and reasoning marks.

    The parameters are those of `HeldText`.
    """

    # -- what callers ask -------------------------------------------------------------------------------------------

    @property
    def confident(self) -> bool:
        """True while a wrapper is held; the prose before it can be sent."""
        return self._held >= 0 and self._kind is Kind.STRONG and not self._broken_tool

    @property
    def room(self) -> int:
        """The number of characters without a sign that may arrive before a held wrapper is read again."""
        if not self.confident:
            return 0
        size = self.size - self.base - self._held
        return min(self._next_size(), self._max_held) - size

    @property
    def prompted(self) -> bool:
        """True in reasoning that the prompt opened."""
        return self._thought is not None and self._thought.prompt != ""

    @property
    def closer(self) -> str:
        """The closer of the open separated reasoning; empty if none is open."""
        return self._thought.closers[0] if self._thought and self._thought.separated else ""

    @property
    def fresh(self) -> bool:
        """True if only whitespace has arrived since the start, or since the last reasoning or call."""
        return not self.pending_size and self._is_gap(len(self.text))

    @property
    def is_idle(self) -> bool:
        """True if no text is held and the next text is neither the start of the reply nor directly after a call."""
        if self.held or self._behind_call or self._made_up:
            return False
        return (self._begun and not self._stripped) or not self._looks

    @property
    def lane(self) -> re.Pattern[bytes] | None:
        """The pattern of text, escaped as in a JSON string, that can be passed on unread now; None if none can."""
        return PLAIN if self.is_idle and not self._thought and not self._stripped else None

    @property
    def _looks(self) -> bool:
        """True if the text is searched for calls, reasoning or tokens."""
        tokens = (self._raw_text or self._json_reply) and bool(self._tools)
        return not self._no_calls or bool(self._marks.separated) or tokens

    # -- the text ---------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> list[Piece]:
        """Add text; return the pieces decided so far."""
        if self.final:
            raise ValueError("text after the finish")
        self._pending.append(text)
        self.pending_size += len(text)
        waits = self._held >= 0 and not self._thought and not self._is_due()
        # A call counts only at the end of a reasoning field, so the field is read in large parts.
        if waits or (self._channel is Channel.REASONING and self.pending_size <= self._max_held):
            return []
        self.join()
        return self._run()

    def passes(self, text: str) -> bool:
        """Return whether all of `text` is prose that can be released immediately, and if so, add it."""
        if not self.is_idle or may_begin(text, self._signs):
            return False
        self.pass_by(text)
        self._forget()
        return True

    def finish(self, *, stopped: bool = True) -> list[Piece]:
        """End the reply and return the remaining pieces. `stopped`: the model ended it."""
        self.join()
        # The released part of a call to an unknown tool must not depend on how the text is split.
        pieces = self._run() if self.confident else []
        self.final, self._finished, self._stopped = True, True, stopped
        return pieces + self._run()

    def release(self) -> list[Piece]:
        """Release all held text: complete calls, and the rest as prose. An incomplete call becomes prose for good."""
        self.join()
        while self.confident:
            self.final = True
            self._read_held()
            self.final = False
            if not self._behind_call:
                break
            # The call may have waited for the text after it, which may contain further calls.
            with suppress(NeedMore):
                while self._step():
                    pass
        self._give_up()
        return self.taken()

    def _run(self) -> list[Piece]:
        """Process the text as far as it can be decided."""
        with suppress(NeedMore):
            while self._step():
                pass
        if self.final:
            self.leave(len(self.text))
        else:
            self._forget()
        return self.taken()

    def _forget(self) -> None:
        """Drop released text that is no longer needed, except LOOK_BACK characters."""
        keep = self.out if self._held < 0 else min(self._held, self.out)
        if keep <= MUCH:
            return
        self.see(keep)
        gone = keep - LOOK_BACK
        self.text = self.text[gone:]
        self.base += gone
        self.pos, self.out, self.fed = self.pos - gone, self.out - gone, self.fed - gone
        if self._held >= 0:
            self._held -= gone

    def _step(self) -> bool:
        """Take one step; return whether there is more to do. Raise NeedMore if the text so far is ambiguous."""
        if self._thought:
            return self._in_thought()
        if self._made_up:
            self.drop(len(self.text), "")
            return False
        if self._held >= 0:
            return self._read_broken() if self._broken_tool else self._read_held()
        if not self._looks:
            self.leave(len(self.text))
            return False
        if self._behind_call:
            return self._behind()
        return self._look() if self._begun else self._begin()

    def _behind(self) -> bool:
        """Drop whitespace, closers and tokens after a call, if another call or the end follows."""
        reader = self._reader()
        try:
            pos = reader.skip_left(self.pos)
        except NeedMore:
            self.pos = max(self.pos, reader.left)
            raise
        made_up = reader.source.match(MADE_UP, pos, ends=True)
        self._behind_call, self._made_up = False, bool(made_up)
        written = self.text[self.out : pos]
        if pos < len(self.text) or not self.final:
            pos -= len(written) - len(written.rstrip())
        self.drop(pos, "leftover" if written.strip() else "")
        if made_up:
            self.drop(len(self.text), "made_up_turn")
        self.restart(pos, any_text=True)
        self._begun = True
        return True

    # -- looking for signs ------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Drop a leaked token, or hold text that counts as a call only at the start of a reply."""
        text, final = self.text, self.final
        at = end_of(BLANKS, text, self.pos)
        if at == len(text):
            # A sign may begin with the last blank.
            self.pos = max(self.pos, at - 1)
            self._begun = final
            return final
        source = Source(text, final)
        if opener := source.token(self._marks.openers, at):
            self.see(at)
            self._open_thought(at, opener, first=True)
            return True
        token = source.token(_LEAKED, at)
        if token and not (self._unknown and source.token(self._marks.orphan_ends, at)):
            self.drop(at + len(token), "leaked_token")
            self.fed = self.out
            return True
        strong = source.match(STRONG, at)
        self._stripped = source.starts(STRIPPED, at)
        self._signs = signs(self._tools.names, self._marks, stripped=self._stripped)
        if strong is None and self._json_reply:
            # The JSON that the client asked for contains no calls.
            self._no_calls = text[at] in "{["
        elif strong is None and (source.token(CUT_OPENERS, at) or source.match(self._start, at, ends=True)):
            self.see(at)
            self._hold(at, Kind.FIRST)
        self._begun = True
        return True

    def _look(self) -> bool:
        """Look for the start of a call, reasoning, or a token to drop."""
        text = self.text
        # The indentation of the line may have been searched before the sign arrived.
        indented = _INDENTED.search(text, max(self.pos - MAX_SIGN, 0), self.pos)
        start = indented.start() if indented else self.pos
        found = LINE_SIGN.match(text) if indented and not start else None
        while found := found or self._signs.search(text, start):
            at = max(found.start(found.lastindex or 0), self.pos)
            if self.prose.json:
                self.see(at)
            try:
                if not self.prose.in_string and self._begins_at(at):
                    return True
            except NeedMore:
                self._leave_before(at)
                self.pos = at
                raise
            self.pos = start = at + 1
            found = None
        self.pos = len(text)
        self._leave_before(self.pos)
        if self._is_gap(self.pos):
            self.pos = self.out
        return False

    def _begins_at(self, at: int) -> bool:
        """Begin what the sign at a position begins; return whether it begins anything. Raise NeedMore if undecided."""
        text, prose = self.text, self.prose
        source = Source(text, self.final)
        shown = next((closer for closer in self._shown if source.starts(closer, at)), "")
        if ended := shown or source.token(self._marks.orphan_ends, at):
            self._end_orphan(at, ended)
            return True
        strong, token = source.match(STRONG, at), self._end_token(source, at)
        self.see(at)
        if token and not self._raw_text and prose.in_code():
            return False
        if prose.in_region() and not token:
            if strong is not None:
                self._note(at, NoCall("in code", Rejection.QUOTED))
            return False
        if opener := self._opener_of_thought(source, at, strong.end() if strong else 0):
            if prose.in_code():
                return False
            self._open_thought(at, opener, first=not text[:at].strip() and not self.base)
            return True
        if strong is not None and not self._no_calls:
            return self._begin_call(at, Kind.STRONG)
        if token:
            return self._begin_call(at, Kind.TOKENS)
        if self._no_calls or self._json_reply:
            # A line of JSON begins the reply that the client asked for.
            self._no_calls |= self._json_reply and text[at] in "{[" and not prose.line.strip()
            return False
        return self._is_weak(source, at) and self._begin_call(at, Kind.WEAK)

    def _begin_call(self, at: int, kind: Kind) -> bool:
        self._leave_before(at)
        self._hold(at, kind)
        return True

    def _end_token(self, source: Source, at: int) -> str:
        """Return the end-of-turn token at a position; without `raw_text`, only one that leaked into a sentence."""
        token = source.token(END_TOKENS, at)
        if not token or self._raw_text:
            return token
        leaked = token.startswith(("<|", "<｜", "<end_of_turn>"))
        return token if leaked and at and not re.match(r"[\s\"'`]", source.text[at - 1]) else ""

    def _opener_of_thought(self, source: Source, at: int, strong_end: int) -> str:
        """Return the reasoning opener at a sign, or an empty one, or it does not count here."""
        text, line = source.text, self.prose.line.strip()
        header = text.startswith("<|channel|>", at)
        if line and (self.prose.any if not header else not line.endswith("<|start|>assistant")):
            return ""
        opener = source.token(self._marks.openers, at)
        return opener if strong_end <= at + len(opener) else ""

    def _is_weak(self, source: Source, at: int) -> bool:
        """Return whether a call that counts only at the end of the reply may begin here."""
        if source.match(self._weak_tag, at, ends=True):
            return True
        line = self.prose.line
        glued = source.starts("TOOL_CALLS", at) or source.starts("assistantcommentary to=functions", at)
        if not glued and (line.strip() or (source.text[at] == "`" and re.match(r"\t| {4,}", line))):
            return False
        return source.match(JSON_HEAD, at, ends=True) is not None
