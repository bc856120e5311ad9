"""`vllm-tool-proxy check`, and the checks that `serve` shares with it."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import re
import resource
import socket
from collections.abc import Iterator, Mapping

from msgspec import Struct
from yaml.nodes import MappingNode, Node, SequenceNode

from proxy import __version__
from proxy.cli.output import NAME, say, show
from proxy.config.load import (
    BUILT_IN,
    RulesText,
    bind,
    builtin_text,
    check_files,
    environment,
    load,
    open_to_all,
    read_keys,
    rules_of,
    rules_text,
    sections,
    working_folder,
)
from proxy.config.rules import Rules, entries_in_force, entry_text
from proxy.config.settings import Settings, origin
from proxy.config.yaml_nodes import MAX_BYTES, place_of
from proxy.display import cut, escaped
from proxy.doctor.asking import unreachable
from proxy.errors import RulesError
from proxy.exchange.plan import keyless
from proxy.limits import SPARE_DESCRIPTORS

_SHOWN = 60
# Flags whose relative paths start from the folder where the command runs.
_PATHS = ("upstream_ca", "capture", "audit_file", "client_keys", "upstream_key_file", "admin_key_file")
# Descriptors that a worker has open before its first request: the log, shared memory, the poll, pipes.
_OWN_DESCRIPTORS = 32
# Keys whose values are globs, and keys whose values may be anything.
_GLOBS = ("match", "models", "drop", "polls", "pattern")
_VALUES = ("default_value", "fallback_value", "valid_values", "sampling")
# `qwen2.*` may be a glob: it matches qwen2.5.
_REGULAR_EXPRESSION = re.compile(r"(?<![0-9])\.\*|^\^|\$$|\\[dws]")


def check_command(flags: dict[str, str], *, as_json: bool) -> None:
    """Run `check`. Raises RulesError."""
    if flags.get("rules") in ("-", "/dev/stdin"):
        with open(0, "rb", closefd=False) as stdin:
            text = RulesText(stdin.read(MAX_BYTES + 1), "<stdin>")
    else:
        text = rules_text(flags)
    settings, rules = checked_settings(flags, text)
    check_surroundings(settings, rules)
    try:
        importlib.import_module("proxy.app")
    except Exception as error:
        # A worker that cannot load the code would take the service down at a reload.
        message = f"the code cannot be loaded ({type(error).__name__}: {error}); reinstall {NAME}"
        raise RulesError(message) from error
    notes = [
        escaped(f"no key is sent to {entry.url} (models entry {entry.match}); set its key")
        for entry in keyless(rules, settings)
    ]
    notes += _notes(text, rules)
    entries = [
        escaped(f"{section} {title}: {entry_text(entry)}")
        for section, found in entries_in_force(rules).items()
        for title, entry in found
    ]
    if as_json:
        where = {"upstream": settings.upstream, "listening": bind(settings)}
        rules_file = {"source": rules.source, "sha256": rules.sha256, "summary": entries}
        report = {"ok": True, "version": __version__, **where, "rules": rules_file, "notes": notes}
        print(json.dumps(report, indent=2))
        return
    title = (
        f"ok: {NAME} {__version__}, upstream {settings.upstream}, listening on {bind(settings)}, "
        f"rules {rules.source} (sha256 {rules.sha256[:12]})"
    )
    show([title, *(f"note: {note}" for note in notes), *entries])


def checked_settings(flags: dict[str, str], text: RulesText | None = None) -> tuple[Settings, Rules]:
    """Load settings and rules, with the paths in `flags` made absolute. `text` replaces the rules file if given.

    Raises RulesError.
    """
    env = environment()
    folder = working_folder(env)
    flags |= {name: str(folder / flags[name]) for name in _PATHS if flags.get(name)}
    settings, rules = load(flags, env, text)
    for url in (settings.upstream, *rules.urls):
        if _is_own_address(url, settings):
            fix = "give the address of the model server, or listen on another port with --port"
            raise RulesError(f"upstream {url} is the address that this proxy listens on; {fix}")
    return settings, rules


def check_surroundings(settings: Settings, rules: Rules) -> None:
    """Warn about likely mistakes. Raises RulesError for unusable keys or CA files."""
    check_files(settings)
    keys = read_keys(settings, rules, environment())
    urls = dict.fromkeys((settings.upstream, *rules.urls))
    for warning in filter(None, (open_to_all(settings, keys), _few_descriptors(settings), *map(unreachable, urls))):
        say("warning", warning)


def _notes(text: RulesText, rules: Rules) -> Iterator[str]:
    """Yield a note for each pattern that looks like a regular expression, and for each section that replaces built-in
    entries.
    """
    if text.source == BUILT_IN:
        return
    own = sections(text)
    for section in ("tools", "models", "aliases"):
        for node in _globs(own[section][1], section) if section in own else ():
            if _REGULAR_EXPRESSION.search(node.value):
                glob = repr(cut(node.value, _SHOWN))
                words = "looks like a regular expression, but is read as a glob: * matches any text"
                yield f"{place_of(node)}: {glob} {words}"
    kept, builtin = _parts(rules), _parts(rules_of(builtin_text()))
    for section in ("tools", "models"):
        gone = ", ".join(dict.fromkeys(part[0] for part in builtin[section] if part not in kept[section]))
        if section in own and gone:
            yield (
                f"{place_of(own[section][0])}: the section {section} replaces the built-in entries for {gone}; copy "
                "those that you want to keep from the built-in rules.yaml"
            )


def _parts(rules: Rules) -> dict[str, list[tuple[str, Struct, tuple[str, ...]]]]:
    """Return each fix of a tool and each model, after its title."""
    return {
        "tools": [(name, fix, tool.models) for name, tool in rules.tools.items() for fix in tool.fixes],
        "models": [(model.match, model, ()) for model in rules.models],
    }


def _globs(node: Node, key: str) -> Iterator[Node]:
    """Yield the globs of a section: the keys of tools and aliases, and the values of keys that take globs."""
    if isinstance(node, MappingNode):
        for name, value in node.value:
            if key in ("tools", "aliases"):
                yield name
            if name.value not in _VALUES:
                yield from _globs(value, name.value)
    elif isinstance(node, SequenceNode):
        for item in node.value:
            yield from _globs(item, key)
    elif key in _GLOBS:
        yield node


def is_activated(env: Mapping[str, str]) -> bool:
    """Return whether systemd handed this process its sockets; exec keeps the process id."""
    return env.get("LISTEN_PID") == str(os.getpid()) and env.get("LISTEN_FDS", "0") != "0"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def try_port(host: str, port: int) -> None:
    """Bind as gunicorn does. Raises OSError if the port cannot be used."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def _is_own_address(url: str, settings: Settings) -> bool:
    """Return whether a URL leads to the address that the proxy listens on.

    The kernel decides: two sockets cannot be bound to one port of the same address, or of one that includes it.
    """
    _, host, port = origin(url)
    if port != settings.port:
        return False
    with contextlib.suppress(OSError), socket.socket(_family(settings.host), socket.SOCK_DGRAM) as own:
        own.bind((settings.host, 0))
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as other:
                    other.bind((host, own.getsockname()[1]))
            except (OSError, UnicodeError) as error:
                if getattr(error, "errno", 0) == errno.EADDRINUSE:
                    return True
    return False


def _few_descriptors(settings: Settings) -> str:
    """Return a warning if a worker may open fewer files than `max_streams` needs, else "".

    gunicorn's master raises the soft limit to the hard one (gunicorn_conf.py), so the hard one counts.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    streams = max(0, (most - SPARE_DESCRIPTORS - _OWN_DESCRIPTORS) // 2)
    if most == resource.RLIM_INFINITY or streams >= settings.max_streams:
        return ""
    return (
        f"a worker may open {most} files, enough for about {streams} concurrent streams, but max_streams is "
        f"{settings.max_streams}; raise the limit (LimitNOFILE= of the unit, ulimit -Hn), or lower --max-streams"
    )
