"""A worker's state and rules without gunicorn and without a rules file of this machine."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from proxy.config.api_keys import Keys
from proxy.config.load import BUILT_IN
from proxy.config.rules import Rules, parse_rules
from proxy.config.settings import Settings
from proxy.server.metrics import Metrics
from proxy.server.shared_file import FILE_NAME, SharedFile
from proxy.server.snapshot import make_snapshot
from proxy.server.state import Published, RulesInForce, WorkerState


def read_rules(path: Path | None) -> Rules:
    """Return the rules of the file at `path`, or the built-in ones for None. Raises RulesError."""
    if path is None:
        return _builtin_rules()
    return parse_rules(path.read_bytes(), str(path), _builtin_rules())


@cache
def _builtin_rules() -> Rules:
    """Return the built-in rules, parsed once. They are frozen, and thousands of tests use them."""
    text = resources.files("proxy").joinpath("rules.yaml").read_bytes()
    return parse_rules(text, BUILT_IN)


@cache
def _folders() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def make_state(settings: Settings, rules: Rules, keys: Keys | None = None) -> WorkerState:
    """Return a worker's state with its own folder. The model server is not contacted yet."""
    folder = tempfile.mkdtemp(dir=_folders().name)
    shared = SharedFile(os.path.join(folder, FILE_NAME))
    snapshot = make_snapshot(settings, rules, keys or Keys(), "")
    return WorkerState(snapshot, RulesInForce(folder), Published(), shared, Metrics())


def held(shared: SharedFile, name: str) -> int:
    """Return the number of slots of `name` that workers hold."""
    with shared.transaction() as database:
        query = "SELECT coalesce(sum(count), 0) FROM slots WHERE name = ?"
        return int(database.execute(query, (name,)).fetchone()[0])
