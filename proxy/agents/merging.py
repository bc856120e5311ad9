"""Merging an agent's settings into a file: all else in it stays, comments too.

The text itself is edited, at the places that change. What came out is read again and held against what must come out
(`expected`): a file in which that is not so, or that cannot be read, is never written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator

from proxy.agents import jsonc_text, toml_text
from proxy.agents.configuration import PROVIDER, File, Format
from proxy.agents.spans import NotMergeableError
from proxy.codec.json_text import Json, JsonObject

_ANY = "*"


def merged(text: str, file: File) -> str:
    """The file's text with what it must say, `text` being what it says now, or empty; the very same if that is so.

    Raises NotMergeableError where it is not safe.
    """
    if file.own:
        return jsonc_text.written(file.content)
    text = _cleared(text, file)
    before = read(text, file.format)
    wanted = expected(before, file.content)
    if repr(wanted) == repr(before) and text.strip():  # for 1 == True
        return text
    after = _edited(text, file)
    if not _says(after, file.format, wanted):
        raise NotMergeableError("its form is one that cannot be edited safely")
    return after


def _says(text: str, format: Format, wanted: JsonObject) -> bool:
    try:
        return read(text, format) == wanted
    except NotMergeableError:
        return False


def in_the_way(text: str, file: File) -> list[tuple[str, ...]]:
    """The keys that would win over what the file must say, and are there, by their paths. Raises NotMergeableError."""
    if file.own:
        return []
    content = read(text, file.format)
    return [path for path in file.without if _has(content, path)]


def other_models(text: str, file: File) -> list[tuple[str, ...]]:
    """The models that the file says for a part of the agent, by their paths, but for those of the proxy. Raises
    NotMergeableError.
    """
    content = read(text, file.format) if file.rivals else {}
    return [at for path in file.rivals for at, value in _found(content, path) if not _is_ours(value)]


def _found(content: Json, path: tuple[str, ...], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The values at a path, each with its own."""
    if not path:
        yield at, content
        return
    key, *inner = path
    for name, value in _members(content):
        if key in (_ANY, name):
            yield from _found(value, tuple(inner), (*at, name))


def _members(content: Json) -> Iterable[tuple[str, Json]]:
    if isinstance(content, dict):
        return content.items()
    if isinstance(content, list):
        return [(str(index), item) for index, item in enumerate(content)]
    return ()


def _is_ours(model: Json) -> bool:
    """True for a model of the proxy's provider, and for what says none."""
    name = model.get("primary") if isinstance(model, dict) else model
    return not isinstance(name, str) or not name or name.startswith(f"{PROVIDER}/")


def _has(content: Json, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


def _cleared(text: str, file: File) -> str:
    """The text without what is in the way."""
    for path in in_the_way(text, file):
        pruned = _pruned(read(text, file.format), path)
        text = _without(text, path, file.format)
        if not _says(text, file.format, pruned):
            raise NotMergeableError(f"{dotted(path)} would win over it, and cannot be taken out safely")
    return text


def _pruned(content: Json, path: tuple[str, ...]) -> JsonObject:
    """The content without the value of a path, which is there."""
    assert isinstance(content, dict)
    key, *inner = path
    if inner:
        return {**content, key: _pruned(content[key], tuple(inner))}
    return {name: value for name, value in content.items() if name != key}


def dotted(path: tuple[str, ...]) -> str:
    """A path of keys for people."""
    return ".".join(path)


def _without(text: str, path: tuple[str, ...], format: Format) -> str:
    match format:
        case Format.JSON:
            return jsonc_text.without(text, path)
        case Format.TOML:
            return toml_text.without(text, path)


def read(text: str, format: Format) -> JsonObject:
    """The mapping that a text holds; an empty one if the text is empty. Raises NotMergeableError."""
    try:
        value = _parsed(text, format)
    except (ValueError, RecursionError) as error:
        raise NotMergeableError(f"it is no {format.value} that can be read: {_first_line(error)}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotMergeableError(f"it is {format.value}, but no mapping")
    return value


def _parsed(text: str, format: Format) -> Json:
    if not text.strip():
        return None
    match format:
        case Format.JSON:
            return jsonc_text.parse(text).value
        case Format.TOML:
            return tomllib.loads(text)


def _edited(text: str, file: File) -> str:
    match file.format:
        case Format.JSON:
            return jsonc_text.edited(text, file.content)
        case Format.TOML:
            return toml_text.edited(text, file.content)


def expected(before: JsonObject, content: JsonObject) -> JsonObject:
    """The content of a file that says `before` now, once it is merged: mappings are merged, all else is replaced."""
    after = dict(before)
    for key, value in content.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            after[key] = expected(old, value)
        else:
            after[key] = value
    return after


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
