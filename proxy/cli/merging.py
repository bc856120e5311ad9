"""Merging a configuration into a user's file. The rest of the file stays, comments included.

The text is edited in place and read again. A result that differs from the expected content is an error, so no file is
damaged.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Comment, InlineTable, Item, Key, Table

from proxy.cli import jsonc
from proxy.cli.configuration import PROVIDER, File, Format
from proxy.cli.jsonc import NotMergeableError
from proxy.codec.json_text import Json, JsonObject

__all__ = ["NotMergeableError", "expected", "in_the_way", "merged", "other_models", "read"]


def merged(text: str, file: File) -> str:
    """Return the text of a file with its content merged in. A text that has it already is returned unchanged.

    Raises NotMergeableError if that is not safe.
    """
    if file.own:
        return jsonc.dumps(file.content)
    for path in in_the_way(text, file):
        pruned = read(text, file.format)
        _remove(pruned, path)
        text = jsonc.without(text, path) if file.format is Format.JSON else _toml_without(text, path)
        if not _says(text, file.format, pruned):
            raise NotMergeableError(f"{'.'.join(path)} would override it, and cannot be removed safely")
    before = read(text, file.format)
    wanted = expected(before, file.content)
    if repr(wanted) == repr(before) and text.strip():  # 1 == True
        return text
    edit = jsonc.edited if file.format is Format.JSON else _toml_edited
    after = edit(text, file.content)
    if not _says(after, file.format, wanted):
        raise NotMergeableError("its form cannot be edited safely")
    return after


def _remove(content: Any, path: Sequence[str]) -> None:
    for key in path[:-1]:
        content = content[key]
    if isinstance(content[path[-1]], (Table, AoT)):
        raise NotMergeableError(f"{'.'.join(path)} would override it, and is a table; remove it")
    del content[path[-1]]


def _says(text: str, format: Format, wanted: JsonObject) -> bool:
    try:
        return read(text, format) == wanted
    except NotMergeableError:
        return False


def in_the_way(text: str, file: File) -> list[tuple[str, ...]]:
    """Return the paths of the keys in a text that would override the file's content. Raises NotMergeableError."""
    content = {} if file.own else read(text, file.format)
    return [path for path in file.without if any(True for _ in _found(content, path))]


def other_models(text: str, file: File) -> list[tuple[str, ...]]:
    """Return the paths of the models that a text has for parts of the agent, except the proxy's models.

    Raises NotMergeableError.
    """
    content = read(text, file.format) if file.rivals else {}
    paths = []
    for rival in file.rivals:
        for path, value in _found(content, rival):
            name = value.get("primary") if isinstance(value, dict) else value
            if isinstance(name, str) and name and not name.startswith(f"{PROVIDER}/"):
                paths.append(path)
    return paths


def _found(content: Json, path: tuple[str, ...], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield the values at a path, in which `*` is any key or item, each with its own path."""
    if not path:
        yield at, content
        return
    items: dict[str, Json] = {}
    if isinstance(content, dict):
        items = content
    elif isinstance(content, list):
        items = {str(index): item for index, item in enumerate(content)}
    for name, value in items.items():
        if path[0] in ("*", name):
            yield from _found(value, path[1:], (*at, name))


def read(text: str, format: Format) -> JsonObject:
    """Return the content of a text; an empty text has none. Raises NotMergeableError."""
    if not text.strip():
        return {}
    try:
        value: Json = jsonc.loads(text) if format is Format.JSON else tomllib.loads(text)
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
    has_crlf = 0 < text.count("\n") == text.count("\r\n")
    if has_crlf:
        text = text.replace("\r\n", "\n")
    try:
        document = _toml_parsed(text)
        added = _toml_merge(document, content)
        after = tomlkit.dumps(document)
        if added:
            if after.strip() and not after.endswith("\n\n"):
                after += "\n" if after.endswith("\n") else "\n\n"
            after += tomlkit.dumps(added)
    except (TOMLKitError, RecursionError) as error:
        raise NotMergeableError(f"it is TOML that cannot be edited safely: {error}") from error
    return after.replace("\n", "\r\n") if has_crlf else after


def _toml_without(text: str, path: Sequence[str]) -> str:
    try:
        document = _toml_parsed(text)
        _remove(document, path)
        return tomlkit.dumps(document)
    except (TOMLKitError, RecursionError) as error:
        raise NotMergeableError(f"it is TOML that cannot be edited safely: {error}") from error


def _toml_parsed(text: str) -> tomlkit.TOMLDocument:
    """Parse a text. Raises NotMergeableError if tomlkit would move tables: `[a.b]`, then `[[c]]`, then `[a.d]`."""
    document = tomlkit.parse(text)
    if tomlkit.dumps(document) != text:
        raise NotMergeableError("the order of its tables cannot be edited safely")
    return document


def _toml_merge(table: MutableMapping[str, Any], content: JsonObject) -> JsonObject:
    """Set the content's values in a table, and return the tables that it lacks.

    These are added at the end of the file: within it, tomlkit would put them between a comment and what it describes.
    The same applies to values of a table without a header.
    """
    added: JsonObject = {}
    new: JsonObject = {}
    has_header = not (isinstance(table, Table) and table.is_super_table())
    for key, value in content.items():
        old = table.get(key)
        if old is None:
            is_table = isinstance(value, dict) and not isinstance(table, InlineTable)
            (added if is_table or not has_header else new)[key] = value
        elif isinstance(value, dict):
            if not isinstance(old, MutableMapping):
                raise NotMergeableError(f"{key} is not a table")
            inner = _toml_merge(old, value)
            if inner:
                added[key] = inner
        elif old != value or isinstance(old, bool) is not isinstance(value, bool):
            table[key] = value
    # Last, because it invalidates the table's index.
    for key, value in new.items():
        _toml_insert(table, key, value)
    return added


def _toml_insert(table: MutableMapping[str, Any], key: str, value: Json) -> None:
    """Add a key after the last one of a table, before comments that may belong to the next table."""
    container = table.value if isinstance(table, Table) else table
    if not isinstance(container, Container):
        table[key] = value
        return

    def is_value(key: Key | None, item: Item) -> bool:
        return key is not None and (key.is_dotted() or not isinstance(item, (Table, AoT)))

    body = container.body
    at = max((index + 1 for index, entry in enumerate(body) if is_value(*entry)), default=0)
    rest = body[at:]
    del body[at:]
    container.append(key, value)
    if rest and isinstance(rest[0][1], Comment):
        container.add(tomlkit.nl())
    body.extend(rest)
