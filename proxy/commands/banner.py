"""The startup lines of `serve`: three log lines with addresses, model servers, rules, keys, files and limits.

They never contain a key: `facts` receives only which keys exist.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

from proxy import __version__
from proxy.codec.display import printable
from proxy.config.api_keys import Keys
from proxy.config.load import bind
from proxy.config.rules import Rules
from proxy.config.settings import Settings
from proxy.exchange.routing import keyless, server_of
from proxy.limits import THREADS
from proxy.web.routes import CHAT, MESSAGES, RESPONSES
from proxy.worker.logging_setup import log_line

NAME = "vllm-tool-proxy"
# Facts that stand on one line of the log.
_ON_ONE_LINE = (
    ("listens on", "paths", "model servers"),
    ("rules", "keys", "no key for"),
    ("writes", "limits"),
)


@dataclass(frozen=True, slots=True)
class KeysThere:
    """Which keys there are: how many of clients, and whether one for the model server and one of the admin's."""

    clients: int = 0
    upstream: bool = False
    admin: bool = False


def keys_there(keys: Keys) -> KeysThere:
    """Which keys there are, without the keys."""
    return KeysThere(len(keys.clients), keys.upstream != "", keys.admin != b"")


def facts(settings: Settings, rules: Rules, keys: KeysThere) -> dict[str, str]:
    """Return the startup facts by name, such as `listens on`; each text is safe to print."""
    texts = {
        "listens on": f"http://{bind(settings)}",
        "paths": _paths(settings),
        "model servers": ", ".join(_servers(settings, rules)),
        "rules": f"{rules.source} ({_entries(rules)})",
        "keys": _keys(keys),
        "writes": "; ".join(_written(settings)) or "the log alone",
        "limits": _limits(settings),
    }
    if without := [*keyless_entries(settings, rules)]:
        texts["no key for"] = ", ".join(without)
    return {name: printable(text, " ") for name, text in texts.items()}


def show(settings: Settings, rules: Rules, keys: KeysThere, stream: TextIO | None = None) -> None:
    """Write the lines to `stream` (default: standard error, if open).

    A write error is ignored: a full disk must not keep the proxy from serving.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None:  # it was closed when the process began
        return
    with contextlib.suppress(OSError):
        _write(settings, facts(settings, rules, keys), stream)


def _write(settings: Settings, texts: Mapping[str, str], stream: TextIO) -> None:
    for line in _lines(texts):
        print(log_line(line, json_lines=settings.log_format == "json"), file=stream, flush=True)


def _lines(texts: Mapping[str, str]) -> Iterator[str]:
    """`vllm-tool-proxy 0.2.0 listens on: http://127.0.0.1:8003; paths: …`"""
    for names in _ON_ONE_LINE:
        line = "; ".join(f"{name}: {texts[name]}" for name in names if name in texts)
        yield f"{NAME} {__version__} {line}"


def _paths(settings: Settings) -> str:
    own = ", ".join(route.path for route in (CHAT, MESSAGES, RESPONSES))
    passed = len(settings.pass_through)
    return f"{own}, and {passed} that are passed through" if passed else own


def _servers(settings: Settings, rules: Rules) -> Iterator[str]:
    """Each model server, with its kind where the rules say it."""
    for url in dict.fromkeys((settings.upstream, *rules.urls)):
        kinds = {model.server_kind for model in rules.models if model.server_kind and server_of(model, settings) == url}
        yield f"{url} ({', '.join(sorted(kinds))})" if kinds else url


def _entries(rules: Rules) -> str:
    counts = {
        "rules for tools": len(rules.tools),
        "models": len(rules.models),
        "aliases": len(rules.aliases),
        "clients": len(rules.clients),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no entries"


def keyless_entries(settings: Settings, rules: Rules) -> Iterator[str]:
    """Yield each entry of `models` whose server gets no key, with its URL; each is safe to print."""
    for entry in keyless(rules, settings):
        yield printable(f"models {entry.match} at {entry.url}", " ")


def _keys(keys: KeysThere) -> str:
    key_counts = ["no client needs one"]
    if keys.clients:
        key_counts = ["1 client" if keys.clients == 1 else f"{keys.clients} clients"]
    if keys.upstream:
        key_counts.append("one for the model server")
    if keys.admin:
        key_counts.append("the admin's")
    return ", ".join(key_counts)


def _written(settings: Settings) -> Iterator[str]:
    """The files that are written beside the log, each with its place."""
    if settings.capture:
        yield f"captures to {settings.capture}"
    if settings.audit_file:
        yield f"repairs with their values to {settings.audit_file}"
    if settings.audit_values and not settings.no_ui:
        yield "what clients and models say to the live page"


def _limits(settings: Settings) -> str:
    workers = "1 worker" if settings.workers == 1 else f"{settings.workers} workers"
    return (
        f"{workers}, each with {settings.max_streams} streams and {THREADS} other requests; "
        f"{settings.max_body // 1024} KiB of a request, {settings.graceful_timeout} s to end"
    )
