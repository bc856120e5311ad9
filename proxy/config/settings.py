"""The settings: each one described once, as a field of `Settings`.

Its flag, its variable, its key in the rules file and its line of `--help` all come from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from proxy.config import validators as checks
from proxy.config.rules import Setting
from proxy.config.validators import Check
from proxy.config.yaml_nodes import shown
from proxy.errors import RulesError
from proxy.limits import MAX_BODY, MAX_HELD

PREFIX = "TOOL_PROXY_"

_Default = TypeVar("_Default", bound=Setting)


def _setting(
    default: _Default,
    check: Check,
    help: str,
    *,
    group: str,
    metavar: str = "N",
    flags: tuple[str, ...] = (),
    variables: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
) -> _Default:
    """A field of `Settings`; `flags`, `variables` and `keys` (in the rules file) are the earlier systems' names."""
    about = {"check": check, "help": help, "group": group, "metavar": metavar}
    names = {"flags": flags, "variables": variables, "keys": keys}
    return field(default=default, metadata={"default": default, **about, **names})


_WHERE = "Where"
_HOW_MUCH = "How much at once"
_TIMES = "Times"
_LIMITS = "Limits of one request"
_REPAIRS = "Repairs"
_KEYS = "Keys"
_CLIENTS = "Clients and paths"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings, checked; times are in seconds."""

    upstream: str = _setting(
        "http://127.0.0.1:8000",
        checks.upstream_url,
        "where the model server is; with or without /v1 at the end",
        group=_WHERE,
        metavar="URL",
        flags=("--vllm-url", "--target-url"),
        variables=("VLLM_URL",),
    )
    upstream_ca: str = _setting(
        "",
        checks.file,
        "file with the CA certificate of an https model server; an absolute path",
        group=_WHERE,
        metavar="FILE",
    )
    host: str = _setting(
        "127.0.0.1",
        checks.host,
        "address to listen on; 0.0.0.0 opens the proxy to the network: set client_keys then",
        group=_WHERE,
        metavar="HOST",
    )
    port: int = _setting(
        8003, checks.int_between(1, 65535), "port to listen on", group=_WHERE, variables=("PROXY_PORT",)
    )
    workers: int = _setting(
        1,
        checks.int_between(1, 256),
        "worker processes; more than one only if one CPU core is not enough",
        group=_HOW_MUCH,
    )
    max_streams: int = _setting(
        2000, checks.int_between(1, 16384), "streams that one worker has at the same time", group=_HOW_MUCH
    )
    heartbeat: float = _setting(
        10.0,
        checks.seconds,
        "seconds without a byte to the client until a heartbeat is sent",
        group=_TIMES,
        metavar="SECONDS",
    )
    idle_timeout: float = _setting(
        600.0,
        checks.seconds,
        "seconds without a byte of the model server: until its headers, and between two bytes of its answer",
        group=_TIMES,
        metavar="SECONDS",
    )
    graceful_timeout: int = _setting(
        60,
        checks.int_between(1, 3600),
        "seconds that streams get to end at a stop or a reload; then they end with an error",
        group=_TIMES,
        metavar="SECONDS",
    )
    hold_timeout: float = _setting(
        900.0,
        checks.seconds,
        "seconds that text which may become a tool call is held back at most",
        group=_TIMES,
        metavar="SECONDS",
        keys=("buffer_timeout",),
    )
    max_tool_calls: int = _setting(
        0,
        checks.int_between(0, 1_000_000),
        "tool results in one conversation at which the proxy ends it; 0 is no limit",
        group=_LIMITS,
        variables=("MAX_TOOL_CALLS",),
    )
    max_body: int = _setting(MAX_BODY, checks.int_between(1024, 2**31), "bytes of one request's body", group=_LIMITS)
    max_held: int = _setting(
        MAX_HELD,
        checks.int_between(1024, 2**31),
        "bytes held back for one tool call",
        group=_LIMITS,
        keys=("max_buffer_size",),
    )
    case_sensitive_tools: bool = _setting(
        False, checks.boolean, "take the names of tools in the rules exactly, letter case and all", group=_REPAIRS
    )
    client: str = _setting(
        "",
        checks.client,
        "name of the client in the rules that all requests are taken to come from",
        group=_CLIENTS,
        metavar="NAME",
    )
    pass_through: tuple[str, ...] = _setting(
        (
            "/v1/rerank",
            "/v1/score",
            "/v1/classify",
            "/v1/audio/transcriptions",
            "/v1/audio/translations",
        ),
        checks.paths,
        "paths that are passed to the model server as they are",
        group=_CLIENTS,
        metavar="PATH,PATH",
    )
    origins: tuple[str, ...] = _setting(
        ("loopback", "app://", "file://", "tauri://", "vscode-webview://"),
        checks.origins,
        "web pages that may ask: loopback, https://HOST, https://HOST:PORT, all of a SCHEME://, or *",
        group=_CLIENTS,
        metavar="ORIGIN,ORIGIN",
    )
    client_keys: str = _setting(
        "",
        checks.file,
        "file of the keys of which a client needs one (docs/security.md); else the systemd credential client-keys",
        group=_KEYS,
        metavar="FILE",
    )
    upstream_key_file: str = _setting(
        "",
        checks.file,
        "file with the key for the model server; else the systemd credential upstream-key",
        group=_KEYS,
        metavar="FILE",
    )
    admin_key_file: str = _setting(
        "",
        checks.file,
        "file with the key of /_reload and /metrics, or its SHA-256; else the systemd credential admin-key",
        group=_KEYS,
        metavar="FILE",
    )
    log_format: str = _setting(
        "text", checks.one_of("text", "json"), "how the log is written: text or json", group=_CLIENTS, metavar="HOW"
    )
    detailed_logging: bool = _setting(
        False,
        checks.boolean,
        "write the audit file, in a folder of the service's own if audit_file names none",
        group=_CLIENTS,
    )
    audit_file: str = _setting(
        "",
        checks.file,
        "file for a record of each repair, with what it was before and after; an absolute path",
        group=_CLIENTS,
        metavar="FILE",
    )
    no_ui: bool = _setting(
        False, checks.boolean, "turn the live page /_ui off, and keep no record of requests for it", group=_CLIENTS
    )
    audit_values: bool = _setting(
        False,
        checks.boolean,
        "keep for the live page, and show there, what clients and models say; keys in replies are not masked",
        group=_CLIENTS,
    )
    capture: str = _setting(
        "",
        checks.folder,
        "folder to which each chat answer of the model server is written, for parse --capture; an absolute path",
        group=_CLIENTS,
        metavar="DIR",
    )
    store: str = _setting(
        "on",
        checks.one_of("on", "off"),
        "keep responses for a day, in memory, for Responses clients that refer to them; needs $RUNTIME_DIRECTORY",
        group=_CLIENTS,
        metavar="HOW",
    )


@dataclass(frozen=True, slots=True)
class Spec:
    """The names, the default and the check of one setting; `flags`, `variables` and `keys` begin with its own name, the
    aliases follow.
    """

    name: str
    default: Setting
    check: Check
    help: str
    group: str
    metavar: str
    flags: tuple[str, ...]
    variables: tuple[str, ...]
    keys: tuple[str, ...]

    def from_text(self, text: str, where: str) -> Setting:
        """The value of a flag or a variable; raises RulesError that names `where` it was written."""
        return self.checked(checks.typed(text, self.default), where)

    def checked(self, value: Setting, where: str) -> Setting:
        """The value to use for `value`; raises RulesError that names `where` it was written."""
        try:
            return self.check(value)
        except ValueError as needed:
            # A URL with a password in it, or a key where its file should be, must not get into a log.
            named = "this value" if "@" in str(value) or "_key" in self.name else shown(_as_written(value))
            raise RulesError(f"{where}: {named} cannot be used; it must be {needed}") from None


def _as_written(value: Setting) -> object:
    """A list of a file as it is spelled there, in brackets."""
    return [*value] if isinstance(value, tuple) else value


def _specs() -> tuple[Spec, ...]:
    def spec(name: str, about: Mapping[str, Any]) -> Spec:
        flags = (f"--{name.replace('_', '-')}", *about["flags"])
        variables = (f"{PREFIX}{name.upper()}", *about["variables"])
        keys = (name, *about["keys"])
        return Spec(name=name, **{**about, "flags": flags, "variables": variables, "keys": keys})

    return tuple(spec(each.name, each.metadata) for each in fields(Settings))


SPECS = _specs()
