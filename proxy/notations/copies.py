"""Calls that were copied from the conversation: from a file that was read, a pasted text, an error that quotes one.

A call found in text is a copy if its name and arguments equal a call that the same reader finds in a source, or if a
source shows its whole text. Sources are the tool results and the user messages of the conversation. A source may show
the call numbered, quoted, in a diff, in a string of JSON or Python, or escaped as HTML.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

import regex

from proxy.codec.json_text import Json, dump, load_json
from proxy.codec.string_escapes import unescaped
from proxy.notations.calls import Call
from proxy.notations.reader import CallReader
from proxy.notations.source import NoCall, Source, end_of
from proxy.notations.tables import STRONG
from proxy.tools.toolset import ToolSet

# A call, or the arguments of one, with fewer characters proves nothing.
MIN_COPIED = 24
# Strings in strings, and HTML in them, are decoded so deep, to so many times the source's length.
MAX_LAYERS, MAX_DECODED = 3, 10
# How many characters of a source one attempt to read a call may take, and how many attempts may fail.
MAX_CALL_SHOWN = 65_536
MAX_FAILED = 64
# All that fail in a source may take so many steps for each character, and so many more.
MAX_STEPS, MORE_STEPS = 2, 5_000
# How many words of a call a source must hold before it is looked into, and how many of its lines are tried.
MAX_WORDS, MAX_ANCHORS = 8, 2_000

_BLANKS = re.compile(r"\s+")
# Blanks in JSON, and the marks of strings: a notation may write `5` for `"5"`.
_GAPS = re.compile(r"\s+|\\[nrtf]|(?<!\\)\"")
_AROUND_SIGNS = re.compile(r"(?<!\w) | (?!\w)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[A-Za-z_]{4,}")
# What one line holds between quotation marks, and the marks between a string that ends a line and the next one.
_PART = {
    '"': regex.compile(r'(?:[^"\\\n\r]++|\\.)++', regex.S),
    "'": regex.compile(r"(?<=')(?<!\\')(?:[^'\\\n\r]++|\\.)++(?=')", regex.S),
}
_JOINT = {mark: re.compile(rf"(?<=\\n){mark}[ \t]*[,+]?\s*{mark}") for mark in _PART}
# What is escaped in a part of a string that has no mark at its ends: marks of keys, line ends beside tags.
_ESCAPED = re.compile(r"\\\"\s?[:,}]|[{:]\s?\\\"|>\\n|\\n<")
# What HTML escapes, and the beginning of a tag that it escaped.
_HTML_MARKS = str.maketrans(dict.fromkeys("<\"'", "\0"))
_ESCAPED_TAG = re.compile(r"&(?:amp;)*(?:lt|#60|#x3c);[^\s=]", re.I)
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_CONTROL = re.compile(r"((?:M-\^?.)+)|\^([@-_?])")
_LINE_END = re.compile(r"(?<!\r)\r+\n")
_BLAME = re.compile(r"\A\^?[0-9a-f]{7,40} .*?(\d+\) ?) *\Z")
_NUMBER = re.compile(r"[ \t]*\d+")
# The sign of a line of a diff, which may be numbered: directly after the number's end, or after blanks.
_SIGNS = (re.compile(r"(?:[ \t]*\d+[ \t:|]*)?([+-])"), re.compile(r"[ \t]*\d+[ \t:|]?([+-])"))
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[\w+-]*\s*")
# Prefixes of the lines of a listing: a path and a number, a number, a sign.
_PREFIX = re.compile(
    r"[ \t]*[>*]?[ \t]*(?:[^\s\"'<>{}]{1,200}[:(-])?[\[(L]?\d{1,7}(?:[:,]\d{1,7})?"
    r"(?:[-:|\])>.;#=→│\t]|[ ]{1,2})+[+-]?[ ]?"
    r"|[ \t]*(?:[+>|#%*│-]|//|--|/\*)+[ \t]?|[ ]"
)


class Copies:
    """The sources of a conversation; `made` are the calls that the assistant itself made in it, as names and arguments,
    which may be the text of a JSON object. All is looked at only when a call is found in a text.
    """

    def __init__(self, tools: ToolSet, sources: Iterable[str] = (), made: Iterable[tuple[str, Json]] = ()) -> None:
        self._sources = tuple(_Shown(source, tools) for source in sources if len(source) >= MIN_COPIED)
        self._given = tuple(made)

    def hold(self, calls: Iterable[tuple[Call, str]], text: str) -> bool:
        """Return whether a source shows one of the calls, each with its own text, or all of their `text`.

        A call that the assistant made before is no copy.
        """
        if not self._sources:
            return False
        new = [(call, own) for call, own in calls if (call.name, call.arguments) not in self._made]
        if not new:
            return False
        return self.shows(text) or any(self._holds(call) or (own != text and self.shows(own)) for call, own in new)

    def _holds(self, call: Call) -> bool:
        """Return whether a source holds a call of this name with these arguments."""
        if len(dump(call.arguments)) < MIN_COPIED:
            return False
        words = _words(" ".join(_strings(call.arguments)))
        bare = _bare(call.arguments)
        return any(source.has(words) and (call.name, bare) in source.calls for source in self._sources)

    def shows(self, text: str) -> bool:
        """Return whether a source shows a whole text."""
        lines = _LINE_END.sub("\n", text.strip()).split("\n")
        if len(lines) > 2 and _FENCE.fullmatch(lines[0]):
            # A fence around it is not part of it.
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
    """A source, with the texts that its strings and escapes hold."""

    def __init__(self, text: str, tools: ToolSet) -> None:
        self._text, self._tools = text, tools

    def has(self, words: Iterable[str]) -> bool:
        """Return whether the source has all words of a call: most have not, and are not looked into."""
        return all(word in self._text for word in words)

    def shows(self, bare: str, lines: Sequence[tuple[int, str]]) -> bool:
        """Return whether the source shows a text without its blanks, or its numbered lines after prefixes."""
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
        """The calls that the source holds in wrappers, whatever surrounds them."""
        bare = ("\n".join(line[end_of(_PREFIX, line, 0) :] for line in lines) for lines in self._lines)
        shown = dict.fromkeys((*self._texts, *bare))
        return {call for text in shown for call in _calls_in(text, self._tools)}


def _words(text: str) -> list[str]:
    """Return the longest words of a text, which no prefix and no escape changes."""
    return sorted(set(_WORD.findall(text)), key=len, reverse=True)[:MAX_WORDS]


def _strings(value: Json) -> Iterator[str]:
    """Yield the strings that are values in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _parsed(arguments: Json) -> Json:
    """Return arguments that may be given as the text of JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return load_json(arguments)
    except ValueError:
        return arguments


def _bare(value: Json) -> str:
    """Return a value without blanks and line ends: a listing may indent and wrap what it shows."""
    return _GAPS.sub("", json.dumps(value, sort_keys=True, ensure_ascii=False))


def _calls_in(text: str, tools: ToolSet) -> Iterator[tuple[str, str]]:
    """Yield the calls in wrappers that a text holds."""
    pos, failed, steps = 0, 0, MAX_STEPS * len(text) + MORE_STEPS
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
    """Return a text and those that it holds escaped: in strings, as HTML, as `cat -A` shows them."""
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
    """Yield the texts that a text holds escaped."""
    if "\\" in text:
        for mark in _PART:
            yield unescaped("\0".join(_parts_of_strings(_JOINT[mark].sub("", text), mark)))
        if '"""' in text or "'''" in text:
            # Strings of several lines.
            yield unescaped(text)
    if "&" in text:
        # Only what is escaped itself may be markup there.
        yield html.unescape(text.translate(_HTML_MARKS))
        if _ESCAPED_TAG.search(text):
            yield html.unescape(text.replace("<", "\0"))
    if "$" in text and ("^" in text or "M-" in text):
        yield _CONTROL.sub(_controlled, text)


def _parts_of_strings(text: str, mark: str) -> Iterator[str]:
    """Yield what may be parts of strings with such marks, if anything is escaped in them."""
    for found in _PART[mark].finditer(text):
        part, start, end = found.group(), found.start(), found.end()
        marked = mark in (text[start - 1 : start], text[end : end + 1])
        if "\\" in part and (marked or _ESCAPED.search(part)):
            yield part


def _controlled(found: re.Match[str]) -> str:
    """Return the characters that `cat -A` writes with `^` and `M-`."""
    if found.group(2):
        return chr(ord(found.group(2)) ^ 64)
    codes = bytes(
        (ord(each[-1]) ^ 64 if each.startswith("^") else ord(each[-1]) & 127) | 128
        for each in found.group(1).split("M-")[1:]
    )
    return codes.decode("utf-8", "replace")


def _normal(text: str) -> str:
    """Return a text without its blanks, but for one between two words, and without halves of characters."""
    return _SURROGATE.sub("\ufffd", _AROUND_SIGNS.sub("", _BLANKS.sub(" ", text)))


def _sides(text: str) -> Iterator[list[str]]:
    """Yield the lines of a text that are not blank, and of a diff those of either side."""
    lines = [line for line in text.split("\n") if line.strip()]
    yield lines
    for pattern in _SIGNS:
        signs = [found.group(1) if (found := pattern.match(line)) else "" for line in lines]
        for gone in {"+", "-"}.intersection(signs):
            yield [line for line, sign in zip(lines, signs, strict=True) if sign != gone]


def _shown_around(shown: Sequence[str], lines: Sequence[tuple[int, str]], anchor: int, at: int) -> bool:
    """Return whether the lines around the one that was found are there too."""
    places = {anchor: at}
    for order in (range(anchor - 1, -1, -1), range(anchor + 1, len(lines))):
        before = anchor
        for each in order:
            # A blank line is shown as nothing, or as its prefix alone.
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
        # One line alone tells no prefix from a text of its own.
        return False
    return len(set(prefixes)) == 1 and len({after for _, after in parts[:-1]}) == 1


def _shape(prefix: str) -> str:
    """Return what prefixes of one listing have in common: not their numbers, authors and signs."""
    blamed = _BLAME.match(prefix)
    shape = _NUMBER.sub("0", blamed.group(1) if blamed else prefix)
    shape = re.sub(r"\A[+<>!|*-](?=[ \t]|\Z)|\A[+<>!|*-](?=0)", " ", shape)
    shape = re.sub(r"(?<=0)[:-](?=0|\Z|[\w])|(?<=\w)-(?=0)", ":", shape)
    return re.sub(r"(?<=0) +[+>-]?(?=\s?\Z)", " ", shape).lstrip(" ") or " " * bool(prefix)
