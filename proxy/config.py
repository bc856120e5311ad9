"""Which settings and rules are in force: from flags, the environment and the rules file.

The only module that reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from .errors import RulesError
from .rules import MAX_BYTES, Rules, Setting, nearest, parse_rules, shown
from .settings import PREFIX, SPECS, Settings, Spec

RULES_VARIABLE = f"{PREFIX}RULES"
# Set by `serve` for its workers, which run in another folder: where ./rules.yaml is looked for.
FOLDER_VARIABLE = f"{PREFIX}FOLDER"
SYSTEM_RULES = Path("/etc/vllm-tool-proxy/rules.yaml")
BUILT_IN = "built-in"

# The tests' own variable; a shell that exports it may start the proxy too.
_TESTS_VARIABLE = f"{PREFIX}SHARED"


def environment() -> dict[str, str]:
    """A copy of the process's environment."""
    return dict(os.environ)


def working_folder(env: Mapping[str, str]) -> Path:
    """The folder that relative paths start from, spelled as the user sees it.

    A symlink in it stays one: a deployment switches it, and a reload shall find the new release's files.
    """
    if FOLDER_VARIABLE in env:
        return Path(env[FOLDER_VARIABLE])
    try:
        spelled = env.get("PWD", "")
        return Path(spelled) if os.path.isabs(spelled) and os.path.samefile(spelled, ".") else Path.cwd()
    except OSError:
        return Path("/")


def find_rules(flag: str | None, env: Mapping[str, str], cwd: Path) -> Path | None:
    """The rules file in force: of the flag, the environment, `cwd`, the system; None is the built-in one.

    Raises RulesError if the one that was named is not there.
    """
    named = flag if flag is not None else env.get(RULES_VARIABLE)
    if named is not None:
        path = cwd / named
        if not named or not _exists(path):
            source = "--rules" if flag is not None else RULES_VARIABLE
            raise RulesError(f"{source}: there is no file {shown(named)}; give the path of a rules file")
        return path
    return next(filter(_exists, (cwd / "rules.yaml", SYSTEM_RULES)), None)


def _exists(path: Path) -> bool:
    """False only if there is nothing: what cannot be looked at may be there, and shall not be passed over."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from None
    return True


def _unreadable(path: Path, error: OSError) -> RulesError:
    return RulesError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions")


def read_rules(path: Path | None) -> Rules:
    """The rules of the file at `path` (None: the built-in ones); raises RulesError."""
    builtin = parse_rules(resources.files(__package__).joinpath("rules.yaml").read_bytes(), BUILT_IN)
    if path is None:
        return builtin
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    return parse_rules(text, str(path), builtin)


def load(flags: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None) -> tuple[Settings, Rules]:
    """The settings and rules in force: flag (by the setting's name, or `rules`), environment, file, default.

    Reads the process's environment if `env` is None. Raises RulesError, one line that names the place, for the first
    thing that is wrong.
    """
    flags = {} if flags is None else flags
    env = environment() if env is None else env
    _refuse_unknown_variables(env)
    rules = read_rules(find_rules(flags.get("rules"), env, working_folder(env)))
    filed = _checked_file(rules)
    values: dict[str, Any] = {spec.name: _value(spec, flags, env, filed) for spec in SPECS}
    settings = Settings(**values)
    if settings.client and settings.client not in rules.clients:
        names = nearest(settings.client, rules.client_names) or "a name that the rules have; they have none"
        raise RulesError(f"{rules.source}: there is no client {shown(settings.client)}; set client to {names}")
    return settings, rules


def _value(spec: Spec, flags: Mapping[str, str], env: Mapping[str, str], filed: Mapping[str, Setting]) -> Setting:
    if spec.name in flags:
        return spec.from_text(flags[spec.name], spec.flags[0])
    for variable in spec.variables:
        if variable in env:
            return spec.from_text(env[variable], variable)
    return filed.get(spec.name, spec.default)


def _checked_file(rules: Rules) -> dict[str, Setting]:
    """The file's settings, all of them checked, also those that a flag or a variable will hide."""
    specs = {spec.name: spec for spec in SPECS}
    for name in rules.settings:
        if name not in specs:
            raise RulesError(f"{rules.source}: there is no setting {shown(name)}; use {nearest(name, specs)}")
    return {name: specs[name].checked(value, f"{rules.source}: {name}") for name, value in rules.settings.items()}


def _refuse_unknown_variables(env: Mapping[str, str]) -> None:
    known = {RULES_VARIABLE, FOLDER_VARIABLE, _TESTS_VARIABLE, *(spec.variables[0] for spec in SPECS)}
    for name in env:
        if name.startswith(PREFIX) and name not in known:
            names = nearest(name, known - {FOLDER_VARIABLE, _TESTS_VARIABLE})
            raise RulesError(f"{name}: there is no such variable; use {names}")
