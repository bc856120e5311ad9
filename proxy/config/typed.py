"""YAML nodes as msgspec structs: their annotations say what is allowed, and so what an error says.

The `title` of an annotation's `Meta` is what an error says is needed. Its `extra` may hold a `check`, a function that
returns the value to use or raises ValueError, and say that a value is `secret`. A struct's `__post_init__` raises
ValueError with the key and the problem.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, structs
from yaml.nodes import Node, ScalarNode

from proxy.config.yaml_nodes import entries, is_null, items, json_value, nearest, node_error, place_of, scalar, shown
from proxy.errors import RulesError

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", tuple: "a list"}
# Up to this number of words, all are listed; otherwise those that are like the wrong one.
_FEW = 8


def whole(low: int, high: int) -> Meta:
    """A whole number between the two, or one of them."""
    return Meta(ge=low, le=high, title=f"a whole number from {low} to {high}")


def checked(check: Callable[[Any], Any], title: str) -> Meta:
    """A value that a function takes."""
    return Meta(title=title, extra={"check": check})


def read(node: Node, kind: Any, what: str, *, secret: bool = False) -> Any:
    """Return a node as a value of this type. Null is an empty struct, mapping or list, and refused for other types.

    `what` says in words what the node is; no value is shown if it may be `secret`. Raises RulesError.
    """
    bare = _parts(kind)[0][0]
    if bare is Any:
        return json_value(node, what)
    if isinstance(bare, type) and issubclass(bare, Struct):
        return _read_struct(node, bare, what, secret)
    where = f"{place_of(node)}: {what}"
    if get_origin(bare) is dict:
        key_kind, inner = get_args(bare)
        values = {}
        for name, key, child in entries(node, what):
            usable(name, key_kind, f"{place_of(key)}: a key of {what}", secret=secret)
            values[name] = read(child, inner, f"{shown(name)} of {what}", secret=secret)
        return values
    if get_origin(bare) is tuple:
        inner = get_args(bare)[0]
        found = tuple(read(item, inner, f"an item of {what}", secret=secret) for item in items(node, what))
        return usable(found, kind, where, secret=secret)
    if not isinstance(node, ScalarNode) or is_null(node):
        raise RulesError(f"{where} must be {_needed(kind, '')}; write one")
    # Text is taken as it is spelled: a name of digits only is a name, too.
    is_text = bare is str or get_origin(bare) is Literal
    return usable(node.value if is_text else scalar(node), kind, where, secret=secret)


def usable(value: Any, kind: Any, where: str, *, secret: bool = False) -> Any:
    """Return the form of a value that is used. Raises RulesError: `where` it was written, and what is allowed."""
    extra = {name: each for meta in _parts(kind)[1] for name, each in (meta.extra or {}).items()}
    try:
        value = msgspec.convert(value, kind)
        return extra["check"](value) if "check" in extra else value
    except msgspec.ValidationError:
        needed = _needed(kind, value)
    except ValueError as error:
        needed = str(error) or _needed(kind, value)
    # A URL with a password in it, or a key where its file should be, must not get into a log.
    what = "this value" if secret or "secret" in extra or "@" in str(value) else shown(value)
    raise RulesError(f"{where}: {what} cannot be used; it must be {needed}")


def _read_struct(node: Node, kind: type[Struct], what: str, secret: bool) -> Struct:
    known = {field.encode_name: field for field in structs.fields(kind)}
    values: dict[str, Any] = {}
    places: dict[str, Node] = {}
    for name, key, child in entries(node, what):
        if name not in known:
            words = "an unknown key" if secret else f"no {shown(name)}"
            raise node_error(key, f"there is {words} in {what}; use {nearest(name, known)}")
        places[name] = child
        values[known[name].name] = read(child, known[name].type, f"{name} of {what}", secret=secret)
    for name, field in known.items():
        if field.required and name not in places:
            raise node_error(node, f"{what} has no {name}; add it ({_needed(field.type, '')})")
    try:
        return kind(**values)
    except ValueError as error:  # of __post_init__: the key, and what is wrong
        name, problem = error.args
        raise node_error(places.get(name, node), f"{name} of {what}: {problem}" if name else problem) from None


def _parts(kind: Any) -> tuple[list[Any], list[Meta]]:
    """Return the types of a union without None, and the annotations of all of them."""
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        bares, more = _parts(inner)
        return bares, [*metas, *more]
    if get_origin(kind) not in (Union, UnionType):
        return [kind], []
    parts = [_parts(each) for each in get_args(kind) if each is not type(None)]
    return [bare for bares, _ in parts for bare in bares], [meta for _, metas in parts for meta in metas]


def _needed(kind: Any, value: object) -> str:
    """Say in words what a type allows; of many words, those that are like `value`."""
    bares, metas = _parts(kind)
    title = next((meta.title for meta in metas if meta.title), "")
    words = [str(word) for bare in bares if get_origin(bare) is Literal for word in get_args(bare)]
    if len(words) > _FEW:
        words = difflib.get_close_matches(str(value), words, 3) or ([] if title else words)
    if not words:
        return title or _WORDS[get_origin(bares[0]) or bares[0]]
    return " or ".join(", ".join(word if word.isprintable() else repr(word) for word in words).rsplit(", ", 1))
