"""A model's entry is inserted into a rules file, and the rest of the file is unchanged."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from proxy.config.load import RulesText, rules_of
from proxy.doctor.rule import merged, rules_in, write_entry
from proxy.errors import RulesError
from tests.support.rows import rows

LINE = '{"match": "m", "parse": "proxy"}'
ENTRY = f"- {LINE}"


@rows(__file__, "before,after")
def test_the_entry_is_inserted_where_it_takes_effect(before: str, after: str) -> None:
    assert merged(before.encode(), "r.yaml", "m", ENTRY) == after.encode()


@pytest.mark.parametrize("before", ["", "tools: {}\n", "tools: {}", "# mine\nclients:\n  pi: {}\n"])
def test_a_file_without_models_gets_the_section_and_the_built_in_entries(before: str) -> None:
    after = merged(before.encode(), "r.yaml", "m", ENTRY).decode()
    assert after.startswith(before if not before or before.endswith("\n") else f"{before}\n")
    builtin = rules_in(Path("/nonexistent/rules.yaml"))
    assert rules_of(RulesText(after.encode(), "r.yaml")).models[1:] == builtin.models


def test_a_name_with_glob_characters_matches_only_itself() -> None:
    name = 'org/[a]*?: "b"\t'
    entry = "- " + json.dumps({"match": 'org/[[]a][*][?]: "b"\t', "parse": "proxy"})
    rules = rules_of(RulesText(merged(b"models:\n  - {match: '*'}\n", "r.yaml", name, entry), "r.yaml"))
    assert rules.entry(name).parse == "proxy" and rules.entry('org/axx: "b"\t').parse is None


@pytest.mark.parametrize("text", ["{settings: {port: 8001}}\n", "tools: {}\n...\n", " tools: {}\n", "models: []\n"])
def test_an_entry_that_cannot_be_inserted_is_in_the_error(text: str) -> None:
    """The error does not name a line that the user's file lacks."""
    message = f"r.yaml: the entry cannot be inserted; add it as the first of models: {ENTRY}"
    with pytest.raises(RulesError, match=f"^{re.escape(message)}$"):
        merged(text.encode(), "r.yaml", "m", ENTRY)


@pytest.mark.parametrize("text", ["models: {}\n", "models: x\n", "models: [{match: x, bad: 1}]\n", "\xff:"])
def test_an_invalid_file_is_not_changed(text: str, tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RulesError, match=r"r\.yaml"):
        write_entry(file, "m", ENTRY)
    assert file.read_bytes() == text.encode("latin-1") and [*tmp_path.iterdir()] == [file]


def test_every_change_creates_a_backup(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text("models:\n")
    write_entry(file, "m", ENTRY)
    second = write_entry(file, "n", '- {"match": "n", "parse": "proxy"}')
    assert second.backup == tmp_path / "r.yaml.before-2"
    assert (tmp_path / "r.yaml.before-1").read_text() == "models:\n"
    assert second.backup.read_text() == f"models:\n  - {LINE}\n"


@pytest.mark.parametrize(("before", "infers_anew"), [("tools: {}\n", True), ("models:\n", False)])
def test_the_effect_of_a_new_section_is_reported(before: str, infers_anew: bool, tmp_path: Path) -> None:
    """A file without models comes from an earlier system, which infers missing tool names from a table."""
    file = tmp_path / "r.yaml"
    file.write_text(before)
    assert write_entry(file, "m", ENTRY).infers_anew is infers_anew


def test_a_symlink_stays_and_its_target_is_written(tmp_path: Path) -> None:
    """Deployments keep the file elsewhere and link to it."""
    there, link = tmp_path / "there.yaml", tmp_path / "rules.yaml"
    there.write_text("models:\n")
    link.symlink_to(there)
    assert write_entry(link, "m", ENTRY).file == there and link.is_symlink()
    assert there.read_text() == f"models:\n  - {LINE}\n"


def test_a_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="cannot be written"):
        write_entry(tmp_path / "none" / "r.yaml", "m", ENTRY)
    os.mkdir(tmp_path / "r.yaml")
    with pytest.raises(RulesError, match="cannot be read"):
        write_entry(tmp_path / "r.yaml", "m", ENTRY)
