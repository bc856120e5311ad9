"""Write what is generated from the code: tables of docs/, docs/rules.schema.json, and the settings of rules.yaml.

Run it with `python -m documentation`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from documentation.links import ROOT
from documentation.schema import FILE, rules_schema
from documentation.tables import filled
from proxy.config.settings import SPECS, Setting

_SETTINGS = re.compile(r"(?m)^settings:\n(?:  #.*\n)*")


def generated() -> Iterator[tuple[Path, str]]:
    """Yield each file with generated parts and its new text."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        yield page, filled(page.read_text("utf-8"))
    yield FILE, json.dumps(rules_schema(), indent=2) + "\n"
    settings = "settings:\n" + "".join(f"  # {spec.help}.\n  # {spec.name}: {_yaml(spec.default)}\n" for spec in SPECS)
    rules = _SETTINGS.sub(lambda _: settings, (ROOT / "rules.yaml").read_text("utf-8"))
    yield ROOT / "rules.yaml", rules
    yield ROOT / "proxy" / "rules.yaml", rules


def _yaml(value: Setting) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


if __name__ == "__main__":
    for path, text in generated():
        path.write_text(text, "utf-8")
