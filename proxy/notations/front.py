"""The front: prose goes at once; from the first possible opener on the text is held until it is a call or cannot be one."""

from __future__ import annotations

import functools
import re

import regex

from proxy.notations import tables as n
from proxy.notations.copies import Copies
from proxy.notations.reader import CALL_END, FENCE, VALUE_END, WRAPPER_END, CallReader
from proxy.notations.calls import LOOSE, NO_OPENER, Opener
from proxy.notations.tables import STRONG, alternatives
from proxy.notations.source import NeedMore, NoCall, Source
from proxy.notations.surroundings import Prose, is_listing

THOUGHT = regex.compile(alternatives(n.THOUGHTS))
SIGNS = re.compile(
    r"(?<=[^\s\w\"'`])TOOL_CALLS(?=[A-Za-z_])|<(?=[|｜‖a-zA-Z\s]|$)|\[(?=[A-Zut]|$)|\](?=<|$)|◁|</(?:mm:|seed:)?think(?:ing)?>| to=|^Action:|^[ \t]*(?:[\[{`]|>>>(?=[A-Za-z_]|$))",
    re.M,
)
STRONG_WHOLE, THOUGHT_WHOLE = re.compile(STRONG.pattern), re.compile(THOUGHT.pattern)
ENOUGH = 400  # no opener is longer
PATIENCE = 1.5  # held text is read again once it has grown so much
HEADER = re.compile(r"<\|start\|>|<\|channel\|>| ?to=")
MESSAGE_ENDS = ("<|end|>", "<|eot|>", "<|eom|>", "<|call|>", "<|return|>", "<|start|>")


class Found:
    """A call as it leaves: the offered tool's name and the arguments."""

    def __init__(self, name: str, arguments: dict, id: str = "", weak: bool = False) -> None:
        self.name, self.arguments, self.id, self.weak = name, arguments, id, weak


class Reader:
    """Text in any cut to pieces: strings of prose and Found calls, in order."""

    def __init__(self, tools, copies: Copies | None = None, json_reply: bool = False) -> None:
        self.json_reply = json_reply  # the client asked for JSON: nothing weak counts
        self.spans: list = []  # (start, end, calls) in characters; calls is None for prose
        self.tools, self.copies = tools, copies or Copies(tools)
        self.text, self.pos, self.out = "", 0, 0  # what came; where to look on; what has left up to here
        self.prose, self.fed = Prose(), 0
        self.held, self.tried, self.work = -1, 0, 0  # where a call may begin, and how much of it was read in vain
        self.thought: tuple[str, ...] = ()  # what ends the thought that is open
        self.thought_at = -1
        self.listed = -1  # where a listing of tools ends
        self.behind_call, self.begun = False, False
        self.found_any = False
        self.dead = not bool(tools)
        self.final = self.stopped = False
        names = alternatives(tools.names) or r"\b\B"
        self.start = _start(names)
        self.weak_tag = _weak_tag(names)

    def feed(self, text: str):
        self.text += text
        return self._pieces()

    def finish(self, *, stopped: bool = True):
        self.final, self.stopped = True, stopped
        return self._pieces()

    def _pieces(self):
        pieces: list = []
        while self._step(pieces):
            pass
        if self.final:
            self._prose(len(self.text), pieces)
        return pieces

    # -- steps ----------------------------------------------------------------------------------------------------

    def _prose(self, end: int, pieces: list) -> None:
        if end > self.out:
            pieces.append(self.text[self.out : end])
            self.spans.append((self.out, end, None))
            self.out = end

    def _see(self, end: int) -> None:
        if end > self.fed:
            self.prose.feed(self.text[self.fed : end])
            self.fed = end

    def _step(self, pieces: list) -> bool:
        """Go on as far as the text decides; False if there is nothing more to do for now."""
        if self.dead:
            self._prose(len(self.text), pieces)
            return False
        if self.thought:
            return self._in_thought(pieces)
        if self.held >= 0:
            return self._held(pieces)
        if self.behind_call:
            return self._behind(pieces)
        return self._look(pieces)

    def _in_thought(self, pieces: list) -> bool:
        ends = self.thought
        if ends[0].startswith("</"):
            ends = (*ends, "</think>", "</mm:think>", "</seed:think>", "</thinking>")
        at = min((a for a in (self.text.find(e, self.pos) for e in ends) if a >= 0), default=-1)
        if at < 0:
            if not self.final:
                self.pos = max(self.pos, len(self.text) - 80)
                if self.thought_at == 0 and (shown := STRONG.search(self.text, self.out)):
                    self.pos = max(self.out, min(self.pos, shown.start()))  # it may be meant, if the reply ends with it
                self._prose(self.pos, pieces)
                return False
            return self._unended_thought(pieces)
        end = next(e for e in ends if self.text.startswith(e, at))
        if not self.final and any(e.startswith(self.text[at:]) and e != end for e in ends):
            return False
        self.pos = at if len(self.thought) > 2 and end != "<|end|>" else at + len(end)
        self._prose(self.pos, pieces)
        self.fed, self.prose, self.thought = self.pos, Prose(), ()
        self.prose.any = False
        return True

    def _unended_thought(self, pieces: list) -> bool:
        """A thought that begins the reply and never ends: a call in a wrapper at the very end is meant (F70)."""
        if self.thought_at == 0 and self.stopped:
            first = self.out
            self.kind = "strong"
            for m in STRONG.finditer(self.text, first):
                try:
                    reader = CallReader(Source(self.text, True), self.tools)
                    calls, end, closed = reader.read_strong(m.start())
                    if (
                        self._rest_is_nothing(end)
                        and all(c.tool for c in calls)
                        and self._weak_ok(calls, 0)
                        and not self.prose.in_code()
                    ):
                        self._prose(m.start(), pieces)
                        pieces += [Found(c.name, c.arguments, c.id, True) for c in calls]
                        self.spans.append(
                            (m.start(), len(self.text), [Found(c.name, c.arguments, c.id, True) for c in calls])
                        )
                        self.out = len(self.text)
                        return False
                except NoCall:
                    continue
        self._prose(len(self.text), pieces)
        return False

    def _rest_is_nothing(self, end: int) -> bool:
        return self._skip_left(end, CallReader(Source(self.text, True), self.tools)) == len(self.text)

    def _look(self, pieces: list) -> bool:
        """Look for what may begin a call, or a thought, or code."""
        text = self.text
        if not self.begun:
            if not self._begin(pieces):
                return False
            if self.held >= 0 or self.thought:
                return True
        while True:
            found = SIGNS.search(text, self.pos)
            if found is None:
                self.pos = len(text)
                if not self.final and text.endswith(
                    (
                        "TOOL_CALLS",
                        "TOOL_CALL",
                        "TOOL_CAL",
                        "TOOL_CA",
                        "TOOL_C",
                        "TOOL_",
                        "TOOL",
                        "TOO",
                        "TO",
                        "T",
                        " t",
                        " to",
                        " ",
                        "~~",
                        "~",
                        "A",
                        "Ac",
                        "Act",
                        "Acti",
                        "Actio",
                        "Action",
                        "<",
                        "<!",
                        "<!-",
                    )
                ):
                    self.pos = max(self.out, len(text) - 11)
                if not self.final and text[self.pos - 1 : self.pos] in (">",):
                    self.pos = max(self.out, text.rfind("\n", 0, self.pos) + 1)
                self._prose(self.pos, pieces)
                return False
            at = found.end() - 1 if found.group()[0] in " \t{[`" and found.group() != " to=" else found.start()
            kind = self._kind(at)
            if kind is None:  # more must come
                self._prose(at, pieces)
                self.pos = at
                return False
            if kind == "":
                self.pos = at + 1
                continue
            if kind == "thought":
                opener = THOUGHT.match(text, at).group()
                self.thought, self.thought_at = n.THOUGHTS[opener], 0 if not text[:at].strip() else at
                self.pos = at + len(opener)
                self._prose(self.pos, pieces)
                return True
            self._prose(at, pieces)
            if kind == "reset":  # the prompt began the thought that ends here
                self.pos = text.index(">", at) + 1
                self._prose(self.pos, pieces)
                self.fed, self.prose, self.begun = self.pos, Prose(), self.found_any
                return True
            self.held, self.tried, self.kind = at, 0, kind
            return True

    def _begin(self, pieces: list) -> bool:
        """The first thing of a reply: leaked tokens, then what counts only there. False while more must come."""
        text, pos = self.text, self.pos
        blanks = re.compile(r"\s*").match(text, pos).end()
        if blanks == len(text):
            return False if not self.final else True
        if not self.final and any(token.startswith(text[blanks:]) for token in n.BEFORE_TEXT):
            return False
        for token in n.BEFORE_TEXT:
            if text.startswith(token, blanks):
                self.spans.append((self.out, blanks + len(token), []))
                self.pos = self.out = self.fed = blanks + len(token)
                return self._begin(pieces)
        thought = THOUGHT.match(text, blanks, partial=not self.final)
        if thought and (thought.partial):
            return False
        if thought:
            self._see(blanks)
            opener = thought.group()
            self.thought, self.thought_at, self.pos = n.THOUGHTS[opener], 0, thought.end()
            self._prose(self.pos, pieces)
            return True
        strong = STRONG.match(text, blanks, partial=not self.final)
        if strong and strong.partial:
            return False
        if strong:
            self.begun = True
            return True
        head = self.start.match(text, blanks, partial=not self.final)
        if head and head.partial and head.end() == len(text) and not self.final:
            return False
        self.begun = True
        if head:
            self._see(blanks)
            self.held, self.tried, self.kind = blanks, 0, "first"
        return True

    def _kind(self, at: int) -> str | None:
        """What may begin at a sign: a kind of call, `thought`, nothing (empty), None if more text must tell."""
        text, partial = self.text, not self.final and len(self.text) - at < ENOUGH
        if text.startswith("</", at):
            return "reset"
        if text.startswith("TOOL_CALLS", at):
            self._see(at)
            return "glued" if not self.prose.fence else ""
        if text.startswith(" to=", at) and text[text.rfind("\n", 0, at) + 1 : at].strip():
            return ""
        strong = STRONG.match(text, at, partial=True) if partial else STRONG_WHOLE.match(text, at)
        if partial and strong and strong.partial:
            return None
        if (
            not strong
            and text[at] == "<"
            and not partial
            and not THOUGHT_WHOLE.match(text, at)
            and not self.weak_tag.match(text, at)
        ):
            return ""
        self._see(at)
        if self.prose.fence:
            return ""
        line_start = not self.prose.line.strip()
        thought = (
            THOUGHT.match(text, at, partial=partial)
            if line_start or not self.prose.any or text.startswith("<|channel|>", at)
            else None
        )
        if thought and thought.partial:
            return None
        if (
            thought
            and text[at] == "<"
            and text.startswith("<|channel|>", at)
            and self.prose.line.strip()
            and not self.prose.line.rstrip().endswith("<|start|>assistant")
        ):
            thought = None
        if thought and not (strong and strong.end() > thought.end()):
            return "thought" if not self.prose.in_code() else ""
        if strong:
            if partial and strong.end() == len(text):
                return None
            return "strong"
        weak = self.weak_tag.match(text, at, partial=partial)
        if weak and weak.partial:
            return None
        if weak:
            return "weak"
        if not line_start:
            return ""
        if self.prose.line and re.match(r"(?:\t| {4,})", self.prose.line) and text[at] == "`":
            return ""
        head = JSON_HEAD.match(text, at, partial=partial)
        if head and head.partial:
            return None
        if head:
            return "weak"
        return ""

    # -- held text ------------------------------------------------------------------------------------------------

    def _held(self, pieces: list) -> bool:
        """Read what is held; False while more must come."""
        size = len(self.text) - self.held
        if not self.final and size < self.tried * PATIENCE and not self._worth(size):
            return False
        self.work += size
        self.tried, source = size, Source(self.text, self.final)
        reader = CallReader(source, self.tools, bare_names=self.kind != "weak")
        start = self.held
        try:
            calls, end, weak = self._reading(reader, start)
            good = self._judged(reader, calls, start, end, weak)
            whole = [call for call in calls if call.closed_itself and call.tool]
            if (
                not good
                and weak
                and self.kind == "strong"
                and whole
                and not self.dead
                and self._skip_left(whole[-1].end, reader) < source.size
            ):  # of what breaks off, the calls that were closed
                calls, end, weak = whole, whole[-1].end, False
                good = self._judged(reader, calls, start, end, False)
        except NeedMore:
            return False
        except NoCall:
            if reader.deep and self.kind in ("strong", "weak"):
                self.dead = self.kind == "strong"
            return self._refused(start, pieces)
        self.held = -1
        if not good:
            self.pos = max(end, start + 1)
            if not weak:
                return True
            self._prose(self.pos, pieces)
            return True
        self._prose(start, pieces)
        taken: list = []
        for call in calls:
            if call.tool is not None:
                taken.append(Found(call.name, call.arguments, call.id, weak))
                continue
            if taken:
                self._take(taken, call.start, pieces)
                taken = []
            self._prose(call.end, pieces)  # of which no tool was offered: text in its place
        self._take(taken, end, pieces)
        self.pos = end
        self.dead = reader.broken
        self.behind_call = self.found_any = True
        return True

    def _take(self, calls: list, end: int, pieces: list) -> None:
        pieces += calls
        self.spans.append((self.out, end, calls))
        self.out = end

    def _worth(self, size: int) -> bool:
        """Whether an end tag came, and not too much was read in vain."""
        if self.work > 3 * len(self.text) + 20_000:
            return False
        new = self.text[self.held + max(0, self.tried - 40) :]
        return "</" in new or "|>" in new or "]" in new or "}" in new or "｜>" in new

    def _refused(self, start: int, pieces: list) -> bool:
        """Nothing can come of what is held: it is prose, and looked at again behind its first sign."""
        kind, self.held = self.kind, -1
        self.pos = start + 1 if kind != "first" else start
        self.begun = True
        if self.kind != "first":
            end = self._strings_end(start)
            if kind == "strong" and HEADER.match(
                self.text, start
            ):  # a message that goes to no tool: nothing in it counts
                self.thought, self.thought_at, self.pos = MESSAGE_ENDS, start + 1, start + 1
                return True
            self.pos = max(self.pos, end)
        return True

    def _strings_end(self, start: int) -> int:
        """The end of JSON that is no call, so that what its strings show is none either."""
        text = self.text
        opener = STRONG.match(text, start)
        at = re.compile(r"\s*").match(text, opener.end()).end() if opener else start
        if at < len(text) and text[at] in "{[":
            from proxy.notations.literals import STRICT

            try:
                return STRICT.raw_decode(text, at)[1]
            except (ValueError, RecursionError):
                return at
        return at if opener else start + 1

    def _reading(self, reader: CallReader, start: int):
        """The calls that begin at a place, their end, and whether they are weak."""
        if self.kind == "strong":
            calls, end, closed = reader.read_strong(start)
            if closed:
                return calls, end, False
            try:
                return self._row(reader, calls, end)
            except NoCall:
                whole = [call for call in calls if call.closed_itself]
                if not whole or not reader.source.final or self._skip_left(whole[-1].end, reader) == reader.source.size:
                    raise
                return whole, whole[-1].end, False
        if self.kind == "first":
            return self._first(reader, start)
        if self.kind == "glued":
            calls, end, _ = reader.named(start + 10, None)
            return self._row(reader, calls, end)
        return self._row(reader, [], start)

    def _row(self, reader: CallReader, calls: list, pos: int):
        """Calls behind each other up to the end of the reply: weak evidence."""
        source, calls = reader.source, [*calls]
        if self.text.startswith("Action:", pos):
            pos = source.blanks(pos + 7)
        while True:
            pos = self._skip_left(pos, reader, calls=bool(calls))
            if pos == source.size:
                if not source.final:
                    raise NeedMore
                if not calls:
                    raise NoCall("nothing")
                return calls, pos, True
            if source.starts(">>>", pos) or (calls and (source.text[pos].isalpha())):
                got, pos, _ = reader.named(source.blanks(pos + 3 * source.text.startswith(">>>", pos)), None)
            elif source.text.startswith(("<|start|>", "<|channel|>"), pos):
                got, pos, _ = reader.harmony(pos)
            elif source.text[pos] in "<[" and reader.opener(pos):
                got, pos, _ = reader.wrapped(pos)
            else:
                got, pos, _ = reader.body(pos, NO_OPENER, 0)
            calls += got

    def _first(self, reader: CallReader, start: int):
        """What counts only as the first thing of a reply."""
        source, text = reader.source, reader.source.text
        if text.startswith("to=", start):
            calls, pos, _ = reader.harmony(start)
            return self._row(reader, calls, pos)
        if gemma := source.match(_GEMMA, start):
            calls, pos, _ = reader.named(gemma.end() - 5, GEMMA)
            for call in calls:
                call.clear = LOOSE
            return self._row(reader, calls, pos)
        found = source.match(_LEADS, start) or source.match(_CUT, start)
        if found and found.group() not in ("",) and not _LEADS.match(text, start) and found.group() not in CUT_OPENERS:
            found = None
        pos = source.blanks(found.end()) if found else start
        if header := source.match(_STRIPPED_HEADER, pos, bounded=False):
            calls, pos, _ = reader.arguments(source.blanks(header.end()), header.group("N"), start)
            return self._row(reader, calls, pos)
        if react := source.match(_REACT, pos, bounded=False):
            calls, pos, _ = reader.arguments(source.blanks(react.end()), react.group("N"), start)
            return self._row(reader, calls, pos)
        if said := source.match(_ALL, pos, bounded=False):
            pos = said.end() - 3
        if text[pos : pos + 1] in ("{", "[", "<", "`", ">"):
            try:
                return self._row(reader, [], pos)
            except NoCall:
                if text[pos] != "`" or not (fence := source.match(FENCE, pos)):
                    raise
                return self._code(reader, fence.end(), True)
        if source.match(_BARE_CALL, pos):
            return self._code(reader, pos, False)
        glued = source.match(regex.compile(r"function(?=[A-Za-z_])"), pos)
        if glued and not self.tools.resolve(n.NAME.match(text, pos).group()):
            pos = glued.end()
        head = source.match(_GLUED_JSON, pos)
        calls: list = []
        if head and self.tools.resolve(head.group(1)):
            calls, pos, _ = reader.arguments(source.blanks(head.end()), head.group(1), start)
        else:
            calls, pos, _ = reader.named(pos, None)
        return self._row(reader, calls, pos)

    def _code(self, reader: CallReader, pos: int, fenced: bool):
        """Calls as Python writes them, as the whole reply: `read(path="a")`."""
        source, calls = reader.source, []
        while True:
            pos = source.blanks(pos)
            if pos == source.size:
                break
            if source.starts("```", pos):
                pos += 3
                continue
            if calls and source.text[pos] in ";,":
                pos += 1
                continue
            if end := reader.ends_turn(pos):
                pos = end
                continue
            printed = source.match(_PRINT, pos)
            if printed and not (printed.group(1) and "default_api" in printed.group()):
                raise NoCall("printed")
            start = printed.end() if printed else pos
            start += 12 * source.starts("default_api.", start)
            found = source.match(_CALLED, start)
            if not found:
                raise NoCall("no call")
            got, pos, _ = reader.arguments(found.end(), found.group(1), pos, "", NO_OPENER)
            if printed:
                pos = source.blanks(pos)
                if not source.starts(")", pos):
                    raise NoCall("no end")
                pos += 1
            for call in got:
                call.clear = LOOSE
            calls += got
        if not source.final:
            raise NeedMore
        if not calls or not any(call.arguments for call in calls):
            raise NoCall("no argument")
        return calls, pos, True

    def _skip_left(self, pos: int, reader: CallReader, calls: bool = True) -> int:
        """The position behind blanks, orphan closers and end-of-turn tokens."""
        source = reader.source
        while True:
            pos = source.blanks(pos)
            if pos == source.size:
                return pos
            sign = source.text[pos]
            if calls and sign in ",;":
                pos += 1
            elif sign in "<[" and (end := reader.ends_turn(pos)):
                pos = end
            elif (
                sign in "<]"
                and calls
                and (
                    found := source.match(WRAPPER_END, pos)
                    or source.match(CALL_END, pos)
                    or source.match(VALUE_END, pos)
                )
            ):
                pos = found.end()
            else:
                return pos

    # -- what stands around it ------------------------------------------------------------------------------------

    def _judged(self, reader: CallReader, calls: list, start: int, end: int, weak: bool) -> bool:
        """Whether calls that were read count where they stand."""
        self._see(start)
        source = reader.source
        offered = [call for call in calls if call.tool is not None]
        if not offered:
            return False
        behind = self.listed >= 0 and not self.text[self.listed : start].strip()
        if any(is_listing(call.arguments, call.tool) or (behind and not call.arguments) for call in offered):
            self.listed = end
            return False
        if self.copies.shows(self.text[start:end]) or any(
            self.copies.hold(call, self.text[call.start : call.end] if len(calls) > 1 else "") for call in offered
        ):
            return False
        if self.prose.in_code():
            return False
        if weak:
            return len(offered) == len(calls) and self._weak_ok(calls, start)
        if any(call.told for call in calls):  # a mark behind it could be the real end
            if not source.final:
                raise NeedMore
            if '"' in source.text[end:] and not self._begins(self._skip_left(end, reader)):
                self.dead = True
                return False
        before = self.prose.before
        if before.strip() or self.prose.pre or self.prose.docstring:
            behind = self._skip_left(end, reader)
            if not source.final and behind + 8 > source.size and source.text[behind : behind + 1] in "\"'<":
                raise NeedMore  # a docstring's mark or an end tag may stand there
            if behind < source.size or source.final:
                if self.prose.quoted(source.text[end : behind + 20]):
                    return False
                line = source.text[end : behind + 1]
                if self.prose.line.strip() and "\n" not in line and behind < source.size and not self._begins(behind):
                    return False
        if self.prose.indented():
            return source.at_end(self._skip_left(end, reader)) and self._weak_ok(calls, start)
        return True

    def _begins(self, pos: int) -> bool:
        found = STRONG.match(self.text, pos, partial=not self.final)
        if found and found.partial:
            raise NeedMore
        return bool(found)

    def _weak_ok(self, calls: list, start: int) -> bool:
        """Weak evidence: at the end of a reply that the model ended, every key the tool's, every required one there."""
        if (
            not self.stopped
            or self.json_reply
            or (self.prose.behind_quote() and not self.prose.in_code() and start and self.kind != "first")
        ):
            return False
        whole = self.kind == "first" and not self.found_any
        for call in calls:
            if call.clear == LOOSE and (not whole or not any(each.arguments for each in calls)):
                return False
            given = {call.tool.meant(key, call.arguments) for key in call.arguments}
            if (
                whole
                and call.json
                and len(calls) == 1
                and call.tool.tolerates({call.tool.meant(k, call.arguments): v for k, v in call.arguments.items()})
            ):
                continue
            if not call.tool.accepts(given):
                return False
        return True

    def _behind(self, pieces: list) -> bool:
        """Behind a call: blanks, closers and tokens are no text, if another call or the end follows."""
        reader = CallReader(Source(self.text, self.final), self.tools)
        try:
            pos = self._skip_left(self.pos, reader)
        except NeedMore:
            return False
        self.behind_call = False
        written = self.text[self.pos : pos]
        if pos < len(self.text) or not self.final:
            kept = written[len(written.rstrip()) :] if written.strip() else written
            pos = pos - len(kept)
        if pos > self.out:
            self.spans.append((self.out, pos, []))
        self.prose, self.fed, self.pos, self.out = Prose(), pos, pos, pos
        self.prose.any = True
        self.begun = True
        return True


_WORDS = (*n.NAME_WORDS, *n.ARGUMENT_WORDS, *n.LIST_WORDS, "id", "type", "tool_call_id", "role")
JSON_HEAD = regex.compile(
    rf"(?:```[ \t]*(?:json\w*|python|py|tool_\w+|tool|xml|javascript|js|text|bash)?[ \t]*\n\s*)?(?:[\[{{]\s*){{1,6}}[\"'“](?:{'|'.join(_WORDS)}|\w{{1,64}})[\"'”]\s*:|```[ \t]*\w*[ \t]*\n\s*(?:\[?[\w.]+\(|<)|\[\s*[A-Za-z_][\w.]*\s*\(|\{{\s*\w+\s*:\s*[\"']|Action:\s*[`\[]|>>>\s*[A-Za-z_]"
)


@functools.lru_cache(maxsize=64)
def _weak_tag(names: str) -> regex.Pattern:
    return regex.compile(rf"{n.CALL_OPEN}|<(?:tool:\s*)?(?:{names})>\s*(?=\S)")


@functools.lru_cache(maxsize=64)
def _start(names: str) -> regex.Pattern:
    return regex.compile(
        rf"(?:functions?[.]?|(?:{names})\.|>>>\s*)?(?:{names})(?::\d{{1,6}})?(?:[ ]?json\s*|\n\s*)?(?:\[ARGS\]|[{{(<])|function(?:{names})\s*```|(?:thought\n)?call:|functools\s*\[|TOOL_CALLS|[\[{{`]|;\s*\{{"
        rf"|function call\s*\{{|(?:analysis.*?)?(?:assistant)?commentary to=|to=|(?:Thought:.*?)?Action:|all\n"
        rf"|[\w.:|｜▁ ]{{1,60}}[>\]]\s*[\[{{<\w]|print\(|default_api",
        regex.S,
    )


_GEMMA = regex.compile(r"(?:thought\n)?call:(?=[A-Za-z])")
GEMMA = Opener(0, ("<tool_call|>",))
_LEADS = regex.compile(r"functools\s*|TOOL_CALLS|;\s*|function call\s*")
_CUT = regex.compile(r"[\w.:|｜▁ ]{1,60}[>\]]")
# Openers of which the first characters were cut off.
_WHOLE = (
    *n.TOKENS,
    *(f"<{word}>" for word in n.WRAPPER_WORDS),
    "<seed:tool_call>",
    "<minimax:tool_call>",
    "<atem:function_calls>",
    "<ifm|tool_calls>",
    "<ifm|tool_call>",
    "<｜DSML｜tool_calls>",
    "<｜DSML｜function_calls>",
)
CUT_OPENERS = frozenset(opener[at:] for opener in _WHOLE for at in range(1, len(opener) - 1))
_STRIPPED_HEADER = regex.compile(
    r"(?:analysis.*?)?(?:assistant)?commentary to=(?:functions\.)(?P<N>[\w.-]+?)\s*(?:json|<\|constrain\|>json)?\s*(?:<\|message\|>)?\s*(?=\{)",
    regex.S,
)
_REACT = regex.compile(
    r"(?:Thought:[^\n]*(?:\n(?!Action:)[^\n]*)*\n)?Action:\s*(?P<N>[\w.-]+)\s*\nAction Input:\s*(?=\{)"
)
_ALL = regex.compile(r"all\n.*?\n>>>", regex.S)
_BARE_CALL = regex.compile(r"(?:print\(\s*)?(?:default_api\.)?[A-Za-z_][\w.-]* ?(?:\(|\{\s*[A-Za-z_])")
_GLUED_JSON = regex.compile(r"(?:functions\.)?([A-Za-z_][\w-]*?)(?::\d{1,6})? ?json\s*(?=[{`])")
_PRINT = regex.compile(r"print\(\s*((?:default_api\.)?)(?=[A-Za-z_])")
_CALLED = regex.compile(r"([A-Za-z_][\w.-]*)\s?(?=[({])")
