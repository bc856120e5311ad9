"""A worker's state and rules without gunicorn and without a rules file of this machine."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from proxy.config.api_keys import Keys
from proxy.config.load import BUILT_IN
from proxy.config.rules import Rules, parse_rules
from proxy.config.settings import Settings
from proxy.worker.shared_memory import Memory, Published
from proxy.worker.snapshot import make_snapshot
from proxy.worker.state import WorkerState


def read_rules(path: Path | None) -> Rules:
    """The rules of the file at `path` (None: the built-in ones); raises RulesError."""
    if path is None:
        return _builtin_rules()
    return parse_rules(path.read_bytes(), str(path), _builtin_rules())


@cache
def _builtin_rules() -> Rules:
    """They are frozen, and thousands of tests ask for them."""
    text = resources.files("proxy").joinpath("rules.yaml").read_bytes()
    return parse_rules(text, BUILT_IN)


def make_state(
    settings: Settings, rules: Rules, memory: Memory | None = None, keys: Keys | None = None
) -> WorkerState:
    """A worker's state; nothing is asked of the model server yet. By default it has a memory of its own."""
    memory = Memory() if memory is None else memory
    return WorkerState(make_snapshot(settings, rules, keys), memory, memory.generation())


def published_rules(memory: Memory) -> tuple[int, bytes, str]:
    """The generation, the text and its source of what was published last."""
    last: Published = memory.published()
    return last.generation, last.text, last.source
