"""Recorded answers of model servers, played by a scripted upstream."""

from __future__ import annotations

from pathlib import Path

from tests.support.scripted import Action, Script, head

TYPE = "text/event-stream; charset=utf-8"


def served(path: Path) -> tuple[Script, bool, int]:
    """Return a recorded answer in three writes, whether the client asked for a stream, and the status."""
    data = path.read_bytes()
    streamed = data.startswith((b"data:", b": ")) or "-stream" in path.name
    status = int(path.stem[-3:]) if path.stem[-3:].isdigit() else 200
    kind = TYPE if data.startswith((b"data:", b": ")) else "application/json"
    third = len(data) // 3
    parts: list[Action] = [data[:third], 0.001, data[third : 2 * third], 0.001, data[2 * third :]]
    return [head(status, {"Content-Type": kind, "Content-Length": str(len(data))}), *parts], streamed, status
