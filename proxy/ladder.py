"""The text of a call's arguments to an object, whatever a server or a model made of it (F19 to F21, F26 to F31).

A ladder: strict JSON first, then one rung after the other, each a pure function from a text to an object, or to a text
that is nearer to one and is climbed again. The last rung guesses, and the caller must check what comes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import SupportsIndex

import json_repair

from .events import Json, JsonObject
from .literals import dump, missing_closers, read_json, read_literal

# What is given to `json-repair`, and how often it may look at a character: so many times each, and some more.
MAX_GUESSED = 64_000
LOOKS = 4
LOOKS_MORE = 10_000
# Rungs behind each other, and readings of one text.
MAX_RUNGS = 3
MAX_READINGS = 48
# What may stand before and behind the arguments (F31).
_BEFORE = re.compile(r"[^{}\[\]\"']{1,96}(?=\{)")
_MARKUP = r"<(?:/[\w:|｜-]|[\w:-])[\w:|｜-]{0,40}>|<[|｜][^<>]{1,40}[|｜]>|\[/?\w{1,40}\]|```"
_BEHIND = re.compile(rf"[^{{}}\"']{{0,3}}|\}}{{1,3}}|(?:\s*(?:{_MARKUP}))+\s*")
_BLANKS = re.compile(r"\s*")
_MEMBER = re.compile(r'\s*"(?:[^"\\]|\\.)*+"\s*:', re.DOTALL)
# A string, also one that never ends, and what follows a comment that never ends, stay as they are.
_COMMENT = re.compile(
    r'("(?:[^"\\]|\\.)*+(?:"|\Z)|/\*(?:[^*]|\*(?!/))*+\Z)|//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/', re.DOTALL
)
_QUOTES = str.maketrans("“”„‟", '""""')
_ESCAPED = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN = re.compile(r"[\w./ -]{1,24}")
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "nan", "inf", "-inf")


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to read a text. `read` gets the text and the keys whose arrays may have lost their brackets; it gives
    None, or raises ValueError, where it does not apply.

    `example` is a text that this rung is for. `guesses`: only a schema can tell whether it is right. `completes`: only
    for what the model ended by itself (contract C4, F56).
    """

    id: str
    why: str
    example: str
    read: Callable[[str, Collection[str]], Json]
    guesses: bool = False
    completes: bool = False


@dataclass(frozen=True, slots=True)
class Climbed:
    """An object, its strict JSON text, and the rungs that led to it, in their order; none for strict JSON."""

    values: JsonObject
    text: str
    rungs: tuple[Rung, ...]

    @property
    def guessed(self) -> bool:
        """True if the object is a guess, which is to be taken only if the schema accepts it."""
        return any(rung.guesses for rung in self.rungs)


def climb(text: str, *, lists: Collection[str] = (), stopped: bool = True) -> Iterator[Climbed]:
    """The objects that the text may stand for, the surest first; none if it stands for none.

    `stopped`: the model ended by itself, so closers that are missing may be supplied. `lists` are the keys whose value
    can be nothing but an array (F14).
    """
    climber = _Climber(tuple(rung for rung in RUNGS if stopped or not rung.completes), lists)
    return climber.climb(text, ())


class _Climber:
    def __init__(self, rungs: tuple[Rung, ...], lists: Collection[str]) -> None:
        self._rungs = rungs
        self._lists = lists
        self._left = MAX_READINGS

    def climb(self, text: str, below: tuple[Rung, ...]) -> Iterator[Climbed]:
        """The objects of a text that the rungs `below` have led to."""
        strict = _read(_strict, text, ())
        if isinstance(strict, dict):
            yield Climbed(strict, text, below)
            return
        for rung in self._rungs if len(below) < MAX_RUNGS else ():
            if rung in below or (rung.guesses and below):
                continue
            self._left -= 1
            value = _read(rung.read, text, self._lists) if self._left >= 0 else None
            if isinstance(value, dict):
                yield from _climbed(value, (*below, rung))
            elif isinstance(value, str):
                yield from self.climb(value, (*below, rung))


def _climbed(values: JsonObject, rungs: tuple[Rung, ...]) -> Iterator[Climbed]:
    """The object, unless it is nested too deeply to be written."""
    try:
        text = dump(values)
    except ValueError:
        return
    yield Climbed(values, text, rungs)


def _read(read: Callable[[str, Collection[str]], Json], text: str, lists: Collection[str]) -> Json:
    try:
        return read(text, lists)
    except (ValueError, RecursionError):
        return None


def _strict(text: str, lists: Collection[str]) -> Json:
    return read_json(text)


def _first_of_doubles(pairs: list[tuple[str, Json]]) -> JsonObject:
    found: JsonObject = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def _first_keys(text: str, lists: Collection[str]) -> Json:
    found = read_json(text, _first_of_doubles)
    return found if isinstance(found, dict) else None


def _nothing(text: str, lists: Collection[str]) -> Json:
    return {} if text.strip() in ("", "null", '""') else None


def _inner(text: str, lists: Collection[str]) -> Json:
    """The text that a JSON string holds."""
    value = json.loads(text)
    return value if isinstance(value, str) and "{" in value else None


_DECODER = json.JSONDecoder()


def objects_in(text: str) -> list[str]:
    """The texts of the objects that stand behind each other in a text, of which the last may be cut off; the text
    itself if it is anything else.
    """
    found: list[str] = []
    start = 0
    while start < len(text) and text[start] == "{":
        try:
            end = _DECODER.raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            end = len(text)
        found.append(text[start:end])
        start = _behind_blanks(text, end)
    return found if start == len(text) and found else [text]


def _doubled(text: str, lists: Collection[str]) -> Json:
    """The first object, if only repetitions of it follow."""
    start = _behind_blanks(text, 0)
    first, end = _DECODER.raw_decode(text, start)
    at = _behind_blanks(text, end)
    if not isinstance(first, dict) or at == len(text):
        return None
    while at < len(text):
        again, at = _DECODER.raw_decode(text, at)
        if again != first:
            return None
        at = _behind_blanks(text, at)
    return text[:end]


def _behind_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _opened(text: str, lists: Collection[str]) -> Json:
    return "{" + text if _MEMBER.match(text) else None


def _without_junk(text: str, lists: Collection[str]) -> Json:
    """The object without what stands before it and behind it."""
    before = _BEFORE.match(text)
    start = before.end() if before else len(text) - len(text.lstrip())
    if text[start : start + 1] != "{":
        return None
    try:
        end = _DECODER.raw_decode(text, start)[1]
    except ValueError:
        end = text.rfind("}") + 1
    if end <= start or not _BEHIND.fullmatch(text, end):
        return None
    return text[start:end] if end - start < len(text.strip()) else None


def _literals(text: str, lists: Collection[str]) -> Json:
    return read_literal(text, lists=lists, words=_NO_NUMBERS)


def _without_comments(text: str, lists: Collection[str]) -> Json:
    """The text without JavaScript's comments, which stand in no string."""
    return _changed(text, _COMMENT.sub(lambda found: found.group(1) or " ", text))


def _plain_quotes(text: str, lists: Collection[str]) -> Json:
    """The text with plain quotation marks, if all of its own are typographic."""
    return None if '"' in text or "'" in text else _changed(text, text.translate(_QUOTES))


def _changed(before: str, after: str) -> str | None:
    return after if after != before else None


def _closed(text: str, lists: Collection[str]) -> Json:
    closers = missing_closers(text)
    return text + closers if closers and text.rstrip()[-1:] not in (",", ":") else None


class _Spent(ValueError):
    """`json-repair` has looked at more characters than it may."""


class _Metered(str):
    """A text that can be looked at only so often: at worst, `json-repair` needs a time that grows with the cube of the
    length.
    """

    left: int

    def __getitem__(self, at: SupportsIndex | slice) -> str:
        self.left -= 1
        if self.left < 0:
            raise _Spent
        return str.__getitem__(self, at)


def _guessed(text: str, lists: Collection[str]) -> Json:
    """What `json-repair` makes of it, which supplies closers too; nothing of what was cut off in the middle."""
    metered = _Metered(text.strip())
    if len(metered) > MAX_GUESSED or not (metered.startswith("{") and metered.endswith("}")):
        return None
    metered.left = LOOKS * len(metered) + LOOKS_MORE
    value: Json = json_repair.loads(metered, skip_json_loads=True)  # type: ignore[assignment]
    # It reads 1e400 as infinity, which is no JSON, and makes up what is missing.
    return _strict(json.dumps(value, allow_nan=False), ()) if value and _is_said(value, text) else None


def _is_said(value: Json, text: str) -> bool:
    """True if nothing was made up and nothing left out: the text has each string in quotation marks, as many empty
    values as there are, and the same number of letters and digits.
    """
    leaves = list(_leaves(value))
    if _letters(json.dumps(value, ensure_ascii=False)) != _letters(text):
        return False
    empty = sum(leaf in (None, "") for leaf in leaves)
    if empty > sum(text.count(word) for word in ('""', "''", "null", "None")):
        return False
    return all(_is_quoted(leaf, text) for leaf in leaves if isinstance(leaf, str))


def _leaves(value: Json) -> Iterator[Json]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
        else:
            yield each


def _letters(text: str) -> int:
    """The number of letters and digits, without those of escapes."""
    return sum(map(str.isalnum, _ESCAPED.sub("", text)))


def _is_quoted(leaf: str, text: str) -> bool:
    begins = _PLAIN.match(leaf)
    start = begins.group() if begins else ""
    return not start or any(f"{mark}{start}" in text for mark in "\"'“‘`")


RUNGS = (
    Rung("empty_arguments", "nothing, or null, stands for no arguments", "null", _nothing, completes=True),
    Rung("duplicate_key", "a key is there twice; the first value counts", '{"a": 1, "a": 2}', _first_keys),
    Rung("double_encoded", "the object was written as a JSON string", '"{\\"a\\": 1}"', _inner),
    Rung("doubled", "the same object was sent twice", '{"a": 1}{"a": 1}', _doubled),
    Rung("opening_brace", "the opening brace was missing", '"a": 1}', _opened),
    Rung("junk", "something stood before or behind the object", 'json\n{"a": 1}</tool_call>', _without_junk),
    Rung("literals", "it was not written as JSON is", "{'a': True,}", _literals),
    Rung("comments", "comments stood in it", '{"a": 1 /* one */}', _without_comments),
    Rung("smart_quotes", "the quotation marks were typographic ones", "{“a”: 1}", _plain_quotes),
    Rung("closers", "the model stopped, and only closers were missing", '{"a": [1', _closed, completes=True),
    Rung(
        "json_repair",
        "json-repair read it so, and the schema accepts it",
        '{"a": "b" c"}',
        _guessed,
        guesses=True,
        completes=True,
    ),
)


def is_junk(text: str) -> bool:
    """True for what may stand behind the arguments and says nothing (F31): a few characters, closers, markup."""
    return bool(_BEHIND.fullmatch(text.strip()))
