"""A model's entry in a rules file: where it counts, all else as it was, and twice is once."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from proxy.config.load import RulesText, rules_of
from proxy.doctor.rules_file import merged, rules_in, write_entry
from proxy.errors import RulesError

ENTRY = '- {"match": "m", "parse": "proxy"}'
LINE = '{"match": "m", "parse": "proxy"}'


def put(text: str, entry: str = ENTRY, model: str = "m") -> str:
    """The file with the entry; putting it there again changes nothing."""
    data = merged(text.encode(), "r.yaml", model, entry)
    assert merged(data, "r.yaml", model, entry) == data
    assert rules_of(RulesText(data, "r.yaml")).entry(model).parse == "proxy"
    return data.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("models:\n- {match: '*'}\n", f"models:\n- {LINE}\n- {{match: '*'}}\n"),
        ("models:\n  - {match: '*'}\n", f"models:\n  - {LINE}\n  - {{match: '*'}}\n"),
        (
            "a: 1\nmodels:  # who parses\n  # all\n  - match: '*'\n    parse: auto\ntools: {}\n".replace("a: 1\n", ""),
            f"models:  # who parses\n  # all\n  - {LINE}\n  - match: '*'\n    parse: auto\ntools: {{}}\n",
        ),
        ("models: []\n", f"models: [{LINE}]\n"),
        ("models:\n", f"models: [{LINE}]\n"),
        ("models:  # none\ntools: {}\n", f"models: [{LINE}]  # none\ntools: {{}}\n"),
        ("tools: {}\nmodels: ~ # none", f"tools: {{}}\nmodels: [{LINE}] # none"),
        ("{models: null}\n", f"{{models: [{LINE}]}}\n"),
        ("models: [{match: '*'}]\n", f"models: [{LINE}, {{match: '*'}}]\n"),
        ("models: [ # none\n]\n", f"models: [{LINE} # none\n]\n"),
        ("models:\r\n  - {match: '*'}\r\n", f"models:\r\n  - {LINE}\r\n  - {{match: '*'}}\r\n"),
        ("\ufeffmodels:\n  - {match: '*'}\n", f"\ufeffmodels:\n  - {LINE}\n  - {{match: '*'}}\n"),
        # One of the same name is replaced, what stands behind it in the line stays.
        ("models:\n  - {match: m, parse: auto} # ours\n", f"models:\n  - {LINE} # ours\n"),
        (
            "models:\n  - {match: x}\n  - match: m\n    parse: auto  # by hand\n  # others\n  - {match: '*'}\n",
            f"models:\n  - {{match: x}}\n  - {LINE}  # by hand\n  # others\n  - {{match: '*'}}\n",
        ),
        # What was said in it stands before it then.
        (
            "models:\n  - match: m  # ours\n    # the parser is broken\n    parse: auto  # by hand\n  - {match: '*'}\n",
            f"models:\n  # ours\n  # the parser is broken\n  - {LINE}  # by hand\n  - {{match: '*'}}\n",
        ),
        (
            "models:\n- match: 'x # y'\n  # of x - no\n-  # m's\n   match: 'm' # 'a' # b -\n   parse: \"auto\"\n",
            f"models:\n- match: 'x # y'\n  # of x - no\n# 'a' # b -\n-  # m's\n   {LINE}\n",
        ),
        (
            "models: [{match: m,  # ours\n  parse: auto # a\n}, {match: '*'}]\n",
            f"models: [\n  # ours\n  # a\n  {LINE}, {{match: '*'}}]\n",
        ),
        ("models:\r\n- match: m # a\r\n  parse: auto\r\n", f"models:\r\n# a\r\n- {LINE}\r\n"),
        # Behind one that matches it first, an entry says nothing.
        (
            "models:\n  - {match: '*'}\n  - {match: m, parse: auto}\n",
            f"models:\n  - {LINE}\n  - {{match: '*'}}\n  - {{match: m, parse: auto}}\n",
        ),
    ],
)
def test_the_entry_is_put_where_it_counts(before: str, after: str) -> None:
    assert put(before) == after


@pytest.mark.parametrize("before", ["", "tools: {}\n", "tools: {}", "# mine\nclients:\n  pi: {}\n"])
def test_a_file_without_models_gets_the_section_with_the_built_in_entries(before: str) -> None:
    after = put(before)
    assert after.startswith(before if not before or before.endswith("\n") else f"{before}\n")
    rules = rules_of(RulesText(after.encode(), "r.yaml"))
    builtin = rules_in(Path("/nonexistent/rules.yaml"))
    assert rules.models[1:] == builtin.models and len(builtin.models) == 3


def test_an_odd_name_is_matched_by_itself_alone() -> None:
    name = 'org/[a]*?: "b"\t'
    entry = "- " + json.dumps({"match": 'org/[[]a][*][?]: "b"\t', "parse": "proxy"})
    after = put("models: [{match: '*'}]\n", entry, name)
    rules = rules_of(RulesText(after.encode(), "r.yaml"))
    assert rules.entry(name).parse == "proxy" and rules.entry('org/axx: "b"\t').parse is None


@pytest.mark.parametrize(
    "text", ["{settings: {port: 8001}}\n", "{}", "settings: {port: 8001}\n...\n", " tools: {}\n", "{models}"]
)
def test_a_form_that_cannot_take_it_is_told_with_the_entry(text: str) -> None:
    """And not as an error in a line that the user's file does not have."""
    told = f"r.yaml: the entry cannot be put into this file; write it yourself: {ENTRY}"
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
    file.write_text("models: []\n")
    assert write_entry(file, "m", ENTRY) is not None
    second = write_entry(file, "n", '- {"match": "n", "parse": "proxy"}')
    assert second is not None and second.backup == tmp_path / "r.yaml.before-2"
    assert (tmp_path / "r.yaml.before-1").read_text() == "models: []\n"
    assert second.backup.read_text() == f"models: [{LINE}]\n"
    assert write_entry(file, "m", ENTRY) is None
    assert len([*tmp_path.iterdir()]) == 3


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("tools: {}\n", True),
        ("models: []\n", False),
    ],
)
def test_what_a_new_section_changes_beside_is_told(before: str, told: bool, tmp_path: Path) -> None:
    """A file without models is one of an earlier system, which tells calls without a name by a table."""
    file = tmp_path / "r.yaml"
    file.write_text(before)
    written = write_entry(file, "m", ENTRY)
    assert written is not None and written.infers_anew is told


def test_a_symlink_stays_one(tmp_path: Path) -> None:
    """A deployment keeps the file elsewhere: that one is written."""
    there, link = tmp_path / "there.yaml", tmp_path / "rules.yaml"
    there.write_text("models: []\n")
    link.symlink_to(there)
    written = write_entry(link, "m", ENTRY)
    assert written is not None and written.file == there and link.is_symlink()
    assert there.read_text() == f"models: [{LINE}]\n"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="cannot be written"):
        write_entry(tmp_path / "none" / "r.yaml", "m", ENTRY)
    os.mkdir(tmp_path / "r.yaml")
    with pytest.raises(RulesError, match="cannot be read"):
        write_entry(tmp_path / "r.yaml", "m", ENTRY)
