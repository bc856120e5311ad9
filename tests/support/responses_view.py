"""Helpers of Responses tests: the options of a small request, tools by name, events of a reply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proxy.dialects.responses.tools import OfferedTools
from proxy.engine.engine import Engine
from proxy.engine.events import Event
from proxy.engine.task import Task
from proxy.notations.thoughts import Thoughts
from tests.support.helpers import SEED, ends, run, says
from tests.support.translated import response_options as options

__all__ = ("offering", "options", "told")


def offering(*named: tuple[str, Any]) -> OfferedTools:
    """Return these tools by the names that the server uses."""
    return OfferedTools(by_name=dict(named))


def told(parts: Iterable[str]) -> list[Event]:
    """Return the events of a complete reply with this text, with reasoning separated."""
    engine = Engine(Task(tools=None, seed=SEED, ordered=True, thoughts=Thoughts()))
    return run([*map(says, parts), ends()], engine)
