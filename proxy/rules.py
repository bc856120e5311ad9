"""rules.yaml -> frozen rules: which model is parsed by whom, and what each client needs.

Pure: bytes in, one frozen `Rules` out, or one `RulesError` whose line is `SOURCE:LINE: what is wrong; what to do`.
The YAML is taken without its traps: no aliases, anchors or tags, no key twice, nothing deeper or longer than the
limits below, and of plain words only `true`, `false`, `null`, `~` and numbers are more than text.
"""

from __future__ import annotations

import difflib
import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

import yaml
from yaml.composer import ComposerError
from yaml.error import MarkedYAMLError
from yaml.events import Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from .errors import RulesError

Parse = Literal["auto", "server", "proxy"]
Transport = Literal["live", "whole"]
Heartbeat = Literal["comment", "chunk"]
Setting: TypeAlias = bool | int | float | str | tuple[str, ...]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_TEXT = 200
CLIENT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

_PARSES: tuple[Parse, ...] = ("auto", "server", "proxy")
_TRANSPORTS: tuple[Transport, ...] = ("live", "whole")
_HEARTBEATS: tuple[Heartbeat, ...] = ("comment", "chunk")
_SERVERS = ("vllm", "sglang", "lmdeploy", "llamacpp", "litellm")
_SECTIONS = ("settings", "tools", "models", "clients")
_CLIENT_KEYS = ("parse", "upstream", "heartbeat", "clean", "key_sha256")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_FIELD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Without these an answer is none any more: to remove them is never what was meant.
_NEEDED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "top": frozenset({"choices"}),
        "choice": frozenset({"index", "message", "delta", "finish_reason"}),
        "message": frozenset({"role", "content", "tool_calls"}),
        "usage": frozenset(),
    }
)

_Word = TypeVar("_Word", bound=str)
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Clean:
    """The names of fields to remove from answers: at the top, in a choice, in a message, in the usage."""

    top: tuple[str, ...] = ()
    choice: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.top or self.choice or self.message or self.usage)


@dataclass(frozen=True, slots=True)
class Profile:
    """How one request is treated; `server` is "" where the kind of server is to be found out."""

    parse: Parse = "auto"
    upstream: Transport = "live"
    server: str = ""
    heartbeat: Heartbeat = "comment"
    clean: Clean = field(default_factory=Clean)


@dataclass(frozen=True, slots=True)
class Model:
    """One entry of `models`; None where it says nothing."""

    match: str
    parse: Parse | None = None
    upstream: Transport | None = None
    server: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """One entry of `clients`: what it says (None where nothing), and the SHA-256 digests of its keys."""

    parse: Parse | None = None
    upstream: Transport | None = None
    heartbeat: Heartbeat | None = None
    clean: Clean = field(default_factory=Clean)
    keys: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """One rules file with its gaps filled from the built-in one. A request takes one of these and keeps it.

    `sha256` is the digest of the file's bytes, `source` its path or "built-in".
    """

    settings: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    models: tuple[Model, ...] = ()
    clients: Mapping[str, Client] = field(default_factory=lambda: MappingProxyType({}))
    sha256: str = ""
    source: str = ""

    @property
    def client_names(self) -> tuple[str, ...]:
        """The names of all clients, in the file's order."""
        return tuple(self.clients)

    def profile(self, model: str, client: str) -> Profile:
        """The profile of `model` (the first glob that matches) for `client` ("" or unknown: none in particular).

        What the client's entry says wins over what the model's says.
        """
        its = next((entry for entry in self.models if fnmatchcase(model, entry.match)), Model("*"))
        own = self.clients.get(client, Client())
        return Profile(
            parse=own.parse or its.parse or "auto",
            upstream=own.upstream or its.upstream or "live",
            server=its.server,
            heartbeat=own.heartbeat or "comment",
            clean=own.clean,
        )

    def client_for_key(self, key: bytes) -> str:
        """The name of the client that `key` tells, or ""; the time it takes says nothing about the digests."""
        digest = hashlib.sha256(key).digest()
        found = ""
        for name, client in self.clients.items():
            for known in client.keys:
                if hmac.compare_digest(known, digest):
                    found = name
        return found


def parse_rules(text: bytes, source: str, builtin: Rules | None = None) -> Rules:
    """Read the bytes of a rules file; a section that it lacks is taken from `builtin`.

    Raises RulesError, with `source` and the line, for anything that is not exactly as it should be.
    """
    base = Rules() if builtin is None else builtin
    root = _compose(text, source)
    sections = {} if root is None else _mapping(root, "the file", _SECTIONS)
    if "tools" in sections:
        _refuse_tools(sections["tools"])
    return Rules(
        settings=_section(sections, "settings", _settings, base.settings),
        models=_section(sections, "models", lambda node: _sequence(node, "models", _model), base.models),
        clients=_section(sections, "clients", _clients, base.clients),
        sha256=hashlib.sha256(text).hexdigest(),
        source=source,
    )


def nearest(word: str, allowed: Collection[str]) -> str:
    """The words of `allowed` that are like `word`, or all of them, as a list to read."""
    return ", ".join(difflib.get_close_matches(word, allowed, 3) or allowed)


def shown(value: object) -> str:
    """`value` for a message: on one line, and not too long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _tag(name: str) -> str:
    return f"tag:yaml.org,2002:{name}"


_BOOL = (_tag("bool"), re.compile(r"\A(?:true|false)\Z"))
_NULL = (_tag("null"), re.compile(r"\A(?:null|~|)\Z"))
_INT = (_tag("int"), re.compile(r"\A[-+]?[0-9]{1,18}\Z"))
_FLOAT = (_tag("float"), re.compile(r"\A[-+]?[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][-+]?[0-9]{1,3})?\Z"))


class _Loader(yaml.SafeLoader):
    """Composes nodes and constructs nothing.

    YAML 1.1 would read `no` as false, 1:30 as 90 and 2026-01-01 as a date; here they stay text.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute, looked up by the scalar's first character
        **{first: [_INT, _FLOAT] for first in "-+0123456789"},
        **{first: [_BOOL] for first in "tf"},
        **{first: [_NULL] for first in ("n", "~", "")},
    }

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self.name = source  # every mark, and so every error, carries it
        self.depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Event = self.peek_event()  # type: ignore[no-untyped-call]
        self.mark: Any = event.start_mark
        if getattr(event, "anchor", None):  # an alias has it too
            raise self.refusal("aliases and anchors are not taken; write the value out")
        if getattr(event, "tag", None):
            raise self.refusal("tags are not taken; remove the '!' word")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refusal(f"nested over {MAX_DEPTH} deep; flatten it")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def refusal(self, problem: str) -> ComposerError:
        return ComposerError(None, None, problem, self.mark)


def _compose(text: bytes, source: str) -> Node | None:
    """The root node, or None of an empty file. All of PyYAML's errors become RulesError here."""
    if len(text) > MAX_BYTES:
        raise RulesError(f"{source}: the file is over {MAX_BYTES} bytes; shorten it")
    try:
        loader = _Loader(text.decode("utf-8-sig"), source)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise RulesError(f"{source}:{line}: this is not UTF-8; save the file as UTF-8") from None
    except ReaderError as error:
        line = text.decode("utf-8-sig")[: error.position].count("\n") + 1
        raise RulesError(f"{source}:{line}: a control character; remove it") from None
    except MarkedYAMLError as error:
        raise RulesError(_told(error, source)) from None


def _told(error: MarkedYAMLError, source: str) -> str:
    """PyYAML's error as one line; ours carry their own remedy."""
    mark = error.problem_mark
    where = source if mark is None else f"{source}:{mark.line + 1}"
    problem = " ".join((error.problem or "this is not YAML").split())
    if problem.startswith("but "):  # the other half of the sentence
        problem = f"{error.context}, {problem}"
    return f"{where}: {problem}" if ";" in problem else f"{where}: {problem}; check indentation, colons and quotes"


# From here on each function takes a node, and what it is in words.
def _error(node: Node, message: str) -> RulesError:
    return RulesError(f"{node.start_mark.name}:{node.start_mark.line + 1}: {message}")


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL[0]


def _mapping(node: Node, what: str, allowed: Collection[str] | None = None) -> dict[str, Node]:
    """The node's keys and values, in order; null is the empty mapping. `allowed` None allows all keys."""
    if _is_null(node):
        return {}
    if not isinstance(node, MappingNode):
        raise _error(node, f"{what} must be a mapping; write lines of the form 'key: value'")
    found: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for key_node, value in node.value:
        key = _text(key_node, f"a key of {what}")
        if key in found:
            raise _error(key_node, f"{shown(key)} is twice in {what} (first in line {lines[key]}); keep one")
        if allowed is not None and key not in allowed:
            raise _error(key_node, f"there is no {shown(key)} in {what}; use {nearest(key, allowed)}")
        found[key] = value
        lines[key] = key_node.start_mark.line + 1
    return found


def _sequence(node: Node, what: str, item: Callable[[Node, str], _Item]) -> tuple[_Item, ...]:
    """The items of a list, each read by `item`; null is the empty list."""
    if _is_null(node):
        return ()
    if not isinstance(node, SequenceNode):
        raise _error(node, f"{what} must be a list; write [a, b] or lines of the form '- a'")
    return tuple(item(child, f"an item of {what}") for child in node.value)


def _text(node: Node, what: str) -> str:
    """A scalar as it is spelled: a digest of digits only is text too."""
    if not isinstance(node, ScalarNode) or _is_null(node) or not 0 < len(node.value) <= MAX_TEXT:
        raise _error(node, f"{what} must be a text of 1 to {MAX_TEXT} characters; write one, in quotes if need be")
    text: str = node.value
    return text


def _word(node: Node, what: str, allowed: tuple[_Word, ...]) -> _Word:
    text = _text(node, what)
    for word in allowed:
        if word == text:
            return word
    raise _error(node, f"{what} cannot be {shown(text)}; use {', '.join(allowed)}")


def _option(keys: Mapping[str, Node], key: str, what: str, allowed: tuple[_Word, ...]) -> _Word | None:
    return _word(keys[key], f"{key} of {what}", allowed) if key in keys else None


def _section(sections: Mapping[str, Node], name: str, read: Callable[[Node], _Item], default: _Item) -> _Item:
    return read(sections[name]) if name in sections else default


def _refuse_tools(node: Node) -> None:
    if _mapping(node, "tools"):
        raise _error(node, "this version knows no rules for tools; write 'tools: {}' or remove the section")


def _settings(node: Node) -> Mapping[str, Setting]:
    pairs = _mapping(node, "settings")
    return MappingProxyType({name: _setting(value, f"setting {name}") for name, value in pairs.items()})


def _setting(node: Node, what: str) -> Setting:
    if isinstance(node, SequenceNode):
        return _sequence(node, what, _text)
    if not isinstance(node, ScalarNode) or _is_null(node):
        raise _error(node, f"{what} has no value; give one or remove the line")
    text: str = node.value
    if node.tag == _BOOL[0]:
        return text == "true"
    if node.tag == _INT[0]:
        return int(text)
    return float(text) if node.tag == _FLOAT[0] else text


def _model(node: Node, what: str) -> Model:
    keys = _mapping(node, what, ("match", "parse", "upstream", "server"))
    if "match" not in keys:
        raise _error(node, f'{what} has no match; give a name or a glob, as match: "Qwen*"')
    return Model(
        match=_text(keys["match"], f"match of {what}"),
        parse=_option(keys, "parse", what, _PARSES),
        upstream=_option(keys, "upstream", what, _TRANSPORTS),
        server=_option(keys, "server", what, _SERVERS) or "",
    )


def _clients(node: Node) -> Mapping[str, Client]:
    clients: dict[str, Client] = {}
    owners: dict[bytes, str] = {}
    for name, entry in _mapping(node, "clients").items():
        if not CLIENT_NAME.fullmatch(name):
            raise _error(entry, f"client {shown(name)} must match {CLIENT_NAME.pattern}; rename it")
        clients[name] = _client(entry, f"client {name}")
        for digest in clients[name].keys:
            if digest in owners:
                raise _error(entry, f"a key of client {name} is {owners[digest]}'s already; keep it in one place")
            owners[digest] = name
    return MappingProxyType(clients)


def _client(node: Node, what: str) -> Client:
    keys = _mapping(node, what, _CLIENT_KEYS)
    return Client(
        parse=_option(keys, "parse", what, _PARSES),
        upstream=_option(keys, "upstream", what, _TRANSPORTS),
        heartbeat=_option(keys, "heartbeat", what, _HEARTBEATS),
        clean=_clean(keys["clean"], f"clean of {what}") if "clean" in keys else Clean(),
        keys=_sequence(keys["key_sha256"], f"key_sha256 of {what}", _digest) if "key_sha256" in keys else (),
    )


def _digest(node: Node, what: str) -> bytes:
    # The value is not shown: who gets the two mixed up writes the key itself here.
    text = _text(node, what)
    if not _DIGEST.fullmatch(text):
        raise _error(node, f"{what} must be 64 hex digits; make them with: printf %s KEY | sha256sum")
    return bytes.fromhex(text)


def _clean(node: Node, what: str) -> Clean:
    return Clean(**{place: _fields(fields, place, what) for place, fields in _mapping(node, what, _NEEDED).items()})


def _fields(node: Node, place: str, what: str) -> tuple[str, ...]:
    def name(item: Node, words: str) -> str:
        text = _text(item, words)
        if not _FIELD.fullmatch(text) or text in _NEEDED[place]:
            raise _error(item, f"{shown(text)} cannot be removed from answers; take it out of {place} of {what}")
        return text

    return tuple(dict.fromkeys(_sequence(node, f"{place} of {what}", name)))
