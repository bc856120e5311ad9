"""docs/healing.md has a row for each healing, and says of each what the table says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.healing.lessons import words_of
from proxy.healing.table import HEALINGS, Healing, Level

GUIDE = (Path(__file__).parents[3] / "docs" / "healing.md").read_text()
SECTIONS = {Level.ALWAYS: "## Always", Level.TEMPLATE: "## By what the template can do"}


def row(healing: Healing) -> str:
    """The row of a healing."""
    before, after = (json.dumps(items)[1:-1].replace("|", "\\|") for items in healing.example)
    return f"| `{healing.id}` | {healing.failure} | {healing.why} | `{before}` | `{after}` |"


@pytest.mark.parametrize("healing", HEALINGS, ids=lambda healing: healing.id)
def test_each_healing_has_its_row_in_the_section_of_its_level(healing: Healing) -> None:
    section = GUIDE.partition(f"{SECTIONS[healing.level]}\n")[2].partition("\n## ")[0]
    assert row(healing) in section


def test_the_guide_knows_no_other_healing() -> None:
    rows = [line for line in GUIDE.splitlines() if line.startswith("| `") and "`heal`" not in line]
    assert sum(line.count(" | ") >= 4 for line in rows) == len(HEALINGS)


@pytest.mark.parametrize("healing", [one for one in HEALINGS if one.level is Level.TEMPLATE], ids=lambda one: one.id)
def test_what_is_by_the_template_is_in_a_family_or_is_learnt(healing: Healing) -> None:
    rules = (Path(__file__).parents[3] / "rules.yaml").read_text()
    families = rules.partition("\nfamilies:\n")[2].partition("\n\n")[0]
    assert healing.id in families or words_of(healing.id)
