"""Parsing is linear (contract C7): the work for four times the text is four times the work, whatever the text is.

The work is counted, not timed: every call of a function, Python's own and each time a generator goes on, and every
byte that a search, a copy or a deletion may touch. So the bound holds on a machine that is busy too.
"""

from __future__ import annotations

import cProfile
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, SupportsIndex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.formats.copied_calls import Copies
from proxy.formats.grammar import grammars
from proxy.formats.markers import END_OF_TURN, MARKERS, WRAPPER_TAGS
from proxy.formats.repeated_text import RepeatedText
from proxy.formats.scanner import Scanner
from proxy.formats.shown_lines import ShownLines
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import Cursor
from proxy.parsing.markdown import Markdown
from tests.support.helpers import call_json, function, offered

pytestmark = pytest.mark.once

# The bytes of the shorter text.
SIZE = 100
TIMES = 4
# Linear is 4; what is paid once makes it differ.
MOST = 5
# Whatever the text is, no character of it may cost more.
EACH = 1000
# A reply that is not streamed comes whole.
WHOLE = sys.maxsize
CUTS = (64, WHOLE)
# Bytes that one search may touch at most: more would take seconds.
TOO_MUCH = 4_000_000

STRINGS = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
TOOLS = offered(
    function("read", {"path": {"type": "string"}, "limit": {"type": "integer"}}, "path"),
    function("now"),
    function("search", {"options": STRINGS, "paths": {"type": "array", "items": {"type": "string"}}}),
)
MODULES = [module for name, module in sys.modules.items() if name.startswith(("proxy.formats", "proxy.parsing.cursor"))]
CODEC_AND_TOOLS = ("codec.literals", "codec.json_text", "tools.schema", "tools.validator", "tools.toolset")
MODULES += [sys.modules[f"proxy.{name}"] for name in CODEC_AND_TOOLS]


class TooMuch(Exception):
    """More work than it may be: the rest is not awaited."""


class Work:
    """The bytes that were touched so far, and those at which it is no use to go on."""

    touched = 0
    most = sys.maxsize

    @classmethod
    def add(cls, count: int) -> None:
        """Touch so many more."""
        cls.touched += count
        if cls.touched > cls.most:
            raise TooMuch


class Counted(str):
    """A text that counts what is looked at in it."""

    __slots__ = ()

    def __getitem__(self, key: SupportsIndex | slice) -> Counted:
        part = Counted(super().__getitem__(key))
        Work.add(len(part))
        return part

    def __contains__(self, other: object) -> bool:
        Work.add(len(self))
        return str(other) in str(self)

    def strip(self, chars: str | None = None, /) -> Counted:
        """Copy what is left of it."""
        Work.add(len(self))
        return Counted(super().strip(chars))


def repeats(pattern: re.Pattern[str]) -> bool:
    """Whether a match can begin with any number of characters, before one that is certain.

    Searched for, such a pattern may touch all of these from each place on.
    """
    waiting = [*_parser.parse(pattern.pattern, pattern.flags)]
    while waiting:
        kind, rest = waiting.pop(0)
        if kind is _constants.SUBPATTERN:
            waiting[:0] = rest[3]
        elif kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            least, most, _ = rest
            if most is _constants.MAXREPEAT or least:
                return most is _constants.MAXREPEAT
        elif kind not in (_constants.IN, _constants.ANY, _constants.NOT_LITERAL):
            return False
    return False


class CountedPattern:
    """A pattern of text that counts what it may touch, and does not begin with what would take hours."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._repeats = repeats(pattern)

    def _count(self, length: int) -> None:
        if self._repeats and length * length > TOO_MUCH:
            raise TooMuch(self._pattern.pattern)
        Work.add(length * length if self._repeats else length)

    def match(self, text: str, pos: int = 0) -> re.Match[str] | None:
        """Match here only."""
        found = self._pattern.match(text, pos)
        Work.add(found.end() - pos if found else 1)
        return found

    def fullmatch(self, text: str, pos: int = 0) -> re.Match[str] | None:
        """Match all from here on."""
        found = self._pattern.fullmatch(text, pos)
        Work.add(found.end() - pos if found else 1)
        return found

    def search(self, text: str, pos: int = 0) -> re.Match[str] | None:
        """Match somewhere."""
        if self._repeats:
            self._count(len(text) - pos)
        found = self._pattern.search(text, pos)
        if not self._repeats:
            self._count((found.end() if found else len(text)) - pos)
        return found

    def finditer(self, text: str, pos: int = 0) -> Iterator[re.Match[str]]:
        """Match as often as is asked for."""
        at = pos
        if self._repeats:
            self._count(len(text) - at)
        for found in self._pattern.finditer(text, pos):
            Work.add(found.end() - at)
            at = found.end()
            yield found
        Work.add(len(text) - at)

    def findall(self, text: str) -> list[Any]:
        """All that match."""
        self._count(len(text))
        return self._pattern.findall(text)

    def sub(self, replacement: Any, text: str) -> str:
        """All of it, with replacements."""
        self._count(len(text))
        return Counted(self._pattern.sub(replacement, text))


class Compiling:
    """The module `re` for those that make patterns as they go."""

    S, DOTALL, escape = re.S, re.DOTALL, staticmethod(re.escape)

    @staticmethod
    def compile(pattern: Any, flags: int = 0) -> Any:
        """A pattern that counts, if it is one of text."""
        return counted(re.compile(pattern, flags))


def counted(value: Any) -> Any:
    """The same, with each pattern of text replaced by one that counts."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        return CountedPattern(value)
    if isinstance(value, dict) and any(isinstance(each, re.Pattern) for each in value.values()):
        return {key: counted(each) for key, each in value.items()}
    return value


@pytest.fixture(scope="module", autouse=True)
def work() -> Iterator[None]:
    """Count every byte that is touched, while the tests of this module run."""
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            for name, value in vars(module).items():
                if counted(value) is not value:
                    patch.setattr(module, name, counted(value))
            if "re" in vars(module):
                patch.setattr(module, "re", Compiling)
        _count_windows(patch)
        # What repeats itself would not be parsed at all, and what is asked here is what parsing costs.
        patch.setattr(RepeatedText, "may_go_on", lambda *_: False)
        yield


def _count_windows(patch: pytest.MonkeyPatch) -> None:
    slice_of, search, first, find = TextBuffer.slice, TextBuffer.search, TextBuffer.first, TextBuffer.find
    token, complete_match, drop = TextBuffer.token, TextBuffer.complete_match, TextBuffer.drop
    text, feed = Cursor.text, Markdown.feed

    def count_slice(self: TextBuffer, start: int, end: int) -> bytes:
        copy = slice_of(self, start, end)
        Work.add(len(copy))
        return copy

    def count_search(self: TextBuffer, pattern: re.Pattern[bytes], start: int, *limit: int) -> int:
        at = search(self, pattern, start, *limit)
        Work.add(at - max(start, self.base) + 1)
        return at

    def count_first(self: TextBuffer, pattern: re.Pattern[bytes], start: int, longest: int) -> tuple[int, bytes] | None:
        found = first(self, pattern, start, longest)
        Work.add((found[0] + len(found[1]) if found else self.end) - max(start, self.base))
        return found

    def count_find(self: TextBuffer, literal: bytes, start: int) -> int:
        at = find(self, literal, start)
        Work.add((self.end if at < 0 else at + len(literal)) - max(start, self.base))
        return at

    def count_token(self: TextBuffer, pattern: re.Pattern[bytes], start: int) -> re.Match[bytes] | None:
        found = token(self, pattern, start)
        Work.add(len(found.group()) if found else 1)
        return found

    def count_complete_match(self: TextBuffer, pattern: re.Pattern[bytes], start: int, most: int) -> bytes | None:
        found = complete_match(self, pattern, start, most)
        Work.add(len(found) if found else 1)
        return found

    def count_drop(self: TextBuffer, end: int) -> None:
        Work.add(max(0, end - self.base))
        drop(self, end)

    def count_text(self: Cursor, start: int, end: int) -> str:
        return Counted(text(self, start, end))

    def count_feed(self: Markdown, data: bytes | bytearray) -> None:
        Work.add(len(data))
        feed(self, data)

    for counts in (count_slice, count_search, count_first, count_find, count_token, count_complete_match, count_drop):
        patch.setattr(TextBuffer, counts.__name__.removeprefix("count_"), counts)
    patch.setattr(Cursor, "text", count_text)
    patch.setattr(Markdown, "feed", count_feed)


def steps(text: str, cut: int, most: float) -> int:
    """The work of scanning a text that comes in pieces of this length; TooMuch if it is more than `most`."""
    scanner = Scanner(TOOLS, grammars(json_reply=False, raw_text=False))
    before = Work.touched
    Work.most = before + int(most)
    profile = cProfile.Profile()
    profile.enable()
    try:
        for at in range(0, len(text), cut):
            scanner.feed(text[at : at + cut])
        scanner.finish(stopped=True)
    finally:
        profile.disable()
        Work.most = sys.maxsize
    count = Work.touched - before + sum(entry.callcount for entry in profile.getstats())
    if count > most:
        raise TooMuch
    return count


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the fragments: they are in a value of some kind, and then it ends."""

    head: str
    tail: str

    def around(self, parts: tuple[str, ...], count: int) -> str:
        """So many parts in turn."""
        return self.head + "".join(islice(cycle(parts), count)) + self.tail


def linear(few: str, many: str, cut: int) -> bool:
    """Whether the longer text costs no more than MOST times the steps."""
    try:
        steps(many, cut, MOST * steps(few, cut, EACH * len(few)))
    except TooMuch:
        return False
    return True


def assert_linear(frame: Frame, *parts: str, cuts: tuple[int, ...] = CUTS) -> None:
    """TIMES as many fragments may cost MOST times the steps, however the text is cut.

    Where they cost more, longer texts must tell: limits of one kind or another lie between the shorter ones, and what
    is behind a limit may cost more than what is before it.
    """
    count = max(8, SIZE * len(parts) // len("".join(parts).encode()))
    texts = [frame.around(parts, count * TIMES**power) for power in range(4)]
    for cut in cuts:
        assert any(linear(few, many, cut) for few, many in pairwise(texts)), f"more than linear in pieces of {cut}"


DSML = "｜DSML｜"
M3 = "]<]minimax[>["
NOW = call_json("now")
READ = call_json("read", path="a")
NOPE = call_json("nope", a=1)
INVOKE = '<invoke name="read"><parameter name="path">a</parameter></invoke>'
OPENERS = [*WRAPPER_TAGS, *(marker.opener for marker in MARKERS)]
CLOSERS = [closer for marker in MARKERS for closer in marker.closers]
# What nothing, or much, can come of.
FRAGMENTS = [
    *("<", "<t", "<tool_cal", "<|tool_call", "<｜", "]<]", "[TOOL_CALL", "<func", "<invok", "</", "<|", "cal", "fun"),
    *("{", "[", "(", "}", "]", '"', "'", "`", "~", "```", "\\", ",", ":", ">", "{[", "[{", '{"', "[[", "[a", "[a("),
    *(" ", "\n", "\n\n", "\t", "\r\n", "\n{", "\n[", "\n```\n", "\n~~~\n", "\n    ", "\n>", "- ", "a ", "é", "🙂"),
    *('{"name": ', '{"name": "read", ', '{"name": "read", "arguments": {', '{"a": ', "\n{\n", '\n["', "\n{'", '"a", '),
    *("<function=read><parameter=path>", "</parameter>", "</function>", "\n<parameter=zz>", "<parameter=limit>"),
    *("<function=read>", "<function=zz>", '<function name="read">', "<function=read></function>", "<!--", "-->"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<arg_key>zz</arg_key>", "<tool_call>read<arg_key>"),
    *("[read(path=", "\n[read(path=", "\n[read(path='", "\n[read(path=a, ", "\n[now(), ", "[now()]", "\n[now()]\n"),
    *("call:read{", "<|tool_call>call:read{", "<|tool_call>call:read{path:", "<|tool_call>call:now{}", '<|"|>'),
    *("<|channel|>commentary to=functions.read", "<|channel|>commentary to=functions.read<|message|>{", "<|message|>"),
    *("<|start|>assistant", "<|channel|>analysis<|message|>", "<|start|>assistant to=functions.now<|message|>"),
    *(f"<{DSML}", f'<{DSML}invoke name="read">', f'<{DSML}parameter name="path">', f"</{DSML}parameter>"),
    *(f'<{DSML}invoke name="now"></{DSML}invoke>', f"<{DSML}tool_calls>\n", f"</{DSML}tool_calls>"),
    *(f'{M3}<tool_call>{M3}<invoke name="read">', f"{M3}<path>", f"{M3}</path>", f"{M3}<a>", "<invoke name=", INVOKE),
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<think>a</think>", "<|channel>thought\n", "<channel|>"),
    *("\n```json\n", f"\n```json\n{READ}\n```", f"{READ}\n", f"\n{NOW}", f"<tool_call>{NOW}</tool_call>", "analysis"),
    *(f"<tool_call>{NOW}```\n{NOW}```", f"<tools>{NOW}</tools>,", "<tool_call>now", "<tool_call>now</tool_call>"),
    *("[TOOL_CALLS]now[ARGS]{}", "[TOOL_CALLS]now", "<|tool_call_begin|>functions.now:0", ">>>now\n{}", "functools["),
    *(f"<tool_call>{NOW}", f"<tool_call>{NOW}</function>", f"<tool_call>{NOW}</tool_call><|im_end|>", "now{}"),
    *('<|open|>call tool="now"<|sep|>', "<|close|>argument<|sep|>", "<Function>read</Function>", "<![CDATA[", "]]>"),
    *("Action:", "TOOL_CALLS", "to=functions.read ", "assistantcommentary to=functions.now json{}"),
    *("now(a=1)\n", "read(path='a')\n", 'read{path: "a"}\n', "read(path=", "read{path: ", "\n```\nread(path='a')\n```"),
    *('{"tool_calls": [', '{"action": "read", "action_input": ', '{"tool_call": {', '{"read": {"path": "a"}}\n'),
    *(f"{NOPE}, ", f"{NOW}, {NOPE}, ", f"<tool_call>{NOPE}\n{NOW}\n", f"<tool_call>[{NOPE}, {NOW}]</tool_call>"),
    *("<|channel|>analysis to=functions.now <|constrain|>json<|message|>{}", '<invoke name="nope"></invoke>'),
    *(f'"<tool_call>{NOW}</tool_call>"', f"<tool_call>{NOW}</tool_call>' ", f"\n\n    <tool_call>{NOW}</tool_call>"),
    *("<code>", "</code>", "<pre>", "</pre>", '"""', "| ", "„", "“ ", "«"),
    *("[Tool call: now({})]", "<escape>", "<path>", "a,", "a)", "<|end|>", "<|im_end|>", "</s>", "</tool_call>"),
]
FRAMES = {
    "text": Frame("", "\nand so on."),
    "reply": Frame("", ""),
    "behind text": Frame("See:\n", "\nand so on."),
    "thought": Frame("<think>", "\nand so on."),
    "thought behind text": Frame("So: <think>", "</think>."),
    "code": Frame("```\n", "\n```\nand so on."),
    "string": Frame('<tool_call>{"name": "read", "arguments": {"path": "', '"}}</tool_call>'),
    "residue": Frame('<tool_call>{"name": "read", "arguments": {"path": "</parameter>', '"}}</tool_call>'),
    "array": Frame('<tool_call>{"name": "search", "arguments": {"paths": [', "]}}</tool_call>"),
    "function": Frame("<tool_call>\n<function=read>\n<parameter=path>\n", "\n</parameter>\n</function>\n</tool_call>"),
    "invoke": Frame(f'<{DSML}invoke name="read"><{DSML}parameter name="path">', f"</{DSML}parameter></{DSML}invoke>"),
    "pairs": Frame("<tool_call>read<arg_key>path</arg_key><arg_value>", "</arg_value></tool_call>"),
    "open pair": Frame("<tool_call>read<arg_key>path</arg_key><arg_value><arg_key>", "</arg_value></tool_call>"),
    "elements": Frame(
        f'{M3}<tool_call>{M3}<invoke name="search">{M3}<paths>', f"{M3}</paths>{M3}</invoke>{M3}</tool_call>"
    ),
    "python": Frame("[read(path='", "')]"),
    "bare python": Frame("[read(path=", ")]"),
    "keywords": Frame("read(path='", "')"),
    "list of keywords": Frame("read(path=[", "])"),
    "triple marks": Frame("read(path=\"\"\"", '""")'),
    "braces": Frame('read{path: "', '"}'),
    "list in braces": Frame("read{path: [", "]}"),
    "tool_calls": Frame('{"tool_calls": [', "]}"),
    "tool_calls in a fence": Frame('```json\n{"tool_calls": [', "]}"),
    "array of calls": Frame("[TOOL_CALLS][", "]"),
    "array behind one not offered": Frame(f"<tool_call>[{NOPE}, ", "]</tool_call>"),
    "array behind one and one not offered": Frame(f"<tool_call>[{NOW}, {NOPE}, ", "]</tool_call>"),
    "value not offered": Frame('<tool_call>[{"name": "nope", "arguments": {"a": "', '"}}]</tool_call>'),
    "list of Python's": Frame("<|tool_call_start|>[nope(a='", "')]<|tool_call_end|>"),
    "gemma": Frame('<|tool_call>call:read{path:<|"|>', '<|"|>}<tool_call|>'),
    "xtml": Frame(
        '<|open|>tools<|sep|><|open|>call tool="read"<|sep|><|open|>argument key="path" type="string"<|sep|>',
        "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
    ),
    "wrapper": Frame("<tool_calls>", "</tool_calls>"),
    "harmony": Frame("<|channel|>commentary to=functions.read<|message|>{", "}<|call|>"),
    "skipped": Frame("<|start|>assistant to=user<|message|>", "<|end|>"),
    "comment": Frame("<!-- ", " -->"),
    "shown": Frame('See {"a": "', '"}'),
    "quoted": Frame('It says "so ', '" there.'),
    "preformatted": Frame("<pre>", "</pre>\nand so on."),
    "indented": Frame("So:\n\n    ", "\nand so on."),
}
# What is cheap by itself and stands where it may be gone over again.
PLACED = (
    ("thought", f"<tool_call>{NOW}</tool_call>"),
    ("thought", f"<tool_call>{NOW}</tool_call>\n{NOW}\n"),
    ("function", "\n<parameter=zz>"),
    ("function", "\n<parameter=limit>"),
    ("pairs", "<arg_key>zz</arg_key>"),
    ("pairs", "<arg_key>limit</arg_key>"),
    ("function", "\n</parameter>\n</function>\n</tool_call> x"),
    ("function", "a</parameter></function></tool_call>\n"),
    ("function", "\n<parameter=limit>\n1\n</parameter>"),
    ("function", "<tool_call>\n<function=read>\n<parameter=path>\n"),
    ("function", "<tool_call>\n<function=read>\n<parameter=path>\na</parameter></function></tool_call>\n"),
    ("function", "\n<parameter=limit>\n</function>\n</tool_call>"),
    ("text", "<tool_call>\n<function=read>\n<parameter=path>\na</parameter></function></tool_call>\n"),
    ("text", "<tool_call>\n<function=read>\n<parameter=path>\na\n<parameter=limit>\nx\n</parameter>\n</tool_call>\n"),
    ("pairs", "</arg_value></tool_call> x"),
    ("pairs", "<arg_key>limit</arg_key><arg_value>"),
    ("gemma", '<|"|>}<tool_call|> x'),
    ("gemma", ',limit:<|"|>'),
    ("gemma", '<|tool_call>call:a{b:<|"|>c<|"|>'),
    ("xtml", '<|open|>argument key="limit"<|sep|>'),
    ("xtml", "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|> x"),
    ("elements", f"{M3}<options>{M3}</paths>"),
    ("elements", f"{M3}<item>a{M3}</item>"),
    ("elements", f"{M3}<item>"),
    ("invoke", f"</{DSML}parameter>"),
    ("wrapper", f"<tool_call>{NOW}</tool_call>"),
    ("array", '"</parameter>", '),
    ("text", f"{NOW}\n<tool_call>{NOW}</tool_call>\n"),
    ("quoted", f"<tool_call>{NOW}</tool_call>"),
    ("quoted", f"<tool_call>{NOW}</tool_call>\n"),
    ("quoted", f"<tool_call>{NOW}</tool_call><tool_call>"),
    ("quoted", f"<tool_call>{NOW}</tool_call> \""),
    ("preformatted", f"<tool_call>{NOW}</tool_call>\n\n"),
    ("preformatted", f"<tool_call>{NOW}</tool_call></pre><pre>"),
    ("indented", f"<tool_call>{NOW}</tool_call>\n    "),
    ("indented", f"<tool_call>{NOW}</tool_call>\n\n    x\n    "),
    ("text", f"{NOW}\n<tool_call>{NOW}\n</tool_call>{INVOKE}\n"),
)
FILLERS = (" ", "\n", " \n", "a", "é", "🙂", "\\", ">", "```\n", "[TOOL_CALLS]now")


@pytest.mark.slow
@pytest.mark.parametrize("fragment", [*dict.fromkeys([*OPENERS, *CLOSERS, *END_OF_TURN, *FRAGMENTS])], ids=repr)
def test_a_fragment_again_and_again(fragment: str) -> None:
    assert_linear(FRAMES["text"], fragment)


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("fragment", ["[TOOL_CALLS][", "<tool_call>[", '<tool_call>{"name": '])
def test_a_text_without_a_line_end_is_not_gone_over_to_its_end_from_each_opener(fragment: str, cut: int) -> None:
    text = fragment * (40_000 // len(fragment))
    assert steps(text, cut, EACH * len(text)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("filler", FILLERS, ids=repr)
def test_much_of_the_same_in_a_value(frame: str, filler: str) -> None:
    """Blanks stand at the beginning of many a pattern; a character must not be cut in its middle."""
    assert_linear(FRAMES[frame], filler)


@pytest.mark.slow
@pytest.mark.parametrize("frame, fragment", PLACED)
def test_a_fragment_in_its_place(frame: str, fragment: str) -> None:
    # What goes over a text again does so with each piece.
    assert_linear(FRAMES[frame], fragment, cuts=CUTS[: 1 + PLACED.index((frame, fragment)) % 2])


@pytest.mark.slow
@settings(max_examples=80, derandomize=True)
@given(
    st.sampled_from([*FRAMES.values()]),
    st.lists(st.sampled_from([*FRAGMENTS, *OPENERS, *CLOSERS]), min_size=1, max_size=3),
)
def test_fragments_in_turn(frame: Frame, parts: list[str]) -> None:
    assert_linear(frame, *parts)


# What results of tools hold, and what may be taken away from it.
SHOWN = [
    *("a", " ", "\n", "\r\n", "  \n", "\t|", "\\", "\\n", "\\\\", "\\u00e9", "\\ud83d", "&", "&amp;", "&lt;", "&#38;"),
    *("1:", "12 ", "\n12:", "\n 9→", "a.py:1:", "a.py:", "a-1-", "x-", "\n> ", "+", "\n+a\n-b", "\n@@ -1,2 +1,2 @@"),
    *("\n```\n", "0123456", "deadbeef ", "deadbeef (a ", "(", "\n#", "<tool_call>", READ, "é", "\udc00", "|", "- "),
    *("$\n", "^I$\n", "M-CM-)$\n", "M-", "\x1b[0m", "\x1b[", "&#10;", "\n[12] ", "\nsrc/[id]/a b.tsx:12:", "\n12) "),
    *("<tool_call>\n", "12: <tool_call>\n", "<tool_call>\n12\n", f"<tool_call>\n{READ}\n", "<tool_call>|\n|\n"),
]
SOUGHT = {
    "in a line": f"<tool_call>{call_json('read', path='a/b')}</tool_call>",
    "in lines": f"<tool_call>\n{call_json('read', path='a/b')}\n</tool_call>",
    "in lines that are equal": "<tool_call>\n" * 9 + f"{call_json('read', path='a/b')}\n</tool_call>",
}


def looking(call: str, result: str) -> int:
    """The work of looking for a call in a result of a tool that has all of its words."""
    before = Work.touched
    profile = cProfile.Profile()
    profile.enable()
    try:
        assert not Copies((f"{result}\ntool_call name read arguments path",)).hold(call)
    finally:
        profile.disable()
    return Work.touched - before + sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("fragment", SHOWN, ids=repr)
@pytest.mark.parametrize("call", SOUGHT)
def test_looking_for_a_copy_in_a_result(call: str, fragment: str) -> None:
    few, many = (looking(SOUGHT[call], fragment * (SIZE * times // len(fragment))) for times in (1, TIMES))
    assert many <= MOST * few


class Searched(Counted):
    """A text that also counts what is searched in it."""

    __slots__ = ()

    def find(self, sought: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = WHOLE, /) -> int:
        """Where this stands."""
        at = super().find(sought, start, end)
        begin = int(start or 0)
        Work.add(len(sought) + (at if at >= 0 else len(self)) - begin)
        return at

    def count(self, sought: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = WHOLE, /) -> int:
        """How often this stands there."""
        Work.add(len(self))
        return super().count(sought, start, end)


def looking_for_all(calls: list[str], result: str) -> tuple[int, int, list[bool]]:
    """The characters that are touched and the functions that are called to look for the calls of one reply, and which
    of them were found.
    """
    before = Work.touched
    profile = cProfile.Profile()
    profile.enable()
    try:
        copies = Copies((result,))
        held = [copies.hold(call) for call in calls]
    finally:
        profile.disable()
    return Work.touched - before, sum(entry.callcount for entry in profile.getstats()), held


# The calls of a reply that are looked for.
MANY = 64
CALLS = [f"<tool_call>\n{call_json('read', path=f'a/b{number}')}\n</tool_call>" for number in range(MANY)]


@pytest.mark.parametrize("line", ["{}\t<tool_call>", "{}: </tool_call>", "  <tool_call>", "<tool_call> name {}"])
def test_looking_for_all_calls_of_a_reply_in_a_result_with_many_tags(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call costs some searches in the result, and nothing for each place where one of its lines stands."""
    name = "proxy.formats.shown_texts.ShownLines"
    monkeypatch.setattr(name, lambda text, comparisons: ShownLines(Searched(text), comparisons))
    lines = [line.format(number) for number in range(4000)]
    result = "\n".join([*lines, "<tool_call>", "name read arguments path", "</tool_call>"])
    touched, called, held = looking_for_all(CALLS, result)
    assert held == [False] * MANY
    assert touched <= MANY * 16 * len(result)
    assert called <= MANY * EACH


def test_looking_for_all_calls_of_a_reply_has_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the lines of each stand in a result, in another order."""
    monkeypatch.setattr("proxy.formats.shown_lines.MOST_COMPARED", 200_000)
    result = ""
    for call in CALLS:
        first, inner, last = call.split("\n")
        result += "\n".join([first, inner, "x", last, first, "x", inner, last, ""]) * 50
    few, many = (looking_for_all(CALLS[:count], result)[1] for count in (MANY // 2, MANY))
    assert many <= few + MANY * EACH
