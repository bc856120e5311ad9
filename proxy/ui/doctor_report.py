"""The last report of the command `doctor`, where it has left one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from proxy.codec.json_text import JsonObject, load_json

# As `doctor` names it where it is not told, and as it may be told (`--keep`).
FILE_NAMES = ("doctor-report.json", "doctor.json")
# Bytes of a report.
MAX_BYTES = 1024 * 1024


def last_report(env: Mapping[str, str], rules: str) -> JsonObject | None:
    """The newest report in the unit's folders and beside the rules file; None if there is none that can be read."""
    for path in sorted(_places(env, rules), key=_changed, reverse=True):
        report = _read(path)
        if report is not None:
            return report
    return None


def _places(env: Mapping[str, str], rules: str) -> Iterator[Path]:
    folders = [env.get(variable, "").partition(":")[0] for variable in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY")]
    for folder in filter(os.path.isabs, [*folders, os.path.dirname(rules)]):
        for name in FILE_NAMES:
            yield Path(folder, name)


def _changed(path: Path) -> float:
    """When a file was written; before all time if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read(path: Path) -> JsonObject | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        report = load_json(data)
    except (OSError, ValueError):
        return None
    if len(data) > MAX_BYTES or not isinstance(report, dict):
        return None
    return report
