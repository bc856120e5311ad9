"""The text formats in which models write tool calls, and the one scanner that finds them.

A format is a line in the tables of `formats/markers.py`, or a small parser of its own that `formats/wrappers.py`
names; the scanner knows none of them. How to add one: docs/formats.md.

    Format("json", b"{", unwrapped, line_start=True, then=b"\\"'")

says that `{"` at the start of a line may begin a call, and that `unwrapped` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from proxy.formats.forced import arguments_or
from proxy.formats.harmony import header, stripped_header
from proxy.formats.json_calls import shown_json
from proxy.formats.markers import END_OF_TURN, OPENERS, WEAK_MARKERS, encoded
from proxy.formats.opener_runs import opener_runs
from proxy.formats.reasoning import REASONING_MARKERS, STRIPPED, ReasoningMarkers, Section, last_call, no_call
from proxy.formats.reply_start import ReplyStart, functionary, tool_calls_word
from proxy.formats.terminators import leftover
from proxy.formats.unreadable_calls import END_TOKENS, only_tokens
from proxy.formats.unwrapped import rest_of_calls, strong, unwrapped
from proxy.formats.wrappers import FENCE, FormatParser
from proxy.formats.xml_tags import SEPARATOR
from proxy.parsing.cursor import MAX_KEY, Cursor, NotACall, Parsing, RawCall, Rejection
from proxy.parsing.literal_table import END, branching, longest_by_first
from proxy.tools.toolset import ToolSet

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_OBJECT = b"{"
_BLANKS = b" \t\r\n"
_EVERY_BYTE = tuple(bytes([byte]) for byte in range(256))
# Stands for every other byte; UTF-8 has no such one.
_OTHER = b"\xff"
TEXT, REASONING = "text", "reasoning"
# Of reasoning that does not begin the reply: no call in it is meant (F70).
BEHIND_TEXT = " behind text"
# Of reasoning that the prompt began: the reply may begin it again.
PROMPTED = " in the prompt"


@dataclass(frozen=True, slots=True)
class Format:
    """What begins with `opener`; `parse` reads it, opener and all.

    `line_start`: only at the start of a line; `apart`: not in the middle of a word; `glued`: not behind a blank or a
    quotation mark; `in_code`: in code too; `strong`: it counts wherever it stands, once it is closed. `then` holds the
    bytes of which one must follow, blanks aside; empty if any may. `mode` is the one that the text is in behind the
    opener, if that changes it.
    """

    name: str
    opener: bytes
    parse: FormatParser = no_call
    line_start: bool = False
    apart: bool = False
    glued: bool = False
    in_code: bool = False
    strong: bool = False
    then: bytes = b""
    mode: str = ""


# An escape in a string of JSON that stands for a byte with which no format begins.
PLAIN_ESCAPE = rb'\\["\\/nrt]'


@dataclass(frozen=True, slots=True)
class Grammar:
    """The formats that count in one mode of a reply, and patterns of where one of them can begin.

    `begin` finds an opener, with what may follow it, or what may become one where the text ends. `in_code` is that for
    code, and finds what can end the code too. `plain` matches a text, as it stands in a string of
    JSON, in which none can begin. `openers` matches a whole opener, the longest that stands somewhere; `standing` are
    the formats that begin there then; `longest` says how long an opener can be by its first byte. `prefixes` are what
    may become one. `runs` matches openers of which
    nothing comes. `first` are for the first thing of a reply, whatever it begins with.
    """

    begin: re.Pattern[bytes]
    in_code: re.Pattern[bytes]
    plain: re.Pattern[bytes]
    openers: re.Pattern[bytes]
    longest: Mapping[int, int]
    prefixes: frozenset[bytes]
    runs: re.Pattern[bytes] | None
    standing: Mapping[bytes, tuple[Format, ...]]
    first: tuple[Format, ...]
    first_openers: tuple[bytes, ...]
    start: ReplyStart | None
    by_prefix: Mapping[bytes, tuple[Format, ...]]

    def next_first(self, tried: int, here: bytes, tools: ToolSet) -> int:
        """The next of the formats for the first thing that may begin with these two bytes, or the one that has come;
        their number if none does.
        """
        if not here:
            return tried
        for number in range(tried, len(self.first)):
            opener = self.first[number].opener
            if opener[:1] == here[:1]:
                return number
            if not opener and self.start is not None and self.start.may_begin(here, tools):
                return number
        return len(self.first)

    def is_prose(self, reply: bytes, tools: ToolSet) -> bool:
        """True if nothing begins in a whole reply, neither at its start nor behind it. Blanks alone are no prose."""
        told = reply.lstrip(_BLANKS)
        if not told or self.begin.search(reply):
            return False
        if told.startswith(self.first_openers):
            return False
        return self.start is None or not self.start.opens(told, tools)

    def beginning(self, here: bytes) -> tuple[Format, ...]:
        """The formats that may begin with these bytes, the longest openers first."""
        return self.by_prefix.get(here, ()) or self.by_prefix.get(here[:1] + _OTHER, ())


class _LazyGrammars(Mapping[str, Grammar]):
    """Grammars by mode, each of which is made when a reply first needs it: there are dozens of modes, and the models of
    one server have two or three.
    """

    def __init__(self, modes: Iterable[str], make: Callable[[str], Grammar]) -> None:
        self._modes = tuple(modes)
        self._make = make
        self._made: dict[str, Grammar] = {}

    def __getitem__(self, mode: str) -> Grammar:
        made = self._made.get(mode)
        if made is None:
            made = self._made[mode] = self._make(mode)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._modes)

    def __len__(self) -> int:
        return len(self._modes)


def _action(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read Command-R's `Action:` and the array behind it, fenced or not."""
    yield from cursor.expect(b"Action:")
    yield from cursor.blanks()
    if (yield from cursor.byte()) not in (b"`", b"["):
        raise cursor.refuse("an array was expected")
    return (yield from rest_of_calls(cursor, ()))


def _until(*closers: bytes) -> FormatParser:
    """The parser for what holds no call whatever stands in it."""

    def parse(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
        cursor.reject("nothing in it is meant")
        yield from cursor.past(*closers)
        raise cursor.rejected()

    return parse


def _asked_json(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read the JSON that the client asked for, up to the tokens that end the reply: nothing in it is a call."""
    cursor.reject(Rejection.JSON_REPLY)
    while (found := (yield from cursor.past(*END_TOKENS))):
        cursor.pos -= len(found)
        if (yield from cursor.ahead(cursor.maybe(only_tokens(cursor)))):
            break
        cursor.pos += len(found)
    raise cursor.rejected()


def _left_over(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one closer or token directly behind a call: it is no text."""
    if not (yield from leftover(cursor)):
        raise NotACall("it closes no call")
    return ()


def end_of_turn(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read nothing but end-of-turn tokens and blanks to the end of the reply: they are no text, and no call (F18)."""
    yield from only_tokens(cursor)
    return ()


def _inkling(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a message whose header may name the tool too."""
    yield from cursor.expect(b"<|message_model|>")
    yield from cursor.until(_BEFORE_TOKEN, MAX_KEY)
    return (yield from strong(cursor))


_INVOKES = (
    "<invoke name=", "<antml:invoke name=", "<atem:invoke name=", "<steptml:invoke name=",
    f"{SEPARATOR}<invoke name=",
)
_BEFORE_TOKEN = re.compile(rb"<")
_WRAPPERS = tuple(
    Format(opener, opener.encode(), strong, strong=True) for opener in OPENERS if opener not in WEAK_MARKERS
)
_STRONG = (
    *_WRAPPERS,
    Format("harmony", b"<|channel|>commentary", header, strong=True),
    Format("harmony", b"<|channel|>analysis to=", header, line_start=True, strong=True),
    Format("harmony", b"<|start|>assistant", header, strong=True),
    Format("inkling", b"<|message_model|>", _inkling, strong=True),
)
_WEAK = (
    *(Format(opener, opener.encode(), unwrapped) for opener in WEAK_MARKERS),
    Format("json", _OBJECT, unwrapped, line_start=True, then=b"\"'"),
    Format("list", b"[", unwrapped, line_start=True, then=b"{[\"'" + _LETTERS),
    Format("fence", FENCE, unwrapped, line_start=True),
    Format("<function=", b"<function=", unwrapped),
    Format("<function name=", b"<function name=", unwrapped),
    Format("<function name=", b"<functionname=", unwrapped),
    *(Format("<invoke", opener, unwrapped) for opener in encoded(*_INVOKES)),
    Format("functionary", b">>>", functionary),
    Format("TOOL_CALLS", b"TOOL_CALLS", tool_calls_word, apart=True),
    Format("Action:", b"Action:", _action, line_start=True),
)
# What holds no call whatever stands in it: comments, and the JSON that the client asked for.
_VOID = (
    # One that is never closed is over at the end of its paragraph.
    Format("comment", b"<!--", _until(b"-->", b"\n\n")),
    Format("shown", b"{", shown_json, then=b"\"'"),
    Format("shown", b"[", shown_json, then=b"\"{"),
)
_JSON = tuple(Format("json", opener, _asked_json, line_start=True) for opener in (b"{", b"["))
# Directly behind a call.
LEFTOVER = Format("leftover", b"", _left_over)
_STRIPPED = Format("reasoning", STRIPPED.opener.encode(), mode=STRIPPED.opener)
_STRIPPED_HEADER = Format("harmony", b"assistantcommentary to=", stripped_header)

# In reasoning that may never end.
_RECOVERED = tuple(Format(item.name, item.opener, last_call) for item in _WRAPPERS)


def format_names() -> frozenset[str]:
    """The names of the formats in which calls are looked for; `start` is what counts as the first thing of a reply."""
    return frozenset(("start", *(item.name for item in (*_STRONG, *_WEAK))))


def _begin(thoughts: Iterable[ReasoningMarkers]) -> tuple[Format, ...]:
    return tuple(Format("reasoning", t.opener.encode(), line_start=True, mode=t.opener) for t in thoughts)


def _end(thoughts: Iterable[ReasoningMarkers]) -> tuple[Format, ...]:
    """What ends a thought that the prompt may have begun."""
    return tuple(Format("reasoning", c.encode(), mode=TEXT) for t in thoughts if t.may_begin for c in t.closers)


def grammars(
    *, json_reply: bool, raw_text: bool, thoughts: tuple[ReasoningMarkers, ...] = REASONING_MARKERS
) -> Mapping[str, Grammar]:
    """The grammars of a reply by mode: its text, each kind of reasoning in it, and reasoning that came apart.

    `json_reply`: the client asked for JSON (`response_format`), so weak evidence never counts (contract C3).
    `raw_text`: the proxy alone parses, so the text holds the model's own end-of-turn token. `thoughts` are the markers
    of reasoning.
    """
    if thoughts is REASONING_MARKERS:
        return _usual_grammars(json_reply, raw_text)
    return _grammars(json_reply, raw_text, thoughts)


@cache
def _usual_grammars(json_reply: bool, raw_text: bool) -> Mapping[str, Grammar]:
    """Those with the usual markers, which are asked for with each request: to hash the markers takes a while."""
    return _grammars(json_reply, raw_text, REASONING_MARKERS)


@cache
def _grammars(json_reply: bool, raw_text: bool, thoughts: tuple[ReasoningMarkers, ...]) -> Mapping[str, Grammar]:
    # Without raw text the token leaked, if it is one: `</s>` is a tag of HTML too.
    tokens = [token for token in END_OF_TURN if raw_text or token.startswith(("<|", "<｜", "<end_of_turn>"))]
    ends = [Format("end_of_turn", each, end_of_turn, in_code=raw_text, glued=not raw_text) for each in encoded(*tokens)]
    begin = _begin(thoughts)
    weak = _JSON if json_reply else _WEAK
    text = (*_STRONG, *begin, *_end(thoughts), *weak, *_VOID, *ends)
    first = _STRONG if json_reply else (*_STRONG, *_WEAK)
    at_first = (_STRIPPED, *begin, _start(first, residues=not json_reply))
    found = {TEXT: text, REASONING: _RECOVERED}
    for thought in thoughts:
        shown = text if thought.section is Section.TEXT else _RECOVERED
        found[thought.opener] = (*shown, *_closers(thought))
        found[f"{thought.opener}{BEHIND_TEXT}"] = _closers(thought)
        found[f"{thought.opener}{PROMPTED}"] = (*_RECOVERED, *_closers(thought), _again(thought))
    found[STRIPPED.opener] = (*text, *_closers(STRIPPED), _STRIPPED_HEADER)
    return _by_mode(found, at_first)


def with_forced(found: Mapping[str, Grammar], name: str) -> Mapping[str, Grammar]:
    """The grammars of a reply whose call of this tool the client forced: its arguments may be all of it (F87)."""
    start = _start((*_STRONG, *_WEAK), residues=True, forced=name)
    first = (*found[TEXT].first[:-1], start)
    text = replace(found[TEXT], first=first, first_openers=_openers(first), start=_start_of(first))
    return _LazyGrammars(found, lambda mode: text if mode == TEXT else found[mode])


def _start(formats: Iterable[Format], *, residues: bool, forced: str = "") -> Format:
    """The format for the first thing of a reply, whatever it is."""
    parsers = {item.opener: (item.name, item.then, item.parse) for item in formats}
    if forced:
        name, then, parse = parsers[_OBJECT]
        parsers[_OBJECT] = name, then, arguments_or(parse, forced)
    return Format("start", b"", ReplyStart(parsers, residues=residues))


def thought_grammars(thoughts: tuple[ReasoningMarkers, ...]) -> Mapping[str, Grammar]:
    """The grammars of a reply in which there are thoughts and no calls: none are offered."""
    if thoughts is REASONING_MARKERS:
        return _usual_thought_grammars()
    return _thought_grammars(thoughts)


@cache
def _usual_thought_grammars() -> Mapping[str, Grammar]:
    return _thought_grammars(REASONING_MARKERS)


@cache
def _thought_grammars(thoughts: tuple[ReasoningMarkers, ...]) -> Mapping[str, Grammar]:
    begin = _begin(thoughts)
    found = {TEXT: (*begin, *_end(thoughts))}
    for thought in thoughts:
        shown = begin if thought.section is Section.TEXT else ()
        found[thought.opener] = found[f"{thought.opener}{BEHIND_TEXT}"] = (*shown, *_closers(thought))
        found[f"{thought.opener}{PROMPTED}"] = (*_closers(thought), _again(thought))
    return _by_mode(found, begin)


def _by_mode(formats: Mapping[str, tuple[Format, ...]], first: tuple[Format, ...]) -> Mapping[str, Grammar]:
    """The grammars of these formats; `first` are for the first thing of a reply, which is text."""
    return _LazyGrammars(formats, lambda mode: _grammar(formats[mode], first if mode == TEXT else ()))


def _again(thought: ReasoningMarkers) -> Format:
    """The opener of a thought that the prompt began already, at the very beginning of the reply."""
    return Format("again", thought.opener.encode(), line_start=True, mode=thought.opener)


def _closers(thought: ReasoningMarkers) -> tuple[Format, ...]:
    return tuple(Format("reasoning", closer.encode(), in_code=True, mode=TEXT) for closer in thought.closers)


def _grammar(formats: Iterable[Format], first: tuple[Format, ...] = ()) -> Grammar:
    ordered = sorted(formats, key=lambda item: len(item.opener), reverse=True)
    prefixes = {prefix for item in ordered for prefix in (item.opener[:1], item.opener[:2], item.opener[:1] + _OTHER)}

    def begins(item: Format, prefix: bytes) -> bool:
        # One byte may be all that has come, or all that there is of an opener.
        return item.opener.startswith(prefix) or item.opener == prefix[:1]

    table = {prefix: tuple(item for item in ordered if begins(item, prefix)) for prefix in prefixes}
    standing = {item.opener: _beginning_with(item.opener, ordered) for item in ordered}
    in_code = _first_bytes_of(item for item in ordered if item.in_code)
    return Grammar(
        begin=re.compile(_beginning_of(ordered) if first else _first_bytes_of(ordered)),
        plain=_plain(ordered),
        in_code=re.compile(b"|".join(filter(None, (b"[`~\\n]", in_code)))),
        openers=re.compile(b"|".join(re.escape(item.opener) for item in ordered)),
        longest=longest_by_first(standing),
        runs=_runs(ordered) if first else None,
        prefixes=frozenset(_prefixes(ordered)),
        standing=standing,
        first=first,
        first_openers=_openers(first),
        start=_start_of(first),
        by_prefix=table,
    )


def _openers(formats: Iterable[Format]) -> tuple[bytes, ...]:
    return tuple(item.opener for item in formats if item.opener)


def _start_of(first: Iterable[Format]) -> ReplyStart | None:
    """What reads the first thing of a reply whatever it begins with, if anything does."""
    for item in first:
        if isinstance(item.parse, ReplyStart):
            return item.parse
    return None


def _runs(formats: Collection[Format]) -> re.Pattern[bytes] | None:
    """A pattern of openers of which nothing comes; None where what opens a wrapper begins something else."""
    return opener_runs((item.opener for item in formats), {item.opener[:1] for item in formats})


def _beginning_with(opener: bytes, formats: Iterable[Format]) -> tuple[Format, ...]:
    """The formats that begin where this opener stands: those that have it, or its beginning, for their own."""
    return tuple(item for item in formats if opener.startswith(item.opener))


def _prefixes(formats: Iterable[Format]) -> Iterator[bytes]:
    """All that is not yet an opener and may become one."""
    for item in formats:
        yield from (item.opener[:length] for length in range(len(item.opener)))


def _beginning_of(formats: Iterable[Format]) -> bytes:
    """A pattern of openers with what may follow them, or of what has come of them where the text ends."""
    following: dict[bytes, set[bytes]] = {}
    for item in formats:
        following.setdefault(item.opener, set()).update(_following(item))
    return branching({opener: _one_of(behind) for opener, behind in following.items()}, may_end=True)


def _first_bytes_of(formats: Iterable[Format]) -> bytes:
    """A pattern of the first byte of an opener, if behind it is what may follow, or the end of what has come.

    Of the thoughts there are many grammars, and this takes a tenth of the time to make.
    """
    firsts = sorted(_first_two(formats).items())
    return b"|".join(re.escape(first) + _one_of(following) for first, following in firsts)


def _following(item: Format) -> Iterable[bytes]:
    """The bytes that may follow an opener."""
    if not item.then:
        return _EVERY_BYTE
    return (bytes([byte]) for byte in (*item.then, *_BLANKS))


def _one_of(following: set[bytes]) -> bytes:
    """A pattern, which takes nothing, of one of these bytes or the end of what has come."""
    if len(following) == len(_EVERY_BYTE):
        return b""
    return b"(?=[%b]|%b)" % (re.escape(b"".join(sorted(following))), END)


def _plain(formats: Iterable[Format]) -> re.Pattern[bytes]:
    """A pattern of a text, as it stands in a string of JSON, that holds no first byte of an opener with what may follow
    behind it; the end of the text may be followed by anything, and so may a byte before an escape.
    """
    seconds = _first_two(formats)
    others = rb'[^"\\\x00-\x1f%b]++' % re.escape(b"".join(sorted(seconds)))
    harmless = (
        rb'%b(?![%b"\\]|\Z)' % (re.escape(first), re.escape(b"".join(sorted(following))))
        for first, following in sorted(seconds.items())
    )
    return re.compile(b"(?>(?:%b)+)" % b"|".join((others, PLAIN_ESCAPE, *harmless)))


def _first_two(formats: Iterable[Format]) -> dict[bytes, set[bytes]]:
    """The first bytes of openers, each with those that may follow it."""
    seconds: dict[bytes, set[bytes]] = {}
    for item in formats:
        second = item.opener[1:2]
        seconds.setdefault(item.opener[:1], set()).update([second] if second else _following(item))
    return seconds
