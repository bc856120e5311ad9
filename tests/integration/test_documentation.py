"""The documentation site: every page is in it, generated pages say what the code says, each link leads somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

from documentation.links import DeadLinkError, site_text
from documentation.markdown import block, code, table
from documentation.pages import EXAMPLE, format_examples, pages
from proxy.audit_record import KINDS, Kind
from proxy.cli.agents import AGENTS
from proxy.cli.merging import merged
from proxy.config.settings import SPECS
from proxy.healing.families import NAMES
from proxy.healing.heal import HEALINGS
from proxy.repair.arguments import FORMS
from proxy.repair.schema_fixes import FIXES
from tests.real.processes import ROOT

pytestmark = pytest.mark.once

SECONDS = 300


@pytest.fixture(name="made", scope="module")
def _made() -> dict[str, str]:
    return pages()


def paths_in(nav: Any) -> Iterator[str]:
    """The pages that a navigation leads to."""
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from paths_in(entry)


def test_every_page_is_in_the_navigation_once(made: dict[str, str]) -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(paths_in(config["nav"])) == sorted(written | {*made} | {"index.md"})


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path, made: dict[str, str]) -> None:
    """A page that is missing, a link or an anchor that leads nowhere is an error; what is generated is in it."""
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
def test_an_agents_configuration_is_the_one_that_setup_makes(made: dict[str, str], agent: Any) -> None:
    section = made["generated/agents.md"].partition(f"\n## {agent.title}\n")[2].partition("\n## ")[0]
    configuration = agent.configure(EXAMPLE)
    command = section.partition("```sh\n")[2].splitlines()[0]
    launched = configuration.command and agent.launch
    assert command.split()[:3] == ["vllm-tool-proxy", "launch" if launched else "setup", agent.name]
    for name in configuration.environment:
        assert f"export {name}=" in section
    for file in configuration.files:
        assert merged("", file).rstrip("\n") in section


def test_every_format_of_the_corpus_is_shown(made: dict[str, str]) -> None:
    examples = format_examples()
    assert len(examples) > 50
    page = made["generated/formats.md"]
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == sorted(examples)
    for row in examples.values():
        for line in row["text"].splitlines():
            assert line in page
        for call in row["calls"]:
            assert json.dumps(call["arguments"], ensure_ascii=False).replace("\n", "⏎") in page


def test_the_page_names_every_family(made: dict[str, str]) -> None:
    for page in (made["generated/families.md"], (ROOT / "docs" / "healing.md").read_text("utf-8")):
        assert [name for name in NAMES if f"`{name}`" not in page] == []


@pytest.mark.parametrize("each", [*FORMS, *FIXES, *HEALINGS], ids=lambda each: each.id)
def test_every_repair_and_healing_is_shown(made: dict[str, str], each: Any) -> None:
    page = made["generated/healings.md"] + made["generated/repairs.md"]
    assert f"`{each.id}`" in page or f"\n## {each.id}\n" in page
    assert each.why.replace("|", "\\|") in page


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_every_other_kind_of_record_is_shown(made: dict[str, str], kind: Kind) -> None:
    (row,) = [line for line in made["generated/repairs.md"].splitlines() if line.startswith(f"| `{kind.id}` |")]
    assert kind.words in row


def test_every_setting_is_listed(made: dict[str, str]) -> None:
    rows = [line for line in made["generated/settings.md"].splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [
        spec.name for group in dict.fromkeys(spec.group for spec in SPECS) for spec in SPECS if spec.group == group
    ]


def test_every_key_of_the_schema_is_in_the_reference(made: dict[str, str]) -> None:
    schema = json.loads((ROOT / "docs" / "rules.schema.json").read_text())
    page = made["generated/rules.md"]
    for name, definition in {"the file": schema, **schema["$defs"]}.items():
        if "properties" not in definition:
            continue
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        keys = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
        assert keys == [*definition["properties"]]


@pytest.mark.parametrize(
    ("link", "page", "source", "expected"),
    [
        ("[a](docs/rules.md#tools)", "index.md", "README.md", "[a](rules.md#tools)"),
        ("[a](../README.md#quick-start)", "scale.md", "docs/scale.md", "[a](index.md#quick-start)"),
        ("[a](../benchmarks/README.md)", "scale.md", "docs/scale.md", "[a](generated/benchmarks.md)"),
        ("[a](../docs/scale.md)", "generated/benchmarks.md", "benchmarks/README.md", "[a](../scale.md)"),
        ("[`rules.yaml`](../rules.yaml)", "rules.md", "docs/rules.md", "`rules.yaml`"),
        ("[a](https://a.b/c)", "rules.md", "docs/rules.md", "[a](https://a.b/c)"),
        ("[a](#part)", "rules.md", "docs/rules.md", "[a](#part)"),
    ],
)
def test_links_are_those_of_the_site(link: str, page: str, source: str, expected: str) -> None:
    assert site_text(f"See {link}.", page, source) == f"See {expected}."


def test_a_link_to_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DeadLinkError, match=r"gone\.py"):
        site_text("[a](../gone.py)", "rules.md", "docs/rules.md")


def test_code_and_tables_show_what_they_hold() -> None:
    assert code("a`b\nc") == "`` a`b⏎c ``"
    assert code("") == ""
    assert table(("a", "b"), [("x|y", "z")]) == ["| a | b |", "| --- | --- |", "| x\\|y | z |"]
    assert block("```\na\n```") == ["````text", "```", "a", "```", "````"]
