"""The report that `doctor` keeps, as a reader of it finds it."""

from __future__ import annotations

from pathlib import Path

from proxy.codec.json_access import as_list, as_object, as_text
from proxy.codec.json_text import JsonObject, load_json
from proxy.doctor.kept import FORMAT

_MAX_BYTES = 1024 * 1024


def read_kept(place: Path) -> JsonObject | None:
    """The report that is kept there, or None if there is none."""
    try:
        with place.open("rb") as file:
            said = as_object(load_json(file.read(_MAX_BYTES)))
    except (OSError, ValueError):
        return None
    is_one = said.get("format") == FORMAT and as_text(said.get("url")) and as_list(said.get("findings"))
    return said if is_one else None
