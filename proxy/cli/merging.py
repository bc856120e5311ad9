"""Merging a configuration into a user's file. The rest of the file stays, comments included.

The text is edited in place and read again. A result that differs from the expected content is an error, so no file is
damaged. JSON may have comments and trailing commas (JSONC).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from proxy.cli.configuration import PROVIDER, File, Format
from proxy.json import Json, JsonObject, as_object, as_text, unique

_STRING = r'"(?:[^"\\]|\\.)*+"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*[\s\S]*?\*/")
# A comma without a value before it is kept, so that parsing fails.
_TRAILING = re.compile(rf"({_STRING}|[\[{{,]\s*,)|,(?=\s*[}}\]])")
_SIGN = re.compile(r"\S")
_BLANK = " \t\r\n"


class NotMergeableError(Exception):
    """A file cannot be merged safely. The message says why, and is shown after the file's name."""


def merged(text: str, file: File) -> str:
    """Return the text of a file with its content merged in, or unchanged if it has that content.

    Raises NotMergeableError if merging is not safe.
    """
    if file.own:
        return _json_dumps(file.content)
    before = read(text, file.format)
    wanted = expected(before, file.content)
    if repr(wanted) == repr(before) and text.strip():  # 1 == True
        return text
    edit = _json_edited if file.format is Format.JSON else _toml_edited
    after = edit(text, file.content)
    if read(after, file.format) != wanted:
        raise NotMergeableError("its form cannot be edited safely")
    return after


def own_models(text: str, file: File) -> list[str]:
    """Return the user's agents in the text of a file that do not use the proxy's models. Raises NotMergeableError."""
    if not file.agents:
        return []
    agents = read(text, file.format)
    for key in file.agents:
        agents = as_object(agents.get(key))
    found = []
    for name, agent in agents.items():
        model = as_object(agent).get("model")
        used = as_text(model) or as_text(as_object(model).get("primary"))
        if used and not used.startswith(f"{PROVIDER}/"):
            found.append(name)
    return found


def read(text: str, format: Format) -> JsonObject:
    """Return the content of a text, which is {} for an empty text. Raises NotMergeableError."""
    if not text.strip():
        return {}
    try:
        if format is Format.JSON:
            strict = _blanked(_blanked(text.removeprefix("\ufeff"), _COMMENT), _TRAILING)
            value: Json = _DECODER.decode(strict)
        else:
            value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message = " ".join(str(error).split())[:120]
        raise NotMergeableError(f"it is not valid {format.value}: {message}") from error
    if not isinstance(value, dict):
        raise NotMergeableError(f"it is {format.value}, but not an object")
    return value


def expected(before: JsonObject, content: JsonObject) -> JsonObject:
    """Return `before` with the content merged in: objects are merged, all else is replaced."""
    after = dict(before)
    for key, value in content.items():
        old = before.get(key)
        after[key] = expected(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return after


def _toml_edited(text: str, content: JsonObject) -> str:
    """Return the text of a TOML file with the content merged in.

    Values are changed in their places. Missing values go to the start of the file and missing tables to its end,
    because tomlkit would separate a comment from the table after it.
    """
    has_crlf = 0 < text.count("\n") == text.count("\r\n")
    if has_crlf:
        text = text.replace("\r\n", "\n")
    try:
        document = tomlkit.parse(text)
        # tomlkit moves tables such as `[a.b]`, then `[[c]]`, then `[a.d]`.
        if tomlkit.dumps(document) != text:
            raise NotMergeableError("the order of its tables cannot be edited safely")
        first = {key: value for key, value in content.items() if key not in document and not isinstance(value, dict)}
        last = _toml_merge(document, {key: value for key, value in content.items() if key not in first})
        after = "\n".join(filter(None, map(tomlkit.dumps, (first, document, last))))
    except (TOMLKitError, RecursionError) as error:
        raise NotMergeableError(f"it is TOML that cannot be edited safely: {error}") from error
    return after.replace("\n", "\r\n") if has_crlf else after


def _toml_merge(table: MutableMapping[str, Any], content: JsonObject) -> JsonObject:
    """Set the content's values in a table, and return the tables that it lacks."""
    missing: JsonObject = {}
    for key, value in content.items():
        old = table.get(key)
        if isinstance(value, dict) and isinstance(old, MutableMapping):
            if inner := _toml_merge(old, value):
                missing[key] = inner
        elif isinstance(value, dict) and old is not None:
            raise NotMergeableError(f"{key} is not a table")
        elif isinstance(value, dict) and not isinstance(table, InlineTable):
            missing[key] = value
        elif old != value or isinstance(old, bool) is not isinstance(value, bool):
            table[key] = value
    return missing


class _Member(NamedTuple):
    """A member of an object: the place of its key, its value, and the value's place."""

    key: int
    value: Json
    start: int
    end: int


_DECODER = json.JSONDecoder(object_pairs_hook=unique)


def _json_dumps(content: JsonObject) -> str:
    """Return the text of a new file."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _json_edited(text: str, content: JsonObject) -> str:
    """Return the text of a JSON object with the content merged in; the rest of the text is unchanged."""
    if not text.strip():
        return _json_dumps(content)
    document = _Document(text)
    for start, end, new in sorted(document.merging(document.root, content), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _blanked(text: str, pattern: re.Pattern[str]) -> str:
    """Return the text with the pattern's matches outside strings replaced by blanks."""
    return pattern.sub(lambda found: found[1] or " " * len(found[0]), text)


class _Document:
    """A valid text, and where its objects have their members. `root` is the place of the outermost object."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Strict JSON of the same length, so that places are the same in both texts.
        self._strict = _blanked(_blanked(text.removeprefix("\ufeff").rjust(len(text)), _COMMENT), _TRAILING)
        self.root = self._after_blanks(0)

    def _after_blanks(self, at: int) -> int:
        found = _SIGN.search(self._strict, at)
        return found.start() if found else len(self._strict)

    def members(self, at: int) -> dict[str, _Member]:
        """Return the members of the object at a place, by their keys."""
        members: dict[str, _Member] = {}
        while self._strict[at] != "}":
            key = self._after_blanks(at + 1)
            if self._strict[key] == "}":  # an empty object
                break
            name, end = _DECODER.raw_decode(self._strict, key)
            start = self._after_blanks(self._after_blanks(end) + 1)
            value, end = _DECODER.raw_decode(self._strict, start)
            members[name] = _Member(key, value, start, end)
            at = self._after_blanks(end)
        return members

    def line_start(self, at: int) -> str:
        """Return the part of the line before a place."""
        return self._text[self._text.rfind("\n", 0, at) + 1 : at]

    def merging(self, at: int, content: JsonObject, unit: str = "") -> Iterator[tuple[int, int, str]]:
        """Yield the edits that merge the content into the object at a place.

        `unit` is the indentation of one level in the outermost object.
        """
        members = self.members(at)
        starts = [self.line_start(member.key) for member in members.values()]
        indents = [start for start in starts if not start.strip(_BLANK)]
        unit = unit or next(filter(None, indents), "  ")
        line = self.line_start(at)
        indent = indents[0] if indents else line[: len(line) - len(line.lstrip(_BLANK))] + unit
        newline = "\r\n" if "\r\n" in self._text else "\n"

        def dumped(value: Json) -> str:
            return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)

        added = []
        for key, value in content.items():
            member = members.get(key)
            if member is None:
                added.append(f"{indent}{json.dumps(key, ensure_ascii=False)}: {dumped(value)}")
            elif isinstance(value, dict) and isinstance(member.value, dict):
                yield from self.merging(member.start, value, unit)
            elif repr(member.value) != repr(value):  # 1 == True
                yield member.start, member.end, dumped(value)
        if not added:
            return
        # New members precede the others, so that a comma and the comments after the last member stay.
        new = newline + f",{newline}".join(added) + ("," if members else "")
        if self._text[at + 1 :].lstrip(" \t")[:1] not in "\r\n":
            new += newline + (indent if members else indent.removesuffix(unit))
        yield at + 1, at + 1, new
