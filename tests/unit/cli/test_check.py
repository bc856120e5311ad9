"""The notes of `check` on a valid rules file that may not mean what its author expects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli.main import main
from tests.real.processes import ROOT
from tests.support.rows import rows


def notes_of(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the notes of `check`, without the path of the file."""
    path = folder / "r.yaml"
    path.write_text(text)
    assert main(["check", "--rules", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok: ")
    return [line.removeprefix(f"note: {folder}/") for line in lines if line.startswith("note: ")]


@rows(__file__, "text,shown")
def test_a_regular_expression_used_as_a_glob_is_noted(
    text: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (note,) = [note for note in notes_of(text, tmp_path, capsys) if "the section tools replaces" not in note]
    assert note.startswith(f"{shown} looks like a regular expression")


@pytest.mark.parametrize("glob", ["*qwen*", "qwen2.*", "gpt-[45]*", "a.b?c", "[Dd]eepseek"])
def test_a_glob_is_not_noted(glob: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert notes_of(f"aliases: {{'{glob}': m}}\nsettings: {{port: 8003}}\n", tmp_path, capsys) == []


def test_a_section_that_replaces_built_in_entries_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "settings: {port: 8003}\ntools: {}\nmodels:\n  - match: '*'\n"
    tools, models = notes_of(text, tmp_path, capsys)
    assert tools.startswith("r.yaml:2: the section tools replaces the built-in entries for todowrite, edit, ")
    assert models.startswith("r.yaml:3: the section models replaces the built-in entries for *gpt-oss*, ")
    assert all(
        note.endswith("; copy those that you want to keep from the built-in rules.yaml") for note in (tools, models)
    )


def test_a_copy_of_the_built_in_file_has_no_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[3] / "rules.yaml").read_text()
    assert notes_of(text, tmp_path, capsys) == []
    assert main(["check"]) == 0
    assert "note: " not in capsys.readouterr().out


def test_a_copy_to_which_the_user_added_a_repair_has_no_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[3] / "rules.yaml").read_text()
    fix = "{parameter: path, condition: missing, action: set_default, default_value: a}"
    more = text.replace("\n    fixes:\n", f"\n    fixes:\n      - {fix}\n")
    assert more != text
    assert notes_of(more, tmp_path, capsys) == []


@pytest.mark.parametrize(
    "text", ["models:\n  - match: *qwen*\n", "models:\n  - {match: *qwen, parse: proxy}\n", "aliases:\n  *mini: m\n"]
)
def test_a_glob_that_starts_with_an_asterisk_needs_quotes(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.yaml").write_text(text)
    assert main(["check", "--rules", str(tmp_path / "r.yaml")]) == 2
    message = 'r.yaml:2: a glob that starts with * needs quotes; write it as "*..."\n'
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_rules_can_be_piped_into_check(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proxy", "check", "--rules", name]
    refused = (2, "error: <stdin>:1: aliases must be a ")
    texts = {"aliases: {a: b}\n": (0, 'aliases a: "b"\n'), "aliases: [a]\n": refused}
    for text, (status, said) in texts.items():
        done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == status and said in done.stdout + done.stderr


def test_check_reports_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.yaml").write_text("tools: {}\n")
    assert main(["check", "--json", "--rules", str(tmp_path / "r.yaml")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["listening"], report["rules"]["source"]) == (
        True,
        "127.0.0.1:8003",
        f"{tmp_path}/r.yaml",
    )
    assert any("the section tools replaces" in note for note in report["notes"])
    assert any(line.startswith("models ") for line in report["rules"]["summary"])
    for words, error in ((["--port", "x"], "--port: 'x' cannot be used"), (["--prot"], "No such option '--prot'")):
        assert main(["check", "--json", *words]) == 2
        report = json.loads(capsys.readouterr().out)
        assert report["ok"] is False and report["error"].startswith(error)
    assert main(["serve", "--json"]) == 2
    assert "No such option '--json'" in capsys.readouterr().err
