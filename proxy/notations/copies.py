"""Detection of calls copied from the conversation: from a file, a pasted text, or a quoted error.

A call in text is a copy if a source contains a call with the same name and arguments, or the call's whole text. Sources
are the tool results and user messages of the conversation. A source may show the call with line numbers, quoted, in a
diff, in a JSON or Python string, or escaped as HTML.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

import regex

from proxy.json import Json, dump, load_json
from proxy.notations.calls import Call
from proxy.notations.reader import CallReader
from proxy.notations.source import NoCall, Source, end_of
from proxy.notations.string_escapes import unescaped
from proxy.notations.tables import STRONG
from proxy.notations.toolset import ToolSet
from proxy.notations.validator import members

# Minimum length of a call, or of its arguments, to be considered a copy.
MIN_COPIED = 24
# Maximum levels of nested strings and HTML to decode, and maximum decoded size as a multiple of the source's length.
MAX_LAYERS, MAX_DECODED = 3, 10
# Maximum characters per attempt to read a call in a source, and the maximum number of failed attempts.
MAX_CALL_SHOWN = 65_536
MAX_FAILED = 64
# Steps that all failed attempts in a source may take: per character, plus a constant.
COPY_STEPS, MORE_COPY_STEPS = 2, 5_000
# Number of the call's words that a source must contain to be searched, and the maximum number of its lines to try.
MAX_WORDS, MAX_ANCHORS = 8, 2_000

_BLANKS = re.compile(r"\s+")
# Whitespace and quotation marks in JSON. Some notations write `5` for `"5"`.
_GAPS = re.compile(r"\s+|\\[nrtf]|(?<!\\)\"")
_AROUND_SIGNS = re.compile(r"(?<!\w) | (?!\w)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[A-Za-z_]{4,}")
# The quoted text on one line, and the marks between a string that ends a line and the next string.
_PART = {
    '"': regex.compile(r'(?:[^"\\\n\r]++|\\.)++', regex.S),
    "'": regex.compile(r"(?<=')(?<!\\')(?:[^'\\\n\r]++|\\.)++(?=')", regex.S),
}
_JOINT = {mark: re.compile(rf"(?<=\\n){mark}[ \t]*[,+]?\s*{mark}") for mark in _PART}
# Escapes that identify part of a string without its marks: quoted keys, line ends next to tags.
_ESCAPED = re.compile(r"\\\"\s?[:,}]|[{:]\s?\\\"|>\\n|\\n<")
# Characters that HTML escapes, and the start of an escaped tag.
_HTML_MARKS = str.maketrans(dict.fromkeys("<\"'", "\0"))
_ESCAPED_TAG = re.compile(r"&(?:amp;)*(?:lt|#60|#x3c);[^\s=]", re.I)
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_CONTROL = re.compile(r"(M-)?(?:\^([@-_?])|(?<=M-)(.))")
_LINE_END = re.compile(r"(?<!\r)\r+\n")
# The parts that vary within the line prefixes of a listing: commit and author, numbers, signs and spaces.
_BLAME = re.compile(r"\A\^?[0-9a-f]{7,40} .*?(?=\d+\) *\Z)")
_NUMBER = re.compile(r"[:-]?[ \t]*\d+")
_SIGN = re.compile(r"\A[+<>!|*-](?=[ \t0]|\Z)|(?<=0) *[+>:-](?=\s?\Z)| +")
# The sign of a diff line. A line number may precede it, with or without spaces.
_SIGNS = (re.compile(r"(?:[ \t]*\d+[ \t:|]*)?([+-])"), re.compile(r"[ \t]*\d+[ \t:|]?([+-])"))
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[\w+-]*\s*")
# Prefixes of listing lines: a path and a number, a number, a sign.
_PREFIX = re.compile(
    r"[ \t]*[>*]?[ \t]*(?:[^\s\"'<>{}]{1,200}[:(-])?[\[(L]?\d{1,7}(?:[:,]\d{1,7})?"
    r"(?:[-:|\])>.;#=→│\t]|[ ]{1,2})+[+-]?[ ]?"
    r"|[ \t]*(?:[+>|#%*│-]|//|--|/\*)+[ \t]?|[ ]"
)


class Copies:
    """The sources of a conversation, evaluated only when a call is found in text.

    `made` are the assistant's own earlier calls, as names and arguments. Arguments may be JSON text.
    """

    def __init__(self, tools: ToolSet, sources: Iterable[str] = (), made: Iterable[tuple[str, Json]] = ()) -> None:
        self._sources = tuple(_Shown(source, tools) for source in sources if len(source) >= MIN_COPIED)
        self._given = tuple(made)

    def hold(self, calls: Iterable[tuple[Call, str]], text: str) -> bool:
        """Return whether a source contains one of the calls or their whole `text`. Each call comes with its own text.

        A call that the assistant made before is not a copy.
        """
        if not self._sources:
            return False
        new = [(call, own) for call, own in calls if (call.name, call.arguments) not in self._made]
        if not new:
            return False
        return self.shows(text) or any(self._holds(call) or (own != text and self.shows(own)) for call, own in new)

    def _holds(self, call: Call) -> bool:
        """Return whether a source contains a call with this name and these arguments."""
        if len(dump(call.arguments)) < MIN_COPIED:
            return False
        words = _words(" ".join(_strings(call.arguments)))
        bare = _bare(call.arguments)
        return any(source.has(words) and (call.name, bare) in source.calls for source in self._sources)

    def shows(self, text: str) -> bool:
        """Return whether a source contains the whole text."""
        lines = _LINE_END.sub("\n", text.strip()).split("\n")
        if len(lines) > 2 and _FENCE.fullmatch(lines[0]):
            # Ignore a fence around the text.
            lines = lines[1 : -1 if _FENCE.fullmatch(lines[-1]) else None]
        text = "\n".join(lines).strip()
        bare, words = _normal(text), _words(text)
        if len(bare) < MIN_COPIED:
            return False
        numbered = [(number, line) for number, line in enumerate(text.split("\n")) if line.strip()]
        return any(source.has(words) and source.shows(bare, numbered) for source in self._sources)

    @cached_property
    def _made(self) -> list[tuple[str, Json]]:
        """The calls that the assistant made."""
        return [(name, _parsed(arguments)) for name, arguments in self._given]


class _Shown:
    """A source, and the texts in its strings and escapes."""

    def __init__(self, text: str, tools: ToolSet) -> None:
        self._text, self._tools = text, tools

    def has(self, words: Iterable[str]) -> bool:
        """Return whether the source contains all the words. This cheap test excludes most sources."""
        return all(word in self._text for word in words)

    def shows(self, bare: str, lines: Sequence[tuple[int, str]]) -> bool:
        """Return whether the source contains normalized text, or its numbered lines after prefixes."""
        if any(bare in shown for shown in self._normal):
            return True
        if len(lines) < 2:
            return False
        anchor = max(range(1, len(lines)), key=lambda at: len(lines[at][1]))
        longest = lines[anchor][1]
        for shown in self._lines:
            places = islice((at for at, line in enumerate(shown) if longest in line), MAX_ANCHORS)
            if any(_shown_around(shown, lines, anchor, at) for at in places):
                return True
        return False

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return _layers(self._text)

    @cached_property
    def _normal(self) -> tuple[str, ...]:
        return tuple(map(_normal, self._texts))

    @cached_property
    def _lines(self) -> tuple[list[str], ...]:
        return tuple(side for text in self._texts for side in _sides(text))

    @cached_property
    def calls(self) -> Collection[tuple[str, str]]:
        """The wrapped calls in the source, regardless of their context."""
        bare = ("\n".join(line[end_of(_PREFIX, line, 0) :] for line in lines) for lines in self._lines)
        shown = dict.fromkeys((*self._texts, *bare))
        return {call for text in shown for call in _calls_in(text, self._tools)}


def _words(text: str) -> list[str]:
    """Return the longest words of a text. Prefixes and escapes do not change them."""
    return sorted(set(_WORD.findall(text)), key=len, reverse=True)[:MAX_WORDS]


def _strings(value: Json) -> Iterator[str]:
    """Yield the string values in a JSON value."""
    if isinstance(value, str):
        yield value
    for _, each in members(value):
        yield from _strings(each)


def _parsed(arguments: Json) -> Json:
    """Return arguments, decoded if they are JSON text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return load_json(arguments)
    except ValueError:
        return arguments


def _bare(value: Json) -> str:
    """Return the JSON of a value without whitespace, which a listing may change."""
    return _GAPS.sub("", json.dumps(value, sort_keys=True, ensure_ascii=False))


def _calls_in(text: str, tools: ToolSet) -> Iterator[tuple[str, str]]:
    """Yield the wrapped calls in a text."""
    pos, failed, steps = 0, 0, COPY_STEPS * len(text) + MORE_COPY_STEPS
    while failed < MAX_FAILED and (found := STRONG.search(text, pos)):
        source = Source(text[found.start() : found.start() + MAX_CALL_SHOWN], True, steps)
        reader = CallReader(source, tools)
        try:
            calls, end = reader.strong(0)
        except NoCall:
            steps = source.steps
            failed, pos = failed + 1, max(found.end(), found.start() + reader.run_end)
            continue
        yield from ((call.name, _bare(call.arguments)) for call in calls if call.tool)
        pos = found.start() + max(end, 1)


def _layers(source: str) -> tuple[str, ...]:
    """Return a text and the texts escaped in it: in strings, as HTML, or by `cat -A`."""
    texts, level, room = dict[str, None](), [source], MAX_DECODED * len(source)
    for _ in range(MAX_LAYERS + 1):
        inner: list[str] = []
        for text in (_COLOUR.sub("", _LINE_END.sub("\n", each)) for each in level):
            room -= len(text)
            if text not in texts and room >= 0:
                texts[text] = None
                inner += _decoded(text)
        level = inner
    return tuple(texts)


def _decoded(text: str) -> Iterator[str]:
    """Yield the texts escaped in a text."""
    if "\\" in text:
        for mark in _PART:
            yield unescaped("\0".join(_parts_of_strings(_JOINT[mark].sub("", text), mark)))
        if '"""' in text or "'''" in text:
            # Multi-line strings.
            yield unescaped(text)
    if "&" in text:
        # Only escaped characters may be markup here.
        yield html.unescape(text.translate(_HTML_MARKS))
        if _ESCAPED_TAG.search(text):
            yield html.unescape(text.replace("<", "\0"))
    if "$" in text and ("^" in text or "M-" in text):
        yield _CONTROL.sub(_controlled, text).encode("latin-1", "replace").decode("utf-8", "replace")


def _parts_of_strings(text: str, mark: str) -> Iterator[str]:
    """Yield possible parts of strings with this mark that contain escapes."""
    for found in _PART[mark].finditer(text):
        part, start, end = found.group(), found.start(), found.end()
        marked = mark in (text[start - 1 : start], text[end : end + 1])
        if "\\" in part and (marked or _ESCAPED.search(part)):
            yield part


def _controlled(found: re.Match[str]) -> str:
    """Return the byte, as a character, that `cat -A` writes with `^` and `M-`."""
    code = ord(found[2]) ^ 64 if found[2] else ord(found[3])
    return chr(code | 128 if found[1] else code)


def _normal(text: str) -> str:
    """Return a text with single spaces between words, no other whitespace, and no lone surrogates."""
    return _SURROGATE.sub("\ufffd", _AROUND_SIGNS.sub("", _BLANKS.sub(" ", text)))


def _sides(text: str) -> Iterator[list[str]]:
    """Yield the nonblank lines of a text and, for a diff, the lines of each side."""
    lines = [line for line in text.split("\n") if line.strip()]
    yield lines
    for pattern in _SIGNS:
        signs = [found.group(1) if (found := pattern.match(line)) else "" for line in lines]
        for gone in {"+", "-"}.intersection(signs):
            yield [line for line, sign in zip(lines, signs, strict=True) if sign != gone]


def _shown_around(shown: Sequence[str], lines: Sequence[tuple[int, str]], anchor: int, at: int) -> bool:
    """Return whether the lines around the anchor line match too, all with the same kind of prefix."""
    places = {anchor: at}
    for order in (range(anchor - 1, -1, -1), range(anchor + 1, len(lines))):
        before = anchor
        for each in order:
            # A listing omits a blank line or shows only its prefix.
            number, line = lines[each]
            gap, step = abs(number - lines[before][0]), each - before
            near = range(places[before] + step, places[before] + (gap + 1) * step, step)
            found = next((place for place in near if 0 <= place < len(shown) and line in shown[place]), None)
            if found is None:
                return False
            places[each], before = found, each
    parts = list[tuple[str, str]]()
    for each, (_, line) in enumerate(lines):
        there = shown[places[each]]
        before_line, _, after = there.partition(line) if each == len(lines) - 1 else there.rpartition(line)
        parts.append((before_line, after.strip()))
    first, *prefixes = [_shape(before) for before, _ in parts]
    if len(lines) == 2 and not first.startswith(prefixes[0]) and not _PREFIX.fullmatch(prefixes[0]):
        # A single line is not enough to recognize a prefix.
        return False
    return len(set(prefixes)) == 1 and len({after for _, after in parts[:-1]}) == 1


def _shape(prefix: str) -> str:
    """Return a prefix without its number, author and sign, so that prefixes of one listing are equal."""
    shape = _SIGN.sub("", _NUMBER.sub("0", _BLAME.sub("", prefix)))
    return shape or " " * bool(prefix)
