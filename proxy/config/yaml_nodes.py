"""A strict YAML subset: bytes to nodes with line numbers, or one `RulesError` (`SOURCE:LINE: problem; remedy`).

Aliases, anchors, tags, duplicate keys, and files beyond the limits below are rejected. Plain words are text, except
`true`, `false`, `null`, `~` and numbers.

`read` converts nodes to msgspec structs, as their annotations say. The `title` of an annotation's `Meta` is the text of
an error that names what is needed. Its `extra` may hold a `check`, a function that returns the value to use or raises
ValueError, and may mark a value as `secret`. A struct's `__post_init__` raises ValueError with the key and the problem.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import yaml
from msgspec import Meta, Struct, structs
from yaml.composer import ComposerError
from yaml.error import MarkedYAMLError
from yaml.events import AliasEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from proxy.display import cut
from proxy.errors import RulesError
from proxy.json import Json

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_NODES = 30_000
MAX_VALUE = 16_384

_TAG = "tag:yaml.org,2002:"
# YAML reads a plain * as an alias.
_UNQUOTED = 'a glob that starts with * needs quotes; write it as "*..."'
TRUTH = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
NULL = re.compile(r"(?:null|Null|NULL|~|)\Z")
INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
NUMBER = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][-+]?[0-9]{1,3})?\Z")
_EXPONENT = re.compile(r"[-+]?[1-9][0-9]*(?:\.[0-9]*)?[eE][-+]?[0-9]{1,2}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", tuple: "a list"}
# Up to this number of allowed words, an error lists all of them; otherwise those that are similar to the wrong one.
_FEW = 8


class _Loader(yaml.SafeLoader):
    """Loader that only composes nodes.

    YAML 1.1 reads `no` as false, 1:30 as 90 and 2026-01-01 as a date. Here they are text.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute, looked up by the scalar's first character
        **{first: [(f"{_TAG}int", INTEGER), (f"{_TAG}float", NUMBER)] for first in "-+0123456789"},
        **{first: [(f"{_TAG}bool", TRUTH)] for first in "tTfF"},
        **{first: [(f"{_TAG}null", NULL)] for first in ("n", "N", "~", "")},
    }

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self.name = source  # shown in every mark, and so in every error
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        self.depth += 1
        self.nodes += 1
        refusals = {
            _UNQUOTED: isinstance(event, AliasEvent),
            "anchors are not supported; write the value out": getattr(event, "anchor", None),
            "tags are not supported; remove the '!' word": getattr(event, "tag", None),
            "half a character, as an escape; write the character itself": _SURROGATE.search(
                getattr(event, "value", "")
            ),
            f"nested over {MAX_DEPTH} deep; flatten it": self.depth > MAX_DEPTH,
            f"over {MAX_NODES} words, lists and mappings; shorten the file": self.nodes > MAX_NODES,
        }
        for problem, found in refusals.items():
            if found:
                raise ComposerError(None, None, problem, mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def compose(text: bytes, source: str) -> Node | None:
    """Return the root node, or None for an empty file. Raises RulesError for anything outside the subset."""
    if len(text) > MAX_BYTES:
        raise RulesError(f"{source}: the file is over {MAX_BYTES} bytes; shorten it")
    loader: _Loader | None = None
    try:
        loader = _Loader(text.decode("utf-8-sig"), source)
        return loader.get_single_node()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise RulesError(f"{source}:{line}: this is not UTF-8; save the file as UTF-8") from None
    except ReaderError as error:
        line = text.decode("utf-8-sig")[: error.position].count("\n") + 1
        raise RulesError(f"{source}:{line}: a control character; remove it") from None
    except MarkedYAMLError as error:
        where = source if error.problem_mark is None else f"{source}:{error.problem_mark.line + 1}"
        problem = " ".join((error.problem or "this is not YAML").split())
        if error.context == "while scanning an alias":
            problem = _UNQUOTED
        elif problem.startswith("but "):  # the other half of the sentence
            problem = f"{error.context}, {problem}"
        remedy = "" if ";" in problem else "; check indentation, colons and quotes"
        raise RulesError(f"{where}: {problem}{remedy}") from None
    except (ValueError, OverflowError):  # PyYAML's own chr() of an escape
        line = loader.line + 1 if loader else 1
        raise RulesError(f"{source}:{line}: an escape of no character; write the character") from None
    finally:
        if loader is not None:
            loader.dispose()


def place_of(node: Node) -> str:
    """Return the place of a node: `SOURCE:LINE`."""
    return f"{node.start_mark.name}:{node.start_mark.line + 1}"


def node_error(node: Node, message: str) -> RulesError:
    """Return the error for a node: its place, and the message, which ends with the remedy."""
    return RulesError(f"{place_of(node)}: {message}")


def shown(value: object) -> str:
    """Return `value` for a message: on one line, and shortened."""
    return cut(repr([*value] if isinstance(value, tuple) else value), 80)


def nearest(word: str, allowed: Collection[str]) -> str:
    """Return the words of `allowed` that are similar to `word`, or all of them, as text."""
    return ", ".join(difflib.get_close_matches(word, allowed, 3) or allowed)


def is_null(node: Node) -> bool:
    """Return whether a node is null, `~`, or a key without a value."""
    return isinstance(node, ScalarNode) and node.tag == f"{_TAG}null"


def entries(node: Node, what: str) -> Iterator[tuple[str, Node, Node]]:
    """Yield the name, key node and value node of each entry of a mapping; null is the empty mapping."""
    if is_null(node):
        return
    if not isinstance(node, MappingNode):
        raise node_error(node, f"{what} must be a mapping; write lines of the form 'key: value'")
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode) or is_null(key):
            raise node_error(key, f"a key of {what} must be a text; write one, in quotes if need be")
        if key.value in lines:
            first = lines[key.value]
            raise node_error(key, f"{shown(key.value)} is twice in {what} (first in line {first}); keep one")
        lines[key.value] = key.start_mark.line + 1
        yield key.value, key, value


def items(node: Node, what: str) -> list[Node]:
    """Return the nodes of a list; null is the empty list."""
    if is_null(node):
        return []
    if not isinstance(node, SequenceNode):
        raise node_error(node, f"{what} must be a list; write [a, b] or lines of the form '- a'")
    return list(node.value)


def scalar(node: ScalarNode) -> bool | int | float | str:
    """Return the value of a scalar that is not null: a boolean, a number (perhaps infinite) or text."""
    text: str = node.value
    match node.tag.removeprefix(_TAG):
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text)
        case "float":
            return float(text)
    return text


def json_value(node: Node, what: str) -> Json:
    """Return any JSON value. Raises RulesError for a plain word to which other YAML readers give another value."""
    if node.end_mark.index - node.start_mark.index > MAX_VALUE:
        raise node_error(node, f"{what} is over {MAX_VALUE} characters long; shorten it")
    if isinstance(node, SequenceNode):
        return [json_value(item, f"an item of {what}") for item in node.value]
    if isinstance(node, MappingNode):
        return {name: json_value(item, f"{shown(name)} of {what}") for name, _, item in entries(node, what)}
    if not isinstance(node, ScalarNode) or is_null(node):
        return None
    value = scalar(node)
    # YAML 1.1 reads `on` as true, 010 as 8, 1_000 as 1000 and 2026-01-01 as a date. Exponents such as 1e3 are exempt:
    # they are numbers, with or without a dot.
    if node.style is None and not _EXPONENT.match(node.value) and _yaml_1_1(node.value) != value:
        problem = f"{what}: other YAML readers take {shown(node.value)} for another value"
        raise node_error(node, f"{problem}; write it in quotes, or as in JSON")
    return value


def _yaml_1_1(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None


def whole(low: int, high: int) -> Meta:
    """Return the annotation of a whole number from `low` to `high`."""
    return Meta(ge=low, le=high, title=f"a whole number from {low} to {high}")


def checked(check: Callable[[Any], Any], title: str) -> Meta:
    """Return the annotation of a value that the function `check` accepts."""
    return Meta(title=title, extra={"check": check})


def read(node: Node, kind: Any, what: str, *, secret: bool = False) -> Any:
    """Return a node as a value of this type. Null is an empty struct, mapping or list, and rejected for other types.

    `what` describes the node in errors, which show no value if it may be `secret`. Raises RulesError.
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
    # Text keeps its spelling: a name may consist of digits.
    is_text = bare is str or get_origin(bare) is Literal
    return usable(node.value if is_text else scalar(node), kind, where, secret=secret)


def usable(value: Any, kind: Any, where: str, *, secret: bool = False) -> Any:
    """Return the converted value. Raises RulesError with `where` and a description of valid values."""
    extra = {name: each for meta in _parts(kind)[1] for name, each in (meta.extra or {}).items()}
    try:
        value = msgspec.convert(value, kind)
        return extra["check"](value) if "check" in extra else value
    except msgspec.ValidationError:
        needed = _needed(kind, value)
    except ValueError as error:
        needed = str(error) or _needed(kind, value)
    # A URL with a password, or a key in place of its file, must not be logged.
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
    except ValueError as error:  # from __post_init__, with the key and the problem
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
    """Describe what a type allows; of many words, only those that are similar to `value`."""
    bares, metas = _parts(kind)
    title = next((meta.title for meta in metas if meta.title), "")
    words = [str(word) for bare in bares if get_origin(bare) is Literal for word in get_args(bare)]
    if len(words) > _FEW:
        words = difflib.get_close_matches(str(value), words, 3) or ([] if title else words)
    if not words:
        return title or _WORDS[get_origin(bares[0]) or bares[0]]
    return " or ".join(", ".join(word if word.isprintable() else repr(word) for word in words).rsplit(", ", 1))
