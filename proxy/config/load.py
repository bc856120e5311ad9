"""Loading of settings, rules and keys from flags, the environment and files, and what a rules file puts in force.

No other module reads the environment.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs
from yaml.nodes import Node, ScalarNode

from proxy.config.api_keys import Keys, parse_admin, parse_clients, parse_secret
from proxy.config.rules import Rules, parse_rules
from proxy.config.settings import PREFIX, SPECS, Setting, Settings, Spec, origin
from proxy.config.yaml_nodes import MAX_BYTES, compose, entries, nearest, shown
from proxy.errors import RulesError

RULES_VARIABLE = f"{PREFIX}RULES"
# Set by each gunicorn worker: the descriptor that makes its streams end.
DRAIN_VARIABLE = f"{PREFIX}DRAIN"
# Set by gunicorn's master: the pseudonym in `Via` that marks the workers' own requests. It lacks the settings' prefix,
# so that a release that does not know it still starts under a master that sets it.
VIA_VARIABLE = "VLLM_TOOL_PROXY_VIA"
# The model server's key. It is not a setting: flags are visible in the process list, and rules files are shared.
KEY_VARIABLE = f"{PREFIX}UPSTREAM_KEY"
# Where systemd puts a unit's credentials.
_CREDENTIALS = "CREDENTIALS_DIRECTORY"
RULES_NAME = "rules.yaml"
SYSTEM_RULES = Path("/etc/vllm-tool-proxy", RULES_NAME)
# Top-level keys of a rules file, at the start of a line. Prometheus rules files, for example, have `groups:`.
_OUR_KEYS = re.compile(rb"^(?:settings|models|tools|clients|aliases)\s*:", re.MULTILINE)
BUILT_IN = "built-in"
AUDIT_NAME = "vllm-tool-proxy-audit.jsonl"

_Parsed = TypeVar("_Parsed")


class RulesText(Struct, frozen=True):
    """The bytes of a rules file, and their source: its path, or "built-in"."""

    data: bytes
    source: str


def environment() -> dict[str, str]:
    """Return a copy of the process's environment."""
    return dict(os.environ)


def working_folder(env: Mapping[str, str]) -> Path:
    """Return the folder that relative paths start from, as the user spells it.

    Symlinks are not resolved: a deployment switches them, and a reload must find the files of the new release.
    """
    try:
        spelled = env.get("PWD", "")
        if os.path.isabs(spelled) and os.path.samefile(spelled, "."):
            return Path(spelled)
        return Path.cwd()
    except OSError:
        return Path("/")


def find_rules(flag: str | None, env: Mapping[str, str]) -> Path | None:
    """Return the rules file in force, or None for the built-in rules.

    The first of: `--rules`, TOOL_PROXY_RULES, the user's file, the system's file. The working folder is never searched:
    rules choose the server that receives prompts and keys, and rewrite tool calls, so those of a cloned repository must
    not apply. Raises RulesError if a named file does not exist.
    """
    named, source = flag, "--rules"
    if named is None:
        named, source = env.get(RULES_VARIABLE), RULES_VARIABLE
    if named is not None:
        path = working_folder(env) / named
        if not named or not _exists(path):
            raise RulesError(f"{source}: there is no file {named!r}; give the path of a rules file")
        return path
    own = user_rules(env)
    if own is not None and _exists(own, closed=False):
        return own
    return SYSTEM_RULES if _exists(SYSTEM_RULES) else None


def user_rules(env: Mapping[str, str]) -> Path | None:
    """Return the path of the user's rules file, or None without a home folder (XDG Base Directory Specification)."""
    folder = env.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):
        if not os.path.isabs(env.get("HOME", "")):
            return None
        folder = os.path.join(env["HOME"], ".config")
    return Path(folder, "vllm-tool-proxy", RULES_NAME)


def unread_rules(env: Mapping[str, str]) -> Path | None:
    """Return the `rules.yaml` of the working folder if it looks like a rules file of this proxy and is not in force.

    For commands without `--rules`. Returns None if TOOL_PROXY_RULES names a file, and for a copy of the rules in force
    or of the built-in rules.
    """
    if RULES_VARIABLE in env:
        return None
    path = working_folder(env) / RULES_NAME
    try:
        data, in_force = read_file(path), rules_text({}, env)
    except RulesError:
        return None
    is_copy = data in (in_force.data, builtin_text().data)
    return path if _OUR_KEYS.search(data) and not is_copy else None


def _exists(path: Path, *, closed: bool = True) -> bool:
    """Return whether a file exists; raises RulesError if its folder cannot be searched.

    With `closed=False` it returns False instead: under ProtectHome= a service cannot search its user's home folder.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if isinstance(error, PermissionError) and not closed:
            return False
        raise _unreadable(path, error) from None
    return True


def _unreadable(path: Path, error: OSError) -> RulesError:
    return RulesError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions")


def rules_text(flags: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None) -> RulesText:
    """Return the text of the rules file in force, for `load`. Raises RulesError if it cannot be read."""
    env = environment() if env is None else env
    path = find_rules((flags or {}).get("rules"), env)
    return builtin_text() if path is None else RulesText(read_file(path), _source(path))


def read_file(path: Path) -> bytes:
    """Return the bytes of a file, up to one more than MAX_BYTES.

    Raises RulesError, also if it is not a regular file: a pipe may never end, and can be read only once.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    raise RulesError(f"{path}: a pipe or a device cannot be used here; give the path of a regular file")


def _source(path: Path) -> str:
    """Return a path as text that can be encoded: file names may have any bytes."""
    return os.fsencode(path).decode(errors="replace")


def builtin_text() -> RulesText:
    """Return the text of the built-in rules."""
    return RulesText(resources.files("proxy").joinpath("rules.yaml").read_bytes(), BUILT_IN)


# A start or a reload reads the same rules twice: to validate them, and to apply them.
@lru_cache(maxsize=4)
def rules_of(text: RulesText) -> Rules:
    """Return the rules of a text, with missing sections from the built-in ones. Raises RulesError."""
    if text.source == BUILT_IN:
        return parse_rules(text.data, text.source)
    return parse_rules(text.data, text.source, rules_of(builtin_text()))


def load(
    flags: Mapping[str, str | None] | None = None, env: Mapping[str, str] | None = None, text: RulesText | None = None
) -> tuple[Settings, Rules]:
    """Return the settings and rules in force. Flags override the environment, and the environment the rules file.

    `flags` are by the settings' names, or `rules`; a flag of None is not given. Reads the process's environment if
    `env` is None, and the rules file if `text` is None. Raises RulesError, with the place, for the first error.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    env = environment() if env is None else env
    known = {RULES_VARIABLE, KEY_VARIABLE, DRAIN_VARIABLE, *(spec.variables[0] for spec in SPECS)}
    for name in env:
        if name.startswith(PREFIX) and name not in known:
            raise RulesError(f"{name}: there is no such variable; use {nearest(name, known - {DRAIN_VARIABLE})}")
    rules = rules_of(rules_text(given, env) if text is None else text)
    values: dict[str, Any] = {spec.name: _value(spec, given, env, rules.settings) for spec in SPECS}
    # The key in a rules file is only for the server in the same file.
    main = rules.settings.get("upstream")
    if main is not None and origin(values["upstream"]) != origin(str(main)):
        (spec,) = (spec for spec in SPECS if spec.name == "upstream_key_file")
        values[spec.name] = _value(spec, given, env, {})
    settings = Settings(**values)
    if settings.detailed_logging and not settings.audit_file:
        folders = (env.get("STATE_DIRECTORY", "").partition(":")[0], env.get("TMPDIR", ""), "/tmp")
        file = os.path.join(next(filter(os.path.isabs, folders)), AUDIT_NAME)
        settings = structs.replace(settings, audit_file=file)
    if settings.client and settings.client not in rules.clients:
        names = nearest(settings.client, rules.clients) or "a name that the rules have; they have none"
        raise RulesError(f"{rules.source}: there is no client {shown(settings.client)}; set client to {names}")
    return settings, replace(rules, case_sensitive_tools=settings.case_sensitive_tools)


def check_files(settings: Settings) -> None:
    """Raise RulesError if the CA file cannot be used."""
    if settings.upstream_ca:
        try:
            ssl.create_default_context(cafile=settings.upstream_ca)
        except OSError as error:  # includes ssl.SSLError
            raise RulesError(
                f"upstream_ca: {settings.upstream_ca} cannot be used ({error}); give a PEM file"
            ) from error


def read_keys(settings: Settings, rules: Rules, env: Mapping[str, str]) -> Keys:
    """Return the keys in force, from the files that settings name or the unit's credentials.

    Keys of model servers may come from variables instead. Raises RulesError for an invalid key, for a file that cannot
    be read, for a variable that is not set, and for a key whose client is not in the rules.
    """

    def read(named: str, credential: str, parse: Callable[[bytes, str], _Parsed], default: _Parsed) -> _Parsed:
        path = Path(named or os.path.join(env.get(_CREDENTIALS, ""), credential))
        if not named and (_CREDENTIALS not in env or not _exists(path)):
            return default
        return parse(read_file(path), _source(path))

    upstream = read(settings.upstream_key_file, "upstream-key", parse_secret, "")
    if not upstream and KEY_VARIABLE in env:
        upstream = key_in_variable(KEY_VARIABLE, KEY_VARIABLE, env)
    named = dict[str, str]()
    for source in rules.key_sources:
        if source.startswith("$"):
            named[source] = key_in_variable(source[1:], f"key {source}", env)
        else:
            named[source] = parse_secret(read_file(Path(source)), source)
    return Keys(
        clients=read(settings.client_keys, "client-keys", partial(parse_clients, rules=rules), ()),
        upstream=upstream,
        admin=read(settings.admin_key_file, "admin-key", parse_admin, ""),
        named=named,
    )


def key_in_variable(name: str, where: str, env: Mapping[str, str]) -> str:
    """Return the key in an environment variable. Raises RulesError, which begins with `where` and shows no key."""
    if name not in env:
        raise RulesError(f"{where}: the variable is not set; set it to the key")
    return parse_secret(os.fsencode(env[name]), where)


def open_to_all(settings: Settings, keys: Keys) -> str:
    """Return a warning if other machines can use the proxy without a key, else ""."""
    try:
        is_local = ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        is_local = settings.host == "localhost"
    if keys.clients or is_local:
        return ""
    return f"{bind(settings)} is open to the network, and the proxy asks for no key (client_keys)"


def bind(settings: Settings) -> str:
    """Return the address to listen on, as gunicorn expects it."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{host}:{settings.port}"


def own_url(settings: Settings) -> str:
    """Return the proxy's URL for programs on this machine."""
    if settings.host in ("0.0.0.0", "::"):
        return f"http://127.0.0.1:{settings.port}"
    return f"http://{bind(settings)}"


def _value(spec: Spec, flags: Mapping[str, str], env: Mapping[str, str], filed: Mapping[str, Setting]) -> Setting:
    if spec.name in flags:
        return spec.from_text(flags[spec.name], spec.flags[0])
    for variable in spec.variables:
        if variable in env:
            return spec.from_text(env[variable], variable)
    return filed.get(spec.name, spec.default)


def sections(text: RulesText) -> dict[str, tuple[Node, Node]]:
    """Return the key node and the value node of each section that a valid rules file has, if it is not empty."""
    root = compose(text.data, text.source)
    pairs = entries(root, "the file") if root else ()
    return {name: (key, node) for name, key, node in pairs if not isinstance(node, ScalarNode)}
