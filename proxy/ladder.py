"""The text of a call's arguments to an object, whatever a server or a model made of it (F19 to F21, F26 to F31).

A ladder: strict JSON first, then one rung after the other, each a pure function from a text to an object, or to a text
that is nearer to one and is climbed again. The last rung guesses, and the caller must check what comes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import json_repair

from .events import Json, JsonObject, finite
from .literals import Spelled, missing_closers, read_literal

# What `json-repair` costs grows with more than the square of the length: half a second at this one, half a minute at
# 60,000 characters (both for the worst texts that were found).
MAX_GUESSED = 4_000
# Rungs behind each other, and readings of one text.
MAX_RUNGS = 3
MAX_READINGS = 48
# What may stand before and behind the arguments (F31).
_BEFORE = re.compile(r"[^{}\[\]\"']{1,96}(?=\{)")
_MARKUP = r"</?[\w:|｜-]{1,40}>|<[|｜][^<>]{1,40}[|｜]>|\[/?\w{1,40}\]|```"
_BEHIND = re.compile(rf"[^{{}}\"']{{0,3}}|\}}{{1,3}}|(?:\s*(?:{_MARKUP}))+\s*")
_MEMBER = re.compile(r'\s*"(?:[^"\\]|\\.)*+"\s*:', re.DOTALL)
_QUOTES = str.maketrans("“”„‟", '""""')
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
    """An object, and the rungs that led to it, in their order; none for strict JSON."""

    values: JsonObject
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
            yield Climbed(strict, below)
            return
        for rung in self._rungs if len(below) < MAX_RUNGS else ():
            if rung in below or (rung.guesses and below):
                continue
            self._left -= 1
            value = _read(rung.read, text, self._lists) if self._left >= 0 else None
            if isinstance(value, dict):
                yield Climbed(value, (*below, rung))
            elif isinstance(value, str):
                yield from self.climb(value, (*below, rung))


def _read(read: Callable[[str, Collection[str]], Json], text: str, lists: Collection[str]) -> Json:
    try:
        return read(text, lists)
    except (ValueError, RecursionError):
        return None


def _strict(text: str, lists: Collection[str]) -> Json:
    return _load(text, _no_doubles)


def _load(text: str, pairs: Callable[[list[tuple[str, Json]]], JsonObject]) -> Json:
    value: Json = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse, parse_float=_spelled)
    return value


def _spelled(text: str) -> float:
    number = Spelled(finite(text))
    number.text = text
    return number


def _refuse(word: str) -> Json:
    raise ValueError(f"{word} is no JSON")


def _no_doubles(pairs: list[tuple[str, Json]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _first_of_doubles(pairs: list[tuple[str, Json]]) -> JsonObject:
    found: JsonObject = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def _first_keys(text: str, lists: Collection[str]) -> Json:
    found = _load(text, _first_of_doubles)
    return found if isinstance(found, dict) else None


def _nothing(text: str, lists: Collection[str]) -> Json:
    return {} if text.strip() in ("", "null", '""') else None


def _inner(text: str, lists: Collection[str]) -> Json:
    """The text that a JSON string holds."""
    value = json.loads(text)
    return value if isinstance(value, str) and "{" in value else None


def _first_object(text: str) -> tuple[Json, int]:
    start = len(text) - len(text.lstrip())
    value, end = _DECODER.raw_decode(text, start)
    return value, end


_DECODER = json.JSONDecoder()


def _doubled(text: str, lists: Collection[str]) -> Json:
    """The first object, if only repetitions of it follow."""
    first, end = _first_object(text)
    rest = text[end:]
    if not isinstance(first, dict) or not rest.strip():
        return None
    while rest.strip():
        again, length = _first_object(rest)
        if again != first:
            return None
        rest = rest[length:]
    return text[:end]


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


def _plain_quotes(text: str, lists: Collection[str]) -> Json:
    """The text with plain quotation marks, if all of its own are typographic."""
    return None if '"' in text or "'" in text else _changed(text, text.translate(_QUOTES))


def _changed(before: str, after: str) -> str | None:
    return after if after != before else None


def _closed(text: str, lists: Collection[str]) -> Json:
    closers = missing_closers(text)
    return text + closers if closers and text.rstrip()[-1:] not in (",", ":") else None


def _guessed(text: str, lists: Collection[str]) -> Json:
    """What `json-repair` makes of it; what may have been cut off in the middle is not guessed."""
    stripped = text.strip()
    if len(stripped) > MAX_GUESSED or stripped[:1] != "{" or stripped[-1:] != "}":
        return None
    value: Json = json_repair.loads(stripped, skip_json_loads=True)  # type: ignore[assignment]
    return value or None


RUNGS = (
    Rung("empty_arguments", "nothing, or null, stands for no arguments", "null", _nothing, completes=True),
    Rung("duplicate_key", "a key is there twice; the first value counts", '{"a": 1, "a": 2}', _first_keys),
    Rung("double_encoded", "the object was written as a JSON string", '"{\\"a\\": 1}"', _inner),
    Rung("doubled", "the same object was sent twice", '{"a": 1}{"a": 1}', _doubled),
    Rung("opening_brace", "the opening brace was missing", '"a": 1}', _opened),
    Rung("junk", "something stood before or behind the object", 'json\n{"a": 1}</tool_call>', _without_junk),
    Rung("literals", "it was not written as JSON is", "{'a': True,}", _literals),
    Rung("smart_quotes", "the quotation marks were typographic ones", "{“a”: 1}", _plain_quotes),
    Rung("closers", "the model stopped, and only closers were missing", '{"a": [1', _closed, completes=True),
    Rung("json_repair", "json-repair read it so, and the schema accepts it", '{"a": "b" c"}', _guessed, guesses=True),
)
