"""The settings: each one described once, as a field of `Settings`.

Its flag, its variable, its key in the rules file and its line of `--help` all come from there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from .errors import RulesError
from .limits import AUDIT_SIZE, MAX_BODY, MAX_CALLS, MAX_EVENT, MAX_HELD
from .rules import CLIENT_NAME, Setting
from .rules_file import shown

PREFIX = "TOOL_PROXY_"

# Takes a value of any type, returns the one to use, or raises ValueError that says what is needed.
Check: TypeAlias = Callable[[Setting], Setting]
_Default = TypeVar("_Default", bound=Setting)

_DAY = 86400
_PATH_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]?")
_URL = re.compile(r"[!-~]+")
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][-+]?[0-9]{1,3})?")
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _whole(low: int, high: int) -> Check:
    def check(value: Setting) -> Setting:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return check


def _seconds(value: Setting) -> Setting:
    if type(value) not in (int, float) or not 0 < (number := float(value)) <= _DAY:  # type: ignore[arg-type]
        raise ValueError(f"a number of seconds over 0 and up to {_DAY}")
    return number


def _truth(value: Setting) -> Setting:
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def _one_of(*words: str) -> Check:
    def check(value: Setting) -> Setting:
        if value not in words:
            raise ValueError(" or ".join(word or '""' for word in words))
        return value

    return check


def _upstream(value: Setting) -> Setting:
    needed = ValueError("an http:// or https:// URL of a host, without user, query or fragment")
    if not isinstance(value, str) or not _URL.fullmatch(value) or re.search(r"[@?#\\]", value):
        raise needed
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        raise needed from None
    if not usable:
        raise needed
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1').rstrip('/')}"


def _host(value: Setting) -> Setting:
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise ValueError("an IP address or a host name")
    return value.strip("[]")


def _client(value: Setting) -> Setting:
    if not isinstance(value, str) or (value and not CLIENT_NAME.fullmatch(value)):
        raise ValueError("the name of a client in the rules")
    return value


def _paths(value: Setting) -> Setting:
    if not isinstance(value, tuple) or not all(map(_is_path, value)):
        raise ValueError("a list of plain paths like /v1/rerank")
    return tuple(dict.fromkeys(value))


def _is_path(path: str) -> bool:
    words = path.split("/")
    plain = all(_PATH_WORD.fullmatch(word) and word not in (".", "..") for word in words[1:])
    return words[0] == "" and len(words) > 1 and plain


def _path_of(what: str) -> Check:
    def check(value: Setting) -> Setting:
        # Relative to what? The workers run in another folder than the command.
        if not isinstance(value, str) or (value and not os.path.isabs(value)):
            raise ValueError(f"the absolute path of {what}")
        return value

    return check


_file = _path_of("a file")
_folder = _path_of("a folder")


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
_CLIENTS = "Clients and paths"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the proxy was told, checked; the times are in seconds."""

    upstream: str = _setting(
        "http://127.0.0.1:8000",
        _upstream,
        "where the model server is; with or without /v1 at the end",
        group=_WHERE,
        metavar="URL",
        flags=("--vllm-url", "--target-url"),
        variables=("VLLM_URL",),
    )
    upstream_ca: str = _setting(
        "",
        _file,
        "file with the CA certificate of an https model server; an absolute path",
        group=_WHERE,
        metavar="FILE",
    )
    host: str = _setting(
        "127.0.0.1",
        _host,
        "address to listen on; 0.0.0.0 opens the proxy to the network, without keys",
        group=_WHERE,
        metavar="HOST",
    )
    port: int = _setting(8003, _whole(1, 65535), "port to listen on", group=_WHERE, variables=("PROXY_PORT",))
    workers: int = _setting(
        1, _whole(1, 256), "worker processes; more than one only if one CPU core is not enough", group=_HOW_MUCH
    )
    threads: int = _setting(512, _whole(4, 16384), "requests that one worker serves at the same time", group=_HOW_MUCH)
    heartbeat: float = _setting(
        10.0,
        _seconds,
        "seconds without a byte to the client until a heartbeat is sent",
        group=_TIMES,
        metavar="SECONDS",
    )
    connect_timeout: float = _setting(
        2.0, _seconds, "seconds to wait for a connection to the model server", group=_TIMES, metavar="SECONDS"
    )
    send_timeout: float = _setting(
        60.0, _seconds, "seconds that the model server may leave a request unread", group=_TIMES, metavar="SECONDS"
    )
    header_timeout: float = _setting(
        600.0,
        _seconds,
        "seconds until the model server's headers, or its whole answer if that is not streamed",
        group=_TIMES,
        metavar="SECONDS",
    )
    idle_timeout: float = _setting(
        600.0, _seconds, "seconds between two bytes of the model server", group=_TIMES, metavar="SECONDS"
    )
    hold_timeout: float = _setting(
        900.0,
        _seconds,
        "seconds that text which may become a tool call is held back at most",
        group=_TIMES,
        metavar="SECONDS",
        keys=("buffer_timeout",),
    )
    max_tool_calls: int = _setting(
        0,
        _whole(0, 1_000_000),
        "tool results in one conversation at which the proxy ends it; 0 is no limit",
        group=_LIMITS,
        variables=("MAX_TOOL_CALLS",),
    )
    max_calls: int = _setting(MAX_CALLS, _whole(1, 10_000), "tool calls in one reply", group=_LIMITS)
    max_body: int = _setting(MAX_BODY, _whole(1024, 2**31), "bytes of one request's body", group=_LIMITS)
    max_event: int = _setting(
        MAX_EVENT, _whole(1024, 2**31), "bytes of one event of the model server's stream", group=_LIMITS
    )
    max_held: int = _setting(
        MAX_HELD,
        _whole(1024, 2**31),
        "bytes held back for one tool call",
        group=_LIMITS,
        keys=("max_buffer_size",),
    )
    case_sensitive_tools: bool = _setting(
        False, _truth, "take the names of tools in the rules exactly, letter case and all", group=_REPAIRS
    )
    infer_names: str = _setting(
        "",
        _one_of("schema", "table", ""),
        "what tells a call without a name: schema (the offered tools) or table (where they do not, usual keys)",
        group=_REPAIRS,
        metavar="HOW",
    )
    repair_typos: bool = _setting(
        False, _truth, "put a misspelled argument right if it is one letter from a required one", group=_REPAIRS
    )
    client: str = _setting(
        "",
        _client,
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
            "/v1/messages",
            "/v1/responses",
        ),
        _paths,
        "paths that are passed to the model server as they are",
        group=_CLIENTS,
        metavar="PATH,PATH",
    )
    verbose: bool = _setting(False, _truth, "log also what was before and after each repair", group=_CLIENTS)
    detailed_logging: bool = _setting(
        False,
        _truth,
        "write the audit file, in a folder of the service's own if audit_file names none",
        group=_CLIENTS,
    )
    audit_file: str = _setting(
        "",
        _file,
        "file for a record of each repair, with what it was before and after; an absolute path",
        group=_CLIENTS,
        metavar="FILE",
    )
    audit_size: int = _setting(
        AUDIT_SIZE, _whole(64 * 1024, 2**40), "bytes of the audit file at which a new one begins", group=_CLIENTS
    )
    capture: str = _setting(
        "",
        _folder,
        "folder to which each chat answer of the model server is written for replay; an absolute path",
        group=_CLIENTS,
        metavar="DIR",
    )
    observe: bool = _setting(
        False, _truth, "change nothing: requests and answers pass as they are; log what would be done", group=_CLIENTS
    )


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of one setting; `flags`, `variables` and `keys` begin with its own name, the aliases follow."""

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
        return self.checked(_typed(text, self.default), where)

    def checked(self, value: Setting, where: str) -> Setting:
        """The value to use for `value`; raises RulesError that names `where` it was written."""
        try:
            return self.check(value)
        except ValueError as needed:
            # A URL with a password in it must not get into a log.
            named = "this value" if "@" in str(value) else shown(value)
            raise RulesError(f"{where}: {named} cannot be used; it must be {needed}") from None


def _typed(text: str, default: Setting) -> Setting:
    """`text` as the type of `default`; the text itself if it is not of that type, for the check to refuse."""
    if isinstance(default, bool):
        return _TRUTHS.get(text.lower(), text)
    if isinstance(default, int):
        return int(text) if _INT.fullmatch(text) else text
    if isinstance(default, float):
        return float(text) if _FLOAT.fullmatch(text) else text
    if isinstance(default, tuple):
        return tuple(word.strip() for word in text.split(",")) if text.strip() else ()
    return text


def _specs() -> tuple[Spec, ...]:
    def spec(name: str, about: Mapping[str, Any]) -> Spec:
        flags = (f"--{name.replace('_', '-')}", *about["flags"])
        variables = (f"{PREFIX}{name.upper()}", *about["variables"])
        keys = (name, *about["keys"])
        return Spec(name=name, **{**about, "flags": flags, "variables": variables, "keys": keys})

    return tuple(spec(each.name, each.metadata) for each in fields(Settings))


SPECS = _specs()
