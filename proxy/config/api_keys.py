"""The keys: who may use the proxy and how much, what the model server is told, who may use the admin paths.

Pure: bytes of files in, frozen `Keys` out, or one `RulesError` whose line is `SOURCE:LINE: what is wrong; what to do`,
in which no key is ever shown. Of client keys and of the admin's only the SHA-256 digests are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from proxy.codec.json_access import as_text
from proxy.codec.json_text import Json
from proxy.config.rules import Rules
from proxy.config.yaml_nodes import (
    compose,
    is_null,
    mapping,
    nearest,
    node_error,
    optional,
    place_of,
    scalar,
    sequence,
    shown,
    text_of,
)
from proxy.errors import BadRequest, RulesError

MAX_KEYS = 1000
# Bytes of a file that is one key.
MAX_SECRET = 4096
_MAX_LIMIT = 1_000_000
_FIELDS = ("name", "sha256", "client", "models", "requests_per_minute", "streams")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
# What a header can carry without being quoted.
_SECRET = re.compile(rb"[!-~]+")
_HASHED = "sha256:"
_MAKE = "make them with: printf %s KEY | sha256sum"
_ANY = "*"

_Parsed = TypeVar("_Parsed")


class Denied(BadRequest):
    """Turned away for a key; never raised itself. `reason` is a word for the metrics."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unauthorized(Denied):
    """No key, or one that is none of those that are known."""

    status = 401
    kind = "authentication_error"
    headers = (("WWW-Authenticate", "Bearer"),)


class Forbidden(Denied):
    """The key is known, or the client local, and this is not allowed to it."""

    status = 403
    kind = "permission_error"


class TooMany(Denied):
    """The key's share is used up; `retry_after` says for how many seconds."""

    status = 429
    kind = "rate_limit_error"

    def __init__(self, message: str, reason: str, seconds: float) -> None:
        super().__init__(message, reason)
        self.retry_after = str(max(1, int(seconds)))


@dataclass(frozen=True, slots=True)
class ClientKey:
    """One client's key: its digest, the globs on models that it may use (none: all), and its limits (0: none).

    `streams` are the requests to models, streamed or not, that may be under way at once: both keep the server busy.
    `client` is the name of the client in the rules whose entry its requests get, or ""; `location` is where that
    stands, `SOURCE:LINE`.
    """

    name: str
    digest: bytes = field(repr=False)
    models: tuple[str, ...] = ()
    requests_per_minute: int = 0
    streams: int = 0
    client: str = ""
    location: str = field(default="", repr=False, compare=False)

    @property
    def restricted(self) -> bool:
        """True if there are models that it may not use."""
        return bool(self.models) and _ANY not in self.models

    def check_model(self, model: str) -> None:
        """Raise Forbidden if it may not use `model`, by the name that the model server knows."""
        if self.restricted and not any(fnmatchcase(model, glob) for glob in self.models):
            shown_model = shown(model[:100]) if model else "a model that the request does not name"
            words = f"the key {self.name} may not use {shown_model}; it may use {', '.join(self.models)}"
            raise Forbidden(words[:1000], "model")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys in force.

    Without `clients`, no client needs a key. `upstream` is the key for the main model server, "" if there is none;
    `named` are the keys for other servers, by the `key` of their entry in the rules. `admin` is the digest of the key
    of the admin paths, empty if there is none.
    """

    clients: tuple[ClientKey, ...] = ()
    upstream: str = field(default="", repr=False)
    admin: bytes = field(default=b"", repr=False)
    named: Mapping[str, str] = field(default_factory=dict, repr=False)

    def client(self, key: bytes) -> ClientKey:
        """The client of a key; raises Unauthorized. The time that it takes says nothing about the digests."""
        digest = hashlib.sha256(key).digest()
        match = None
        for client in self.clients:
            if hmac.compare_digest(client.digest, digest):
                match = client
        if match is None:
            what = "this key is not known" if key else "a key is needed"
            raise Unauthorized(f"{what}; send one as Authorization: Bearer KEY or x-api-key: KEY", "key")
        return match

    def check_clients(self, rules: Rules) -> None:
        """Raise RulesError for a key that names a client which the rules do not have."""
        for key in self.clients:
            if key.client and key.client not in rules.clients:
                names = nearest(key.client, rules.client_names) or "none, for the rules have none"
                words = f"there is no client {shown(key.client)} in {rules.source}, for key {key.name}; use {names}"
                raise RulesError(f"{key.location}: {words}")

    def is_admin(self, key: bytes) -> bool:
        """True if it is the admin's key; there must be one."""
        return bool(self.admin) and hmac.compare_digest(self.admin, hashlib.sha256(key).digest())

    def upstream_key(self, key: str) -> str:
        """Return the key that is sent to the model server, or "". `key` is the client's.

        A client's key that opens the proxy is sent to no server, which might log it.
        """
        return self.upstream if self.clients or self.upstream else key


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The bytes of a file with keys, and where they come from."""

    data: bytes = field(default=b"", repr=False)
    source: str = ""


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """The files that keys come from, unread; one that is not there is None. `named` are those of the rules' entries."""

    clients: KeyFile | None = None
    upstream: KeyFile | None = None
    admin: KeyFile | None = None
    named: tuple[KeyFile, ...] = ()

    def read(self) -> Keys:
        """The keys; raises RulesError."""
        return Keys(
            clients=_parsed(self.clients, parse_clients, ()),
            upstream=_parsed(self.upstream, parse_secret, ""),
            admin=_parsed(self.admin, parse_admin, b""),
            named={file.source: parse_secret(file.data, file.source) for file in self.named},
        )

    def to_bytes(self) -> tuple[bytes, ...]:
        """All of it as bytes, for `unpacked`."""
        return tuple(
            b"" if file is None else os.fsencode(file.source) + b"\0" + file.data
            for file in (self.clients, self.upstream, self.admin, *self.named)
        )


def _parsed(file: KeyFile | None, parse: Callable[[bytes, str], _Parsed], default: _Parsed) -> _Parsed:
    if file is None:
        return default
    return parse(file.data, file.source)


def keys_from_bytes(parts: Sequence[bytes]) -> KeyFiles:
    """The key files out of the bytes of `packed`; of no bytes, no files."""

    def file(part: bytes) -> KeyFile | None:
        source, _, data = part.partition(b"\0")
        if not part:
            return None
        return KeyFile(data, os.fsdecode(source))

    clients, upstream, admin, *named = [*map(file, parts)] or [None, None, None]
    return KeyFiles(clients, upstream, admin, tuple(filter(None, named)))


def parse_clients(text: bytes, source: str) -> tuple[ClientKey, ...]:
    """The client keys of a file. Raises RulesError also if it has none: nobody could use the proxy then."""
    root = compose(text, source)
    if root is None or is_null(root) or _is_empty_list(root):
        raise RulesError(f"{source}: no key is in it, so nobody could use the proxy; add one, or unset client_keys")
    keys: list[ClientKey] = []
    owners: dict[bytes, str] = {}
    names: set[str] = set()
    if isinstance(root, SequenceNode) and len(root.value) > MAX_KEYS:
        raise node_error(root, f"there are over {MAX_KEYS} keys; remove some")

    def entry(node: Node, what: str) -> None:
        key = _client(node, what)
        if key.name in names:
            raise node_error(node, f"there is a key named {key.name} already; give this one another name")
        if key.digest in owners:
            raise node_error(node, f"key {key.name} is that of {owners[key.digest]}; keep one of them")
        names.add(key.name)
        owners[key.digest] = key.name
        keys.append(key)

    sequence(root, "the file of client keys", entry)
    return tuple(keys)


def _is_empty_list(node: Node) -> bool:
    return isinstance(node, SequenceNode) and not node.value


def _client(node: Node, what: str) -> ClientKey:
    fields = _fields(node, what)
    for needed in _FIELDS[:2]:
        if needed not in fields:
            raise node_error(node, f"{what} has no {needed}; give name and sha256")
    name = text_of(fields["name"], f"name of {what}")
    if not _NAME.fullmatch(name):
        raise node_error(fields["name"], "a name must be of up to 64 letters, digits and ._@-; write one")
    return ClientKey(
        name=name,
        digest=_digest(fields["sha256"], name),
        models=optional(fields, "models", lambda node: _models(node, name), ()),
        requests_per_minute=_limit(fields, "requests_per_minute", name),
        streams=_limit(fields, "streams", name),
        client=optional(fields, "client", lambda node: text_of(node, f"client of key {name}"), ""),
        location=place_of(fields.get("client", node)),
    )


def _fields(node: Node, what: str) -> dict[str, Node]:
    """The fields of an entry. Of one that should not be there only the place is told: it may be a key."""
    if isinstance(node, MappingNode):
        for key, _ in node.value:
            if not isinstance(key, ScalarNode) or key.value not in _FIELDS:
                raise node_error(key, f"{what} has a field that is none; use {', '.join(_FIELDS)}")
    return mapping(node, what)


def _digest(node: Node, name: str) -> bytes:
    # The value is not shown: who gets the two mixed up writes the key itself here.
    text = text_of(node, f"sha256 of key {name}")
    if not _DIGEST.fullmatch(text):
        raise node_error(node, f"sha256 of key {name} must be 64 hex digits; {_MAKE}")
    return bytes.fromhex(text)


def _models(node: Node, name: str) -> tuple[str, ...]:
    models = sequence(node, f"models of key {name}", text_of)
    if not models:
        raise node_error(node, f"models of key {name} are none at all; list some, or remove the line")
    return models


def _limit(fields: dict[str, Node], which: str, name: str) -> int:
    if which not in fields:
        return 0
    node = fields[which]
    value: object = None
    if isinstance(node, ScalarNode):
        value = scalar(node)
    if type(value) is not int or not 1 <= value <= _MAX_LIMIT:
        raise node_error(node, f"{which} of key {name} must be a whole number from 1 to {_MAX_LIMIT}; write one")
    return value


def parse_secret(data: bytes, source: str) -> str:
    """The key that a file is: one line without blanks. Raises RulesError, which does not show it."""
    key = data.strip()
    if not _SECRET.fullmatch(key) or len(key) > MAX_SECRET:
        needed = f"one line of up to {MAX_SECRET} visible ASCII characters"
        raise RulesError(f"{source}: this must be a key, {needed}; write it, or unset the setting")
    return key.decode("ascii")


def parse_admin(data: bytes, source: str) -> bytes:
    """The digest of the admin's key, from the key itself or from `sha256:` and its digest."""
    text = parse_secret(data, source)
    if not text.startswith(_HASHED):
        return hashlib.sha256(text.encode("ascii")).digest()
    if not _DIGEST.fullmatch(text.removeprefix(_HASHED)):
        raise RulesError(f"{source}: behind {_HASHED} there must be 64 hex digits; {_MAKE}")
    return bytes.fromhex(text.removeprefix(_HASHED))


def named_model(body: bytes) -> str:
    """The model that a body asks for, "" if it names none. Raises BadRequest where another reader may find another.

    For keys that may not use every model: what passes as it came must mean to the server what it means here.
    """
    try:
        pairs = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(pairs, _Pairs):
        return ""
    named = [(name, value) for name, value in pairs if name.casefold() == "model"]
    if not named:
        return ""
    name, model = named[0]
    if len(named) > 1 or name != "model":
        raise BadRequest("the body must name its model once, as model, for this key may not use every model")
    return as_text(model)


class _Pairs(list[tuple[str, Json]]):
    """The keys and values of a JSON object, also those that are there twice."""
