"""docs/thinking.md names every family, every suffix and every record."""

from __future__ import annotations

from pathlib import Path

from proxy.thinking.families import NAMES

GUIDE = " ".join((Path(__file__).parents[3] / "docs/thinking.md").read_text("utf-8").split())


def test_the_guide_names_every_family() -> None:
    assert f"Families: {', '.join(f'`{name}`' for name in NAMES)}." in GUIDE


def test_the_guide_names_the_records() -> None:
    for name in ("unopened_thought", "unclosed_thought", "thought_beside_text", "thinking"):
        assert f"`{name}`" in GUIDE
