"""The last report, kept as JSON where the proxy's page finds it: beside the rules file, or where it was asked for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from proxy.codec.json_text import JsonObject, dump_strict
from proxy.errors import RulesError

NAME = "doctor-report.json"
# It grows by one where a reader of the report must change.
FORMAT = 1


def kept_beside(rules_source: str) -> Path | None:
    """Where the report is kept beside a rules file of this path; None for the built-in rules."""
    if not os.path.isabs(rules_source):
        return None
    return Path(rules_source).with_name(NAME)


def keep(report: JsonObject, place: Path) -> None:
    """Write the report there, in one go; raises RulesError if that cannot be done."""
    try:
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with os.fdopen(handle, "wb") as new:
                new.write(dump_strict(report) + b"\n")
            os.chmod(name, 0o644)
            os.replace(name, place)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise RulesError(f"{place}: the report cannot be kept ({error.strerror}); name a place with --keep") from None
