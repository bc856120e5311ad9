"""A model's entry in a rules file: where it counts, with everything else as it was."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from proxy.config.load import RulesText, rules_of
from proxy.doctor.rule import merged, rules_in, write_entry
from proxy.errors import RulesError

LINE = '{"match": "m", "parse": "proxy"}'
ENTRY = f"- {LINE}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("models:\n- {match: '*'}\n", f"models:\n- {LINE}\n- {{match: '*'}}\n"),
        ("models:\n  - {match: '*'}\n", f"models:\n  - {LINE}\n  - {{match: '*'}}\n"),
        (
            "models:  # who parses\n  # all\n  - match: '*'\n    parse: auto\ntools: {}\n",
            f"models:  # who parses\n  - {LINE}\n  # all\n  - match: '*'\n    parse: auto\ntools: {{}}\n",
        ),
        ("models:\n", f"models:\n  - {LINE}\n"),
        ("models:  # none\ntools: {}\n", f"models:  # none\n  - {LINE}\ntools: {{}}\n"),
        ("models:\r\n  - {match: '*'}\r\n", f"models:\r\n  - {LINE}\n  - {{match: '*'}}\r\n"),
        ("\ufefftools: {}\nmodels:\n  - {match: m}\n", f"\ufefftools: {{}}\nmodels:\n  - {LINE}\n  - {{match: m}}\n"),
    ],
)
def test_the_entry_is_put_where_it_counts(before: str, after: str) -> None:
    assert merged(before.encode(), "r.yaml", "m", ENTRY) == after.encode()


@pytest.mark.parametrize("before", ["", "tools: {}\n", "tools: {}", "# mine\nclients:\n  pi: {}\n"])
def test_a_file_without_models_gets_the_section_with_the_built_in_entries(before: str) -> None:
    after = merged(before.encode(), "r.yaml", "m", ENTRY).decode()
    assert after.startswith(before if not before or before.endswith("\n") else f"{before}\n")
    builtin = rules_in(Path("/nonexistent/rules.yaml"))
    assert rules_of(RulesText(after.encode(), "r.yaml")).models[1:] == builtin.models


def test_an_odd_name_is_matched_by_itself_alone() -> None:
    name = 'org/[a]*?: "b"\t'
    entry = "- " + json.dumps({"match": 'org/[[]a][*][?]: "b"\t', "parse": "proxy"})
    rules = rules_of(RulesText(merged(b"models:\n  - {match: '*'}\n", "r.yaml", name, entry), "r.yaml"))
    assert rules.entry(name).parse == "proxy" and rules.entry('org/axx: "b"\t').parse is None


@pytest.mark.parametrize("text", ["{settings: {port: 8001}}\n", "tools: {}\n...\n", " tools: {}\n", "models: []\n"])
def test_a_form_that_cannot_take_it_is_an_error_with_the_entry(text: str) -> None:
    """And not an error in a line that the user's file does not have."""
    told = f"r.yaml: the entry cannot be inserted; add it as the first of models: {ENTRY}"
    with pytest.raises(RulesError, match=f"^{re.escape(told)}$"):
        merged(text.encode(), "r.yaml", "m", ENTRY)


@pytest.mark.parametrize("text", ["models: {}\n", "models: x\n", "models: [{match: x, bad: 1}]\n", "\xff:"])
def test_a_file_that_is_wrong_is_not_changed(text: str, tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RulesError, match=r"r\.yaml"):
        write_entry(file, "m", ENTRY)
    assert file.read_bytes() == text.encode("latin-1") and [*tmp_path.iterdir()] == [file]


def test_each_change_leaves_a_backup(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text("models:\n")
    write_entry(file, "m", ENTRY)
    second = write_entry(file, "n", '- {"match": "n", "parse": "proxy"}')
    assert second.backup == tmp_path / "r.yaml.before-2"
    assert (tmp_path / "r.yaml.before-1").read_text() == "models:\n"
    assert second.backup.read_text() == f"models:\n  - {LINE}\n"


@pytest.mark.parametrize(("before", "infers_anew"), [("tools: {}\n", True), ("models:\n", False)])
def test_what_a_new_section_changes_is_reported(before: str, infers_anew: bool, tmp_path: Path) -> None:
    """A file without models is one of an earlier system, which finds calls without a name by a table."""
    file = tmp_path / "r.yaml"
    file.write_text(before)
    assert write_entry(file, "m", ENTRY).infers_anew is infers_anew


def test_a_symlink_stays_one(tmp_path: Path) -> None:
    """A deployment keeps the file elsewhere: that one is written."""
    there, link = tmp_path / "there.yaml", tmp_path / "rules.yaml"
    there.write_text("models:\n")
    link.symlink_to(there)
    assert write_entry(link, "m", ENTRY).file == there and link.is_symlink()
    assert there.read_text() == f"models:\n  - {LINE}\n"


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="cannot be written"):
        write_entry(tmp_path / "none" / "r.yaml", "m", ENTRY)
    os.mkdir(tmp_path / "r.yaml")
    with pytest.raises(RulesError, match="cannot be read"):
        write_entry(tmp_path / "r.yaml", "m", ENTRY)
