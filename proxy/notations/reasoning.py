"""Reasoning in a reply: released as it arrives, until its closer. Nothing in it is a call.

The one exception: a wrapped call at the very end of a reply that consists only of unclosed reasoning (F70).
"""

from __future__ import annotations

import regex

from proxy.notations import tables as n
from proxy.notations.held import HeldText, Kind, OpenThought
from proxy.notations.signs import STRONG, STRONG_WHOLE
from proxy.notations.source import NeedMore, NoCall, Source, Tokens, end_of
from proxy.notations.thoughts import SHARED_CLOSERS, Mark, Section

# Maximum number of openers to try at the end of unclosed reasoning.
MAX_TRIED = 16
# Maximum length of a reasoning closer.
MAX_CLOSER = 80
# Characters before a quotation mark that opens a quotation.
_QUOTED_AFTER = frozenset(" \t\r\n([{=,:")
# Models confuse these closers in unseparated reasoning.
_TAGS = ("</think>", "</mm:think>", "</seed:think>", "</thinking>")


class ReasoningText(HeldText):
    """Text of a reply that may begin with reasoning or contain it."""

    def _in_thought(self) -> bool:
        """Read to the end of the reasoning; return whether there is more to do."""
        text = self.text
        if self._thought and self._thought.prompt and self.blank:
            self._skip_opener(self._thought)
        thought = self._thought
        if thought is None:
            return True
        found = self._end_of_thought(thought)
        if found is None:
            self._unended_thought(thought)
            return False
        at, end = found
        self._held = -1
        if text[at:end] in SHARED_CLOSERS:
            end = at
        if thought.separated:
            self.leave(at)
            self.mark(end, Mark.TEXT)
        else:
            self.leave(end)
        self.restart(end)
        self._begun = self._found_any or not thought.first
        self._thought, self._unknown = None, False
        return True

    def _skip_opener(self, thought: OpenThought) -> None:
        """Drop a repetition of the opener that the prompt wrote. Raise NeedMore if more of it may follow."""
        opener, source = thought.prompt.lstrip(), Source(self.text, self.final)
        shown = [row.opener for row in self._marks.separated.values() if row.section is Section.TEXT]
        at = source.blanks(self.pos)
        token = source.token(Tokens((opener, *shown)), at)
        if token == opener:
            self.mark(at + len(opener), Mark.THOUGHT)
            self.restart(self.out)
            thought.prompt = ""
        elif token:
            # The model did not reason although the prompt opened reasoning.
            self.leave(at)
            self.mark(at, Mark.TEXT)
            self.restart(at)
            self._thought = None

    def _end_of_thought(self, thought: OpenThought) -> tuple[int, int] | None:
        """Return the (start, end) of the next closer of the reasoning, or None."""
        text, ends = self.text, thought.closers
        if ends and ends[0].startswith("</") and not thought.separated:
            ends = (*ends, *_TAGS)
        closers, source = Tokens(ends), Source(text, self.final)
        while found := closers.pattern.search(text, self.pos):
            at = found.start()
            end = at + len(source.token(closers, at))
            self.see(at)
            try:
                mentioned = self._is_mentioned(at, end)
            except NeedMore:
                self.leave(at)
                raise
            if not mentioned:
                return at, end
            self.pos = end
        return None

    def _is_mentioned(self, at: int, end: int) -> bool:
        """Return whether the closer text[at:end] is only mentioned in the reasoning.

        Models write sloppy Markdown in reasoning, and the reasoning must end anyway. So a closer is only mentioned if
        it is between quotation marks, or a tag inside code in the middle of a line.
        """
        text, in_code = self.text, self.prose.in_code()
        before, behind = text[max(at - 1, 0) : at], text[end : end + 1]
        quoted = before in ("'", '"') and (at < 2 or text[at - 2] in _QUOTED_AFTER)
        if quoted or (before == "`" and in_code):
            if not behind and not self.final:
                raise NeedMore
            if behind == before:
                return True
        if not in_code or not self.prose.line.strip() or not text.startswith("</", at):
            return False
        rest, line_end, _ = text[end:].partition("\n")
        if not rest.strip() and not line_end and not self.final:
            raise NeedMore
        return bool(rest.strip())

    def _unended_thought(self, thought: OpenThought) -> None:
        """Release reasoning as it arrives, except a possible closer or a call at the end of the reply."""
        text, final = self.text, self.final
        whole = thought.first and not self._no_calls and (self._stopped or not final)
        end = self._last_call() if whole else len(text)
        if not final:
            closers = regex.compile(n.alternatives(thought.closers))
            found = closers.search(text, max(self.pos, len(text) - MAX_CLOSER), partial=True)
            end = min(end, found.start()) if found and found.partial else end
        self.leave(end)

    def _last_call(self) -> int:
        """Return the start of a possible call at the end of the reasoning, or the text's end.

        At the end of the reply, emit the call.
        """
        openers = [found.start() for found in STRONG_WHOLE.finditer(self.text, self.out)] if self.final else []
        if len(openers) > MAX_TRIED:
            self._held = -1
            self.leave(openers[-MAX_TRIED])
        while True:
            if self._held < 0:
                found = STRONG.search(self.text, max(self.out, self.pos - MAX_CLOSER), partial=not self.final)
                if found is None:
                    return len(self.text)
                if found.partial:
                    return int(found.start())
                self._hold(found.start(), Kind.LAST)
            if not self.final and not self._is_due():
                return self._held
            start, size = self._held, len(self.text) - self._held
            self._tried = size
            self._work += size
            reader = self._reader()
            try:
                calls, end = reader.read_strong(start)
                if reader.skip_left(end) == len(self.text):
                    if not self.final:
                        return start
                    self._judge(reader.source, start).check(calls, start, end, weak=True)
                    self.leave(start)
                    self._take(calls, len(self.text), weak=True)
                    return len(self.text)
            except NeedMore:
                if size <= self._max_held:
                    return start
                end = len(self.text)
            except NoCall as refusal:
                if self.final:
                    self._refused(start, refusal)
                end = end_of(STRONG_WHOLE, self.text, start)
            self._held = -1
            self.leave(end)

    def _open_thought(self, at: int, opener: str, *, first: bool) -> None:
        """Open reasoning or other marked text at a position."""
        end = at + len(opener)
        row = self._marks.separated.get(opener)
        if not self._is_gap(at):
            row = None
        if row is None:
            self.leave(end)
        else:
            self.drop(at, "")
            self.mark(end, Mark.THOUGHT if row.section is Section.THOUGHT else Mark.TEXT)
            self._unknown = False
        if row and row.section is Section.TEXT:
            self._shown = row.closers
            self._begun = self._found_any
            self.restart(end)
            return
        self.restart(end, any_text=self.prose.any)
        self._thought = OpenThought(self._marks.closers[opener], first, row is not None)

    def _end_orphan(self, at: int, closer: str) -> None:
        """Process a reasoning closer without an opener: the prompt opened it, or the server dropped the opener."""
        end = at + len(closer)
        self.leave(at)
        if self._unknown or closer in self._shown:
            self.mark(end, Mark.STRAY if self._unknown else Mark.TEXT)
        else:
            self.leave(end)
        self._unknown, self._shown = False, ()
        self.restart(end)
        self._begun = self._found_any
