"""The documentation: generated parts are current, every page is on the site, and every link has a target."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from documentation.__main__ import generated
from documentation.links import DeadLinkError, site_text
from documentation.pages import EXAMPLE, pages
from documentation.tables import TABLES
from proxy.cli.agents import AGENTS
from proxy.cli.merging import merged
from tests.real.processes import ROOT
from tests.support.rows import rows

pytestmark = pytest.mark.once

SECONDS = 300


@pytest.fixture(name="made", scope="module")
def _made() -> dict[str, str]:
    return pages()


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path, made: dict[str, str]) -> None:
    """Missing pages and broken links or anchors are errors, and the site contains the generated parts."""
    built = build(ROOT, tmp_path / "site")
    assert built.returncode == 0, built.stderr
    pages_there = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert {name.replace(".md", ".html") for name in made} <= pages_there
    first = (tmp_path / "site" / "index.html").read_text()
    assert "vllm-tool-proxy launch claude" in unescape(re.sub(r"<[^>]+>", "", first))


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("agent", AGENTS.values(), ids=lambda agent: agent.name)
def test_the_documented_agent_configuration_is_the_one_that_setup_writes(made: dict[str, str], agent: Any) -> None:
    section = made["generated/agents.md"].partition(f"\n## {agent.title}\n")[2].partition("\n## ")[0]
    configuration = agent.configure(EXAMPLE)
    command = section.partition("```sh\n")[2].splitlines()[0]
    launched = configuration.command and agent.launch
    assert command.split()[:3] == ["vllm-tool-proxy", "launch" if launched else "setup", agent.name]
    for name in configuration.environment:
        assert f"export {name}=" in section
    for file in configuration.files:
        assert merged("", file).rstrip("\n") in section


@pytest.mark.parametrize("path", [path for path, _ in generated()], ids=lambda path: path.name)
def test_generated_files_are_current(path: Path) -> None:
    assert path.read_text("utf-8") == dict(generated())[path], "run python -m documentation"


def test_every_table_is_on_a_page() -> None:
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in TABLES if f"<!-- generated: {name} -->" not in pages] == []


@rows(__file__, "link,page,source,expected")
def test_links_are_valid_on_the_site(link: str, page: str, source: str, expected: str) -> None:
    assert site_text(f"See {link}.", page, source) == f"See {expected}."


def test_a_link_to_a_missing_file_is_an_error() -> None:
    with pytest.raises(DeadLinkError, match=r"gone\.py"):
        site_text("[a](../gone.py)", "scale.md", "docs/scale.md")
