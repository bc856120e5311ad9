"""Reading YAML without its traps, for rules.yaml: text in, nodes out, or one `RulesError`.

The error's line is `SOURCE:LINE: what is wrong; what to do`. There are no aliases, anchors or tags, no key twice,
nothing deeper or longer than the limits below, and of plain words only `true`, `false`, `null`, `~` and numbers are
more than text. The functions from `mapping` on take a node, and what it is in words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import yaml
from yaml.composer import ComposerError
from yaml.error import MarkedYAMLError
from yaml.events import AliasEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from proxy.codec.display import cut
from proxy.codec.json_text import Json
from proxy.errors import RulesError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_NODES = 30_000
MAX_TEXT = 200
MAX_VALUE = 16_384

_Word = TypeVar("_Word", bound=str)
_Item = TypeVar("_Item")


def nearest(word: str, allowed: Collection[str]) -> str:
    """The words of `allowed` that are like `word`, or all of them, as a list to read."""
    return ", ".join(difflib.get_close_matches(word, allowed, 3) or allowed)


def shown(value: object) -> str:
    """`value` for a message: on one line, and not too long."""
    return cut(repr(value), 80)


def _tag(name: str) -> str:
    return f"tag:yaml.org,2002:{name}"


# YAML takes a plain * for an alias.
_UNQUOTED = 'a glob that starts with * needs quotes; write it as "*..."'
_BOOL, _NULL, _INT, _FLOAT = map(_tag, ("bool", "null", "int", "float"))
_BOOLS = (_BOOL, re.compile(r"\A(?:true|True|TRUE|false|False|FALSE)\Z"))
_NULLS = (_NULL, re.compile(r"\A(?:null|Null|NULL|~|)\Z"))
_INTS = (_INT, re.compile(r"\A[-+]?[0-9]{1,18}\Z"))
_FLOATS = (_FLOAT, re.compile(r"\A[-+]?[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][-+]?[0-9]{1,3})?\Z"))
# What a JSON value may be: finite, and no octal of other readers.
_JSON_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRUTHS_OF_YAML_1_1 = frozenset(("yes", "no", "on", "off"))


class _Loader(yaml.SafeLoader):
    """Composes nodes and constructs nothing.

    YAML 1.1 would read `no` as false, 1:30 as 90 and 2026-01-01 as a date; here they stay text.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute, looked up by the scalar's first character
        **{first: [_INTS, _FLOATS] for first in "-+0123456789"},
        **{first: [_BOOLS] for first in "tTfF"},
        **{first: [_NULLS] for first in ("n", "N", "~", "")},
    }

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self.name = source  # every mark, and so every error, carries it
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Event = self.peek_event()  # type: ignore[no-untyped-call]
        self.mark: Any = event.start_mark
        if isinstance(event, AliasEvent):
            raise self.refusal(_UNQUOTED)
        if getattr(event, "anchor", None):
            raise self.refusal("anchors are not taken; write the value out")
        if getattr(event, "tag", None):
            raise self.refusal("tags are not taken; remove the '!' word")
        if _SURROGATE.search(getattr(event, "value", "")):
            raise self.refusal("half a character, as an escape; write the character itself")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refusal(f"nested over {MAX_DEPTH} deep; flatten it")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.refusal(f"there are over {MAX_NODES} words, lists and mappings; shorten the file")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def refusal(self, problem: str) -> ComposerError:
        return ComposerError(None, None, problem, self.mark)


def compose(text: bytes, source: str) -> Node | None:
    """The root node, or None of an empty file. All of PyYAML's errors become RulesError here."""
    if len(text) > MAX_BYTES:
        raise RulesError(f"{source}: the file is over {MAX_BYTES} bytes; shorten it")
    try:
        return _root(_Loader(text.decode("utf-8-sig"), source))
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise RulesError(f"{source}:{line}: this is not UTF-8; save the file as UTF-8") from None
    except ReaderError as error:
        line = text.decode("utf-8-sig")[: error.position].count("\n") + 1
        raise RulesError(f"{source}:{line}: a control character; remove it") from None
    except MarkedYAMLError as error:
        raise RulesError(_syntax_error(error, source)) from None


def _root(loader: _Loader) -> Node | None:
    try:
        return loader.get_single_node()
    except (ValueError, OverflowError):  # PyYAML's own chr() of an escape
        raise RulesError(f"{loader.name}:{loader.line + 1}: an escape of no character; write the character") from None
    finally:
        loader.dispose()


def _syntax_error(error: MarkedYAMLError, source: str) -> str:
    """PyYAML's error as one line; ours carry their own remedy."""
    mark = error.problem_mark
    where = source if mark is None else f"{source}:{mark.line + 1}"
    if error.context == "while scanning an alias":
        return f"{where}: {_UNQUOTED}"
    problem = " ".join((error.problem or "this is not YAML").split())
    if problem.startswith("but "):  # the other half of the sentence
        problem = f"{error.context}, {problem}"
    if ";" not in problem:
        problem += "; check indentation, colons and quotes"
    return f"{where}: {problem}"


def node_error(node: Node, message: str) -> RulesError:
    """The error for what stands at a node: its file and line, and the message with the remedy."""
    return RulesError(f"{place_of(node)}: {message}")


def place_of(node: Node) -> str:
    """Where a node stands: `SOURCE:LINE`."""
    return f"{node.start_mark.name}:{node.start_mark.line + 1}"


def is_null(node: Node) -> bool:
    """True for null, `~` and nothing at all."""
    return isinstance(node, ScalarNode) and node.tag == _NULL


def mapping(node: Node, what: str, allowed: Collection[str] | None = None) -> dict[str, Node]:
    """The node's keys and values, in order; null is the empty mapping. `allowed` None allows all keys."""
    if is_null(node):
        return {}
    if not isinstance(node, MappingNode):
        raise node_error(node, f"{what} must be a mapping; write lines of the form 'key: value'")
    entries: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for key_node, value in node.value:
        key = text_of(key_node, f"a key of {what}")
        if key in entries:
            raise node_error(key_node, f"{shown(key)} is twice in {what} (first in line {lines[key]}); keep one")
        if allowed is not None and key not in allowed:
            raise node_error(key_node, f"there is no {shown(key)} in {what}; use {nearest(key, allowed)}")
        entries[key] = value
        lines[key] = key_node.start_mark.line + 1
    return entries


def sequence(node: Node, what: str, item: Callable[[Node, str], _Item]) -> tuple[_Item, ...]:
    """The items of a list, each read by `item`; null is the empty list."""
    if is_null(node):
        return ()
    if not isinstance(node, SequenceNode):
        raise node_error(node, f"{what} must be a list; write [a, b] or lines of the form '- a'")
    return tuple(item(child, f"an item of {what}") for child in node.value)


def text_of(node: Node, what: str, *, longest: int = MAX_TEXT, empty: bool = False) -> str:
    """A scalar as it is spelled: a digest of digits only is text too."""
    least = int(not empty)
    if not isinstance(node, ScalarNode) or is_null(node) or not least <= len(node.value) <= longest:
        needed = f"a text of {least} to {longest} characters"
        raise node_error(node, f"{what} must be {needed}; write one, in quotes if need be")
    text: str = node.value
    return text


def optional(keys: Mapping[str, Node], name: str, read: Callable[[Node], _Item], default: _Item) -> _Item:
    """The value of a key, read by `read`; the default if the key is not there."""
    if name not in keys:
        return default
    return read(keys[name])


def choice(node: Node, what: str, allowed: tuple[_Word, ...]) -> _Word:
    """One of the words of `allowed`."""
    text = text_of(node, what)
    for word in allowed:
        if word == text:
            return word
    raise node_error(node, f"{what} cannot be {shown(text)}; use {', '.join(allowed)}")


def scalar(node: ScalarNode) -> bool | int | float | str:
    """A scalar that is not null: a truth, a number (perhaps infinite) or text, as the loader told them apart."""
    text: str = node.value
    if node.tag == _BOOL:
        return text.lower() == "true"
    if node.tag == _INT:
        return int(text)
    if node.tag == _FLOAT:
        return float(text)
    return text


def value(node: Node, what: str) -> Json:
    """Any JSON value, of at most `MAX_VALUE` characters; what other YAML readers take for something else is refused."""
    if node.end_mark.index - node.start_mark.index > MAX_VALUE:
        raise node_error(node, f"{what} is over {MAX_VALUE} characters long; shorten it")
    return _value(node, what)


def _value(node: Node, what: str) -> Json:
    if isinstance(node, SequenceNode):
        return [_value(item, f"an item of {what}") for item in node.value]
    if isinstance(node, MappingNode):
        return {key: _value(item, f"{shown(key)} of {what}") for key, item in mapping(node, what).items()}
    if not isinstance(node, ScalarNode) or is_null(node):
        return None
    if node.style is None:
        _refuse_ambiguous(node, what)
    return scalar(node)


def _refuse_ambiguous(node: ScalarNode, what: str) -> None:
    """Refuse plain words that YAML 1.1 takes for a truth, a date or another number than we would."""
    text: str = node.value
    if text.lower() in _TRUTHS_OF_YAML_1_1:
        problem = f"{what} cannot be {shown(text)} as it stands; write true or false, or {text!r} in quotes"
        raise node_error(node, problem)
    if _is_ambiguous_number(node, text):
        problem = f"{what} cannot be {shown(text)} as it stands; write a plain number, or put it in quotes"
        raise node_error(node, problem)


def _is_ambiguous_number(node: ScalarNode, text: str) -> bool:
    """True for a number that JSON writes in another way (`010`), and for text that others take for one (`1_000`)."""
    if node.tag in (_INT, _FLOAT):
        return _JSON_NUMBER.fullmatch(text) is None
    return _is_of_another_type(text)


def _is_of_another_type(text: str) -> bool:
    """True if YAML 1.1 takes the plain text for a number, a date or an operator."""
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ())
    ours = (_BOOL, _NULL)
    return any(tag not in ours and pattern.match(text) for tag, pattern in resolvers)
