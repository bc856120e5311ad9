"""Users' TOML files, edited with tomlkit: comments and layout stay."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Comment, InlineTable, Item, Key, Table

from proxy.agents.spans import NotMergeableError
from proxy.codec.json_text import Json, JsonObject


def edited(text: str, content: JsonObject) -> str:
    """Return the text with the content merged into it. Raises NotMergeableError if that is not safe."""
    has_crlf = 0 < text.count("\n") == text.count("\r\n")
    if has_crlf:
        text = text.replace("\r\n", "\n")
    try:
        document = _parsed(text)
        added = _merge(document, content)
        after = tomlkit.dumps(document)
        if added:
            after = after + _gap(after) + tomlkit.dumps(added)
    except (TOMLKitError, RecursionError) as error:
        raise NotMergeableError(f"it is TOML that cannot be edited safely: {error}") from error
    return after.replace("\n", "\r\n") if has_crlf else after


def without(text: str, path: Sequence[str]) -> str:
    """Return the text without the key at a path, which is there. Raises NotMergeableError if that is not safe."""
    try:
        document = _parsed(text)
        table: Any = document
        for key in path[:-1]:
            table = table[key]
        if isinstance(table[path[-1]], (Table, AoT)):
            raise NotMergeableError(f"{'.'.join(path)} would win over it, and is a table; remove it")
        del table[path[-1]]
        return tomlkit.dumps(document)
    except (TOMLKitError, RecursionError) as error:
        raise NotMergeableError(f"it is TOML that cannot be edited safely: {error}") from error


def _parsed(text: str) -> tomlkit.TOMLDocument:
    """Parse a text. Raises NotMergeableError where tomlkit moves tables: `[a.b]`, then `[[c]]`, then `[a.d]`."""
    document = tomlkit.parse(text)
    if tomlkit.dumps(document) != text:
        raise NotMergeableError("the order of its tables is one that cannot be edited safely")
    return document


def _merge(table: MutableMapping[str, Any], content: JsonObject) -> JsonObject:
    """Set the content's values in a table, and return the tables that it does not have yet.

    These go to the end of the file: within it tomlkit would put them between a comment and what it describes. So do
    values of a table that has no header of its own.
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
            inner = _merge(old, value)
            if inner:
                added[key] = inner
        elif old != value or isinstance(old, bool) is not isinstance(value, bool):
            table[key] = value
    # Last, as the table's own index is not valid any more then.
    for key, value in new.items():
        _insert(table, key, value)
    return added


def _insert(table: MutableMapping[str, Any], key: str, value: Json) -> None:
    """Add a key after the last one of a table, before comments that may belong to the next table."""
    container = table.value if isinstance(table, Table) else table
    if not isinstance(container, Container):
        table[key] = value
        return
    body = container.body
    at = max((index + 1 for index, entry in enumerate(body) if _is_value(*entry)), default=0)
    rest = body[at:]
    del body[at:]
    container.append(key, value)
    if rest and isinstance(rest[0][1], Comment):
        container.add(tomlkit.nl())
    body.extend(rest)


def _is_value(key: Key | None, item: Item) -> bool:
    return key is not None and (key.is_dotted() or not isinstance(item, (Table, AoT)))


def _gap(text: str) -> str:
    """Return what ends the last line, and an empty line unless there is one."""
    if not text.strip() or text.endswith("\n\n"):
        return ""
    return "\n" if text.endswith("\n") else "\n\n"
