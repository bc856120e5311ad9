"""The settings. A field of `Settings` has the type, default and limits; its docstring has the help.

Flags, environment variables, keys in the rules file, `--help` and `docs/rules.schema.json` are generated from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import cleandoc
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Meta, Struct, structs
from yaml.nodes import Node

from proxy.config.yaml_nodes import (
    INTEGER,
    NUMBER,
    checked,
    entries,
    nearest,
    node_error,
    read,
    shown,
    usable,
    whole,
)
from proxy.limits import MAX_BODY, MAX_HELD
from proxy.repair.policy import TRUTHS

PREFIX = "TOOL_PROXY_"
ONE_SERVER = (
    "the URL of one model server; put several equal servers behind HAProxy or vLLM's router "
    "and give its URL (docs/scale.md)"
)
_URL = re.compile(r"[!-~]+")
CLIENT_NAME = r"[a-z0-9][a-z0-9._-]{0,63}"
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]?")
_PATH = re.compile(r"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9_.-]+)+")
_ORIGIN = re.compile(r"\*|loopback|[a-z][a-z0-9+.-]*://(?:(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?)?")
# Names in earlier systems.
_FLAGS = {"upstream": ("--vllm-url", "--target-url")}
_VARIABLES = {"upstream": ("VLLM_URL",), "port": ("PROXY_PORT",), "max_tool_calls": ("MAX_TOOL_CALLS",)}
_KEYS = {"hold_timeout": ("buffer_timeout",), "max_held": ("max_buffer_size",)}

Setting: TypeAlias = bool | int | float | str | tuple[str, ...]


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL that `server_url` returned (RFC 6454)."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def server_url(text: str) -> str:
    """Return the URL without a final `/v1`. Raises ValueError, which describes a valid URL."""
    needed = ValueError("an http:// or https:// URL of a host, without user, query or fragment")
    if "," in text:
        raise ValueError(ONE_SERVER)
    if not _URL.fullmatch(text) or re.search(r"[@?#\\]", text):
        raise needed
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        raise needed from None
    if not usable:
        raise needed
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1').rstrip('/')}"


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError
    return value.strip("[]")


def _all(pattern: re.Pattern[str], values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the distinct values. Raises ValueError if one does not match."""
    if not all(map(pattern.fullmatch, values)):
        raise ValueError
    return tuple(dict.fromkeys(values))


Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=86400, title="a number of seconds over 0 and up to 86400")]
Url: TypeAlias = Annotated[str, checked(server_url, ONE_SERVER)]
# Paths are absolute, because the workers run in another folder than the command.
File: TypeAlias = Annotated[str, Meta(pattern="^(/|$(?!\n))", title="the absolute path of a file")]
# An invalid value may be the key itself.
KeyPath: TypeAlias = Annotated[File, Meta(extra={"secret": True})]
Folder: TypeAlias = Annotated[str, Meta(pattern="^(/|$(?!\n))", title="the absolute path of a folder")]
Host: TypeAlias = Annotated[str, checked(_host, "an IP address or a host name")]
Client: TypeAlias = Annotated[str, Meta(pattern=f"^({CLIENT_NAME})?$(?!\n)", title="the name of a client in the rules")]
Paths: TypeAlias = Annotated[
    tuple[str, ...], checked(lambda paths: _all(_PATH, paths), "a list of plain paths like /v1/rerank")
]
Origins: TypeAlias = Annotated[
    tuple[str, ...],
    checked(
        lambda origins: _all(_ORIGIN, tuple(map(str.lower, origins))),
        "a list of origins like https://host:8080, app://, loopback or *, without a path",
    ),
]


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of the proxy; each is also a flag and an environment variable, which win over the rules file.

    Addresses:

    upstream URL: Base URL of the model server, with or without /v1
    upstream_ca FILE: Absolute path of the CA certificate of an https model server
    host HOST: Address to listen on; 0.0.0.0 opens the proxy to the network, so set client_keys
    port N: Port to listen on

    Concurrency:

    workers N: Worker processes; add some only if one CPU core is not enough
    max_streams N: Maximum concurrent streams per worker

    Timeouts:

    heartbeat SECONDS: Time (s) without data after which the client is sent a heartbeat
    idle_timeout SECONDS: Maximum time (s) to wait for the model server's headers, and between two parts of its response
    graceful_timeout SECONDS: Time (s) for open streams to finish on stop or reload, before they end in an error
    hold_timeout SECONDS: Maximum time (s) to hold text that may become a tool call

    Request limits:

    max_tool_calls N: Number of tool results in a conversation at which the proxy ends it; 0 means no limit
    max_body N: Maximum size of a request body in bytes
    max_held N: Maximum number of bytes to hold for one tool call

    Repairs:

    case_sensitive_tools: Match tool names in the rules case-sensitively

    Clients and paths:

    client NAME: Name of the client in the rules that every request is treated as
    pass_through PATH,PATH: Paths that are forwarded to the model server unchanged
    origins ORIGIN,ORIGIN: Web pages that may call the proxy: loopback, https://HOST, https://HOST:PORT, SCHEME://, or *

    Keys:

    client_keys FILE: File with the keys that clients must send; default: the systemd credential client-keys
    upstream_key_file FILE: File with the model server's key; default: the systemd credential upstream-key
    admin_key_file FILE: File with the key for /_reload and /metrics, or its SHA-256; default: the credential admin-key

    Logs and records:

    log_format HOW: Format of the log: text or json
    detailed_logging: Write the audit file, in the service's own folder unless audit_file is set
    audit_file FILE: Absolute path of a file that records each repair with its before and after
    no_ui: Turn off the live page /_ui and its record of requests
    audit_values: Show on the live page what clients and models say; keys in replies are not masked
    capture DIR: Absolute path of a folder that receives each response of the model server, for parse --capture
    store HOW: Keep responses in memory for a day, for Responses clients that refer to them; needs $RUNTIME_DIRECTORY
    """

    upstream: Url = "http://127.0.0.1:8000"
    upstream_ca: File = ""
    host: Host = "127.0.0.1"
    port: Annotated[int, whole(1, 65535)] = 8003
    workers: Annotated[int, whole(1, 256)] = 1
    max_streams: Annotated[int, whole(1, 16384)] = 2000
    heartbeat: Seconds = 10.0
    idle_timeout: Seconds = 600.0
    graceful_timeout: Annotated[int, whole(1, 3600)] = 60
    hold_timeout: Seconds = 900.0
    max_tool_calls: Annotated[int, whole(0, 1_000_000)] = 0
    max_body: Annotated[int, whole(1024, 2**31)] = MAX_BODY
    max_held: Annotated[int, whole(1024, 2**31)] = MAX_HELD
    case_sensitive_tools: bool = False
    client: Client = ""
    pass_through: Paths = (
        "/v1/rerank",
        "/v1/score",
        "/v1/classify",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
    )
    origins: Origins = ("loopback", "app://", "file://", "tauri://", "vscode-webview://")
    client_keys: KeyPath = ""
    upstream_key_file: KeyPath = ""
    admin_key_file: KeyPath = ""
    log_format: Literal["text", "json"] = "text"
    detailed_logging: bool = False
    audit_file: File = ""
    no_ui: bool = False
    audit_values: bool = False
    capture: Folder = ""
    store: Literal["on", "off"] = "on"


@dataclass(frozen=True, slots=True)
class Spec:
    """One setting. In `flags`, `variables` and `keys` its current name is first, before aliases."""

    name: str
    kind: Any
    default: Setting
    help: str
    metavar: str
    flags: tuple[str, ...]
    variables: tuple[str, ...]
    keys: tuple[str, ...]

    def from_text(self, text: str, where: str) -> Setting:
        """Parse the value of a flag or variable. Raises RulesError, whose message begins with `where`."""
        value: Setting = text
        if isinstance(self.default, bool):
            value = TRUTHS.get(text.lower(), text)
        elif isinstance(self.default, int | float) and NUMBER.match(text):
            value = int(text) if INTEGER.match(text) else float(text)
        elif isinstance(self.default, tuple):
            value = tuple(word.strip() for word in text.split(",")) if text.strip() else ()
        used: Setting = usable(value, self.kind, where)
        return used


def _specs() -> tuple[Spec, ...]:
    described: dict[str, tuple[str, str]] = {}
    for line in cleandoc(Settings.__doc__ or "").splitlines():
        names, _, help = line.partition(":")
        name, _, metavar = names.partition(" ")
        described[name] = (help.strip(), metavar)

    def spec(field: structs.FieldInfo) -> Spec:
        name = field.name
        return Spec(
            name,
            field.type,
            field.default,
            *described.get(name, ("", "")),  # `python -OO` removes docstrings
            flags=(f"--{name.replace('_', '-')}", *_FLAGS.get(name, ())),
            variables=(f"{PREFIX}{name.upper()}", *_VARIABLES.get(name, ())),
            keys=(name, *_KEYS.get(name, ())),
        )

    return tuple(map(spec, structs.fields(Settings)))


SPECS = _specs()


def read_settings(node: Node) -> dict[str, Setting]:
    """Return the valid settings of a rules file, by setting name. Raises RulesError."""
    specs = {key: spec for spec in SPECS for key in spec.keys}
    found: dict[str, Setting] = {}
    for key, key_node, child in entries(node, "settings"):
        if key not in specs:
            raise node_error(key_node, f"there is no setting {shown(key)}; use {nearest(key, specs)}")
        spec = specs[key]
        if spec.name in found:
            raise node_error(key_node, f"{' and '.join(spec.keys)} are one setting; keep one of them")
        found[spec.name] = read(child, spec.kind, key)
    return found
