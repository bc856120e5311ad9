"""What is told of one repair (contract C6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repair:
    """An audit record (contract C6): which fix, what it was before, what after, why, and to which tool's call."""

    id: str
    before: str
    after: str
    why: str
    tool: str = ""
