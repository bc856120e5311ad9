"""The text of a call's arguments to an object, whatever a server or a model made of it (F19 to F21, F26 to F31).

Strict JSON first, then one reader after the other, each a pure function from a text to an object, or to a text that is
nearer to one and is read again. No reader makes anything up (contract C9): every string is what stood between its
marks, and a string that does not end has no reading. The last one reads by the schema, and the caller must check that
the schema accepts what comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from proxy.codec.json_text import Json, JsonObject, dump, load_json, load_prefix, read_json
from proxy.codec.literals import Also, missing_closers, printed_by_python, read_literal
from proxy.repair.shown_comments import alike, without_comments_between
from proxy.repair.unescaped_strings import read_unescaped
from proxy.tools.schema import Schema
from proxy.tools.validator import same

# Readers behind each other, and readings of one text.
MAX_READERS = 3
MAX_READINGS = 48
# What may stand before and behind the arguments (F31).
_BEFORE = re.compile(r"[^{}\[\]\"']{1,96}(?=\{)")
_MARKUP = r"<(?:/[\w:|｜-]|[\w:-])[\w:|｜-]{0,40}>|<[|｜][^<>]{1,40}[|｜]>|\[/?\w{1,40}\]|```"
_BEHIND = re.compile(rf"[^{{}}\"']{{0,3}}|\}}{{1,3}}|(?:\s*(?:{_MARKUP}))+\s*")
_MARKUP_BEHIND = re.compile(rf"(?:\s*(?:{_MARKUP}))*\s*")
_BLANKS = re.compile(r"\s*")
# A key with a bracket in front is none: `"{path": 1}`.
_MEMBER = re.compile(r'\s*"(?!\s*[{\[])(?:[^"\\]|\\.)*+"\s*:', re.DOTALL)
# A comment; as a group, what is not one: text, a string, also one that never ends, and what follows a comment that
# never ends. The text may end within an escape; without `\?` a string that goes on to there would match nothing, and
# be searched again from each of its escaped marks.
_COMMENT = re.compile(
    r"""([^"'/]++|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|/\*(?!.*?\*/).*+)"""
    r"|(?<![\w.)\]])//[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
# What goes on within an object.
_GOES_ON = (",", ":", '"', "'", "{", "}", "[", "]")
_MARKS = ('"', "'")
_KEYS = re.compile(r"""(["'])[^"'\\]*\1\s*:""")
_LAST_STRING = re.compile(r"""["'][\s\]}]*\Z""")


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints of the tool's schema on its arguments: `lists` are the keys whose value can be nothing but an array, and
    so may have lost its brackets (F14); `schema` is None where the tool is not known.
    """

    lists: Collection[str] = ()
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class ArgumentReader:
    """One way to read a text. `read` gives None, or raises ValueError, where it does not apply.

    `example` is a text that this reader is for, as arguments of `EXAMPLE_SCHEMA`. `by_schema`: only where the schema
    accepts what comes of it. `completes`: only for what the model ended by itself (contract C4, F56). `behind` are the
    only readers that may have led to the text; None for any.
    """

    id: str
    why: str
    example: str
    read: Callable[[str, Hints], Json]
    by_schema: bool = False
    completes: bool = False
    behind: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """An object, its strict JSON text, and the readers that led to it, in their order; none for strict JSON."""

    values: JsonObject
    text: str
    readers: tuple[ArgumentReader, ...]

    @property
    def by_schema(self) -> bool:
        """True if the object is to be taken only if the schema accepts it."""
        return any(reader.by_schema for reader in self.readers)

    @property
    def completed(self) -> bool:
        """True if closers were supplied."""
        return any(reader.id == "closers" for reader in self.readers)


def read_arguments(
    text: str, *, lists: Collection[str] = (), schema: Schema | None = None, stopped: bool = True
) -> Iterator[ReadArguments]:
    """The objects that the text may stand for, the surest first; none if it stands for none.

    `stopped`: the model ended by itself, so closers that are missing may be supplied. `lists` and `schema` are those of
    `Hints`.
    """
    search = _Search(tuple(reader for reader in READERS if stopped or not reader.completes), Hints(lists, schema))
    return search.readings(text, ())


class _Search:
    """Looks for readings of a text, a bounded number of them."""

    def __init__(self, readers: tuple[ArgumentReader, ...], hints: Hints) -> None:
        self._readers = readers
        self._hints = hints
        self._remaining = MAX_READINGS

    def readings(self, text: str, before: tuple[ArgumentReader, ...]) -> Iterator[ReadArguments]:
        """The objects of a text that the readers `before` have led to."""
        strict = _read(_strict, text, self._hints)
        if isinstance(strict, dict):
            yield ReadArguments(strict, text, before)
            return
        if len(before) == MAX_READERS:
            return
        for reader in self._readers:
            if not _may_follow(reader, before):
                continue
            self._remaining -= 1
            if self._remaining < 0:
                return
            value = _read(reader.read, text, self._hints)
            if isinstance(value, dict):
                yield from _read_by(value, (*before, reader))
            elif isinstance(value, str):
                yield from self.readings(value, (*before, reader))


def _may_follow(reader: ArgumentReader, before: tuple[ArgumentReader, ...]) -> bool:
    if reader in before:
        return False
    if reader.behind is None:
        return True
    return all(each.id in reader.behind for each in before)


def _read_by(values: JsonObject, readers: tuple[ArgumentReader, ...]) -> Iterator[ReadArguments]:
    """The object, unless it is nested too deeply to be written."""
    try:
        text = dump(values)
    except ValueError:
        return
    yield ReadArguments(values, text, readers)


def _read(read: Callable[[str, Hints], Json], text: str, hints: Hints) -> Json:
    try:
        return read(text, hints)
    except (ValueError, RecursionError):
        return None


def _strict(text: str, hints: Hints) -> Json:
    return read_json(text)


def _same_doubles(pairs: list[tuple[str, Json]]) -> JsonObject:
    found: JsonObject = {}
    for key, value in pairs:
        if not same(found.setdefault(key, value), value):
            raise ValueError("a key is there twice, with two values")
    return found


def _same_twice(text: str, hints: Hints) -> Json:
    found = read_json(text, _same_doubles)
    if isinstance(found, dict):
        return found
    return None


def _nothing(text: str, hints: Hints) -> Json:
    if text.strip() in ("", "null", '""'):
        return {}
    return None


def _inner(text: str, hints: Hints) -> Json:
    """The text that a JSON string holds."""
    value = load_json(text)
    if isinstance(value, str) and "{" in value:
        return value
    return None


def objects_in(text: str) -> list[str]:
    """The texts of the objects that stand behind each other in a text, of which the last may be cut off; the text
    itself if it is anything else.
    """
    found: list[str] = []
    start = 0
    while text.startswith("{", start):
        try:
            end = load_prefix(text, start)[1]
        except ValueError:
            end = len(text)
        found.append(text[start:end])
        start = _behind_blanks(text, end)
    if not found or start < len(text):
        return [text]
    return found


def _doubled(text: str, hints: Hints) -> Json:
    """The first object, if only repetitions of it follow."""
    start = _behind_blanks(text, 0)
    first, end = load_prefix(text, start)
    at = _behind_blanks(text, end)
    if not isinstance(first, dict) or at == len(text):
        return None
    while at < len(text):
        again, at = load_prefix(text, at)
        if again != first:
            return None
        at = _behind_blanks(text, at)
    return text[:end]


def _behind_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    assert blanks is not None  # it matches nothing, too
    return blanks.end()


def _opened(text: str, hints: Hints) -> Json:
    if _MEMBER.match(text) is None:
        return None
    return "{" + text


def _without_junk(text: str, hints: Hints) -> Json:
    """The object without what stands before it and behind it."""
    start = len(text) - len(text.lstrip())
    before = _BEFORE.match(text)
    if before is not None:
        start = before.end()
    if not text.startswith("{", start):
        return None
    try:
        end = load_prefix(text, start)[1]
    except ValueError:
        end = text.rfind("}") + 1
    if end <= start or not _BEHIND.fullmatch(text, end):
        return None
    return _changed(text.strip(), text[start:end])


def _literals(text: str, hints: Hints) -> Json:
    return read_literal(text, lists=hints.lists, also=printed_by_python(text))


def _without_comments(text: str, hints: Hints) -> Json:
    """The text without JavaScript's comments, which stand in no string.

    What holds a quotation mark may be a string's own: `{"code": "f("} // x")"}`.
    """
    marks = _DOUBLE_MARK
    if text.lstrip("{ \t\r\n").startswith("'"):
        marks = _ANY_MARK
    comments = (match.group() for match in _COMMENT.finditer(text) if not match.group(1))
    if any(map(marks.search, comments)):
        return None
    return _changed(text, _bare(text))


_DOUBLE_MARK = re.compile('"')
_ANY_MARK = re.compile("[\"']")


def _bare(text: str) -> str:
    return _COMMENT.sub(lambda match: match.group(1) or " ", text)


def _typographic(text: str, hints: Hints) -> Json:
    """The object with typographic quotation marks around strings; those within strings stay."""
    return read_literal(text, lists=hints.lists, also=Also.TYPOGRAPHIC)


def _changed(before: str, after: str) -> str | None:
    if after == before:
        return None
    return after


def _closed(text: str, hints: Hints) -> Json:
    closers = missing_closers(text)
    written = text.strip()
    if not closers or written.endswith((",", ":", "[")):
        return None
    if written.endswith("{") and written != "{":
        return None  # the first key of an object inside did not come
    return text + closers


def _bare_keys(text: str, hints: Hints) -> Json:
    return read_literal(text, lists=hints.lists, also=Also.BARE_KEYS)


def _without_commas(text: str, hints: Hints) -> Json:
    """The object whose commas are missing. Where its last value is a string, all between may be a part of a string."""
    if _LAST_STRING.search(text):
        return None
    return read_literal(text, lists=hints.lists, also=Also.LOST_COMMAS)


def _unescaped(text: str, hints: Hints) -> Json:
    """The object whose strings hold marks without a backslash; markup behind it is not its own."""
    end = text.rfind("}") + 1
    if hints.schema is None or not end:
        return None
    if not _MARKUP_BEHIND.fullmatch(text, end):
        return None
    found = read_unescaped(text[:end], hints.schema)
    bare = _bare(text[:end])
    if bare.endswith("}") and isinstance(_read(_literals, bare, hints), dict):
        # In `{"a": "b" // "c"⏎}` the comment may be a part of the string.
        raise ValueError("what may be a comment can be read in two ways")
    _check_comments(text[:end], found, hints.schema)
    return found


def _check_comments(text: str, found: JsonObject, schema: Schema) -> None:
    """ValueError if the object is another one without what may be comments between its members."""
    shorter = without_comments_between(text)
    if shorter != text and not alike(read_unescaped(shorter, schema), found):
        raise ValueError("what may be a comment can be read in two ways")


EXAMPLE_SCHEMA: JsonObject = {"type": "object", "properties": {"a": {}}}
READERS = (
    ArgumentReader("empty_arguments", "nothing, or null, stands for no arguments", "null", _nothing, completes=True),
    ArgumentReader(
        "duplicate_key",
        "a key is there twice, with the same value",
        '{"a": 1, "a": 1}',
        _same_twice,
        # Only as the model wrote it: in what a reader made, either of the two may be a part of a string.
        behind=frozenset(("double_encoded", "doubled", "junk")),
    ),
    ArgumentReader("double_encoded", "the object was written as a JSON string", '"{\\"a\\": 1}"', _inner),
    ArgumentReader("doubled", "the same object was sent twice", '{"a": 1}{"a": 1}', _doubled),
    ArgumentReader("opening_brace", "the opening brace was missing", '"a": 1}', _opened),
    ArgumentReader("junk", "something stood before or behind the object", 'json\n{"a": 1}</tool_call>', _without_junk),
    ArgumentReader("literals", "it was not written as JSON is", "{'a': True,}", _literals),
    ArgumentReader("bare_keys", "its keys stood without quotation marks", "{a: 'b'}", _bare_keys),
    ArgumentReader("lost_commas", "commas were missing", '{"a": 1 "b": 2}', _without_commas),
    ArgumentReader("comments", "comments stood in it", '{"a": 1 /* one */}', _without_comments),
    ArgumentReader("smart_quotes", "the quotation marks were typographic ones", "{“a”: 1}", _typographic),
    ArgumentReader("closers", "the model stopped, and only closers were missing", '{"a": [1', _closed, completes=True),
    ArgumentReader(
        "inner_quotes",
        "marks within strings had no backslash; the schema tells where the strings end",
        '{"a": "b "c" d"}',
        _unescaped,
        by_schema=True,
        completes=True,
        behind=frozenset(("double_encoded", "opening_brace")),
    ),
)


def may_go_on(text: str, behind: str) -> bool:
    """True if an object may not end where it seems to, because what stands behind it may be a part of it.

        {"command": "ls", }     and then    -l"}
        {"items": [1, 2]}       and then    , 3]}

    What cannot be a part of it: a little junk, and prose in which none of its quotation marks stands.
    """
    if is_junk(behind):
        return False
    if not behind[:1].isspace():
        return True
    if behind.lstrip().startswith(_GOES_ON):
        return True
    if behind.count('"') % 2:
        return True
    # Where all of its strings are keys, none of them goes on.
    values = _KEYS.sub("", text)
    return any(mark in values and mark in behind for mark in _MARKS)


def is_junk(text: str) -> bool:
    """True for what may stand behind the arguments and says nothing (F31): a few characters, closers, markup."""
    return bool(_BEHIND.fullmatch(text.strip()))
