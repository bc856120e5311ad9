"""Read a text with `proxy.notations`, and compare calls after their repair."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from proxy.json import dump
from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.toolset import ToolSet
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer

SIZES = (0, 1, 3, 7)


@dataclass(frozen=True)
class Read:
    """The calls of a text, and the remaining text."""

    calls: list[tuple[str, dict[str, Any]]]
    text: str


def read(
    text: str,
    tools: ToolSet,
    size: int = 0,
    *,
    sources: Iterable[str] = (),
    stopped: bool = True,
    **options: Any,
) -> Read:
    """Read a text whole, or in pieces of `size` characters."""
    reader = Reader(tools, Copies(tools, sources), **options)
    step = size or max(1, len(text))
    pieces = [piece for at in range(0, len(text), step) for piece in reader.feed(text[at : at + step])]
    pieces += reader.finish(stopped=stopped)
    assert "".join(piece.text for piece in pieces) == text
    calls = [(call.name, call.arguments) for piece in pieces for call in piece.calls or ()]
    return Read(calls, "".join(piece.text for piece in pieces if piece.calls is None))


def repaired(calls: Iterable[tuple[str, dict[str, Any]]], tools: ToolSet) -> list[tuple[str, Any]]:
    """Return calls as the client gets them."""
    return [_repaired(name, arguments, tools) for name, arguments in calls]


def _repaired(name: str, arguments: dict[str, Any], tools: ToolSet) -> tuple[str, Any]:
    found = Repairer(tools, Policy()).repair(name, dump(arguments), stopped=True)
    return (found.name, json.loads(found.arguments)) if found else (name, arguments)
