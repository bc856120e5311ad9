"""Keys of clients, of model servers and of the admin paths.

Converts bytes of files to keys, or raises one `RulesError` (`SOURCE:LINE: problem; remedy`) that never shows a
key. Only SHA-256 digests of the client keys and the admin key are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from proxy.config.rules import Globs, Rules
from proxy.config.yaml_nodes import compose, entries, items, nearest, node_error, read, shown, whole
from proxy.errors import Forbidden, RulesError, Unauthorized
from proxy.healing.parameters import Text

MAX_KEYS = 1000
# Bytes of a file that holds one key.
MAX_SECRET = 4096
# Characters that need no quoting in a header.
_SECRET = re.compile(rb"[!-~]+")
_HASHED = "sha256:"
_DIGEST = "64 hex digits; make them with: printf %s KEY | sha256sum"

Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$(?!\n)", title=_DIGEST, extra={"check": str.lower})]
Limit: TypeAlias = Annotated[int, whole(1, 1_000_000)]


class ClientKey(Struct, frozen=True, omit_defaults=True):
    """A client's key in the file: its digest, globs on the models that it may use (empty: all), and limits (0: none).

    `streams` limits concurrent requests to models, streamed or not: both keep the server busy. `client` names the
    client in the rules whose entry its requests use, or is "".
    """

    name: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$(?!\n)", title="a name of up to 64 letters, digits and ._@-"),
    ]
    digest: Digest = msgspec.field(name="sha256")
    models: Globs = ()
    requests_per_minute: Limit = 0
    streams: Limit = 0
    client: Text = ""

    def __repr__(self) -> str:
        return f"ClientKey({self.name!r})"

    @property
    def restricted(self) -> bool:
        """Whether the key is limited to some models."""
        return bool(self.models) and "*" not in self.models

    def check_model(self, model: str) -> None:
        """Raise Forbidden if the key may not use `model`, the name as sent upstream."""
        if self.restricted and not any(fnmatchcase(model, glob) for glob in self.models):
            shown_model = shown(model[:100]) if model else "a model that the request does not name"
            words = f"the key {self.name} may not use {shown_model}; it may use {', '.join(self.models)}"
            raise Forbidden(words[:1000], "model")


class Keys(Struct, frozen=True):
    """The keys in force.

    Without `clients`, no client needs a key. `upstream` is the main model server's key, or ""; `named` are the keys of
    other servers, by `Model.key`. `admin` is the digest of the key for the admin paths, or "".
    """

    clients: tuple[ClientKey, ...] = ()
    upstream: str = ""
    admin: str = ""
    named: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Keys({self.clients!r})"

    def client(self, key: bytes) -> ClientKey:
        """Return the client of a key, in constant time. Raises Unauthorized."""
        digest = digest_of(key)
        match = None
        for client in self.clients:
            if hmac.compare_digest(client.digest, digest):
                match = client
        if match is None:
            what = "this key is not known" if key else "a key is needed"
            raise Unauthorized(f"{what}; send one as Authorization: Bearer KEY or x-api-key: KEY", "key")
        return match

    def is_admin(self, key: bytes) -> bool:
        """Return whether `key` is the admin key; False if none is set."""
        return bool(self.admin) and hmac.compare_digest(self.admin, digest_of(key))

    def upstream_key(self, key: str) -> str:
        """Return the key to send to the main model server, or "", given the client's `key`.

        A client's key for the proxy is never sent upstream, where it might be logged.
        """
        return self.upstream if self.clients or self.upstream else key


def digest_of(key: bytes) -> str:
    """Return the SHA-256 digest of a key in hex digits."""
    return hashlib.sha256(key).hexdigest()


def parse_clients(text: bytes, source: str, rules: Rules | None = None) -> tuple[ClientKey, ...]:
    """Return the client keys of a file.

    Raises RulesError, also for a file without keys, which would lock out every client. If `rules` are given, every
    client that a key names must be in them.
    """
    root = compose(text, source)
    nodes = [] if root is None else items(root, "the file of client keys")
    if not nodes:
        raise RulesError(
            f"{source}: there is no key in it, so no client could use the proxy; add one, or unset client_keys"
        )
    if len(nodes) > MAX_KEYS:
        raise node_error(nodes[MAX_KEYS], f"there are over {MAX_KEYS} keys; remove some")
    keys: dict[str, ClientKey] = {}
    owners: dict[str, str] = {}
    for node in nodes:
        # No value is shown: the user may have written the key instead of its digest.
        key: ClientKey = read(node, ClientKey, "an item of the file of client keys", secret=True)
        if key.name in keys:
            raise node_error(node, f"there is a key named {key.name} already; rename this one")
        if key.digest in owners:
            raise node_error(node, f"{key.name} has the same key as {owners[key.digest]}; keep one of them")
        if rules and key.client and key.client not in rules.clients:
            names = nearest(key.client, rules.clients) or "no client, for the rules have none"
            words = f"there is no client {shown(key.client)} in {rules.source}, for key {key.name}; use {names}"
            raise node_error(next(child for name, _, child in entries(node, "") if name == "client"), words)
        owners[key.digest] = key.name
        keys[key.name] = key
    return tuple(keys.values())


def parse_secret(data: bytes, source: str) -> str:
    """Return the key in a file: one line without blanks. Raises RulesError, which does not show it."""
    key = data.strip()
    if not _SECRET.fullmatch(key) or len(key) > MAX_SECRET:
        needed = f"one line of up to {MAX_SECRET} visible ASCII characters"
        raise RulesError(f"{source}: this must be a key, {needed}; write it, or unset the setting")
    return key.decode("ascii")


def parse_admin(data: bytes, source: str) -> str:
    """Return the digest of the admin key. The file has the key itself, or `sha256:` and its digest."""
    text = parse_secret(data, source)
    if not text.startswith(_HASHED):
        return digest_of(text.encode("ascii"))
    if not re.fullmatch("[0-9a-fA-F]{64}", text.removeprefix(_HASHED)):
        raise RulesError(f"{source}: after {_HASHED} there must be {_DIGEST}")
    return text.removeprefix(_HASHED).lower()
