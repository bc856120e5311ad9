"""`key add`: a key is shown once, its hash is stored, and the file is never damaged."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli.main import main
from proxy.config.api_keys import Keys, parse_clients
from tests.real.processes import ROOT
from tests.support.bare import make_bare
from tests.support.rows import rows


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bare(tmp_path, monkeypatch)


def test_the_key_opens_the_proxy_and_its_hash_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys.yaml"
    assert main(["key", "add", "alice", "--file", str(file)]) == 0
    out, err = capsys.readouterr()
    key = out.removesuffix("\n")
    assert len(key) == 64 and err.count("\n") == 1 and str(file) in err and key not in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and key not in file.read_text()
    assert Keys(parse_clients(file.read_bytes(), "keys.yaml")).client(key.encode()).name == "alice"


@rows(__file__, "before")
def test_the_rest_of_the_file_is_unchanged(before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the one named by the setting. It keeps its mode."""
    file = tmp_path / "keys.yaml"
    file.write_text(before)
    file.chmod(0o640)
    monkeypatch.setenv("TOOL_PROXY_CLIENT_KEYS", str(file))
    assert main(["key", "add", "alice"]) == 0
    assert file.read_text().startswith(before) and stat.S_IMODE(file.stat().st_mode) == 0o640
    names = [key.name for key in parse_clients(file.read_bytes(), "keys.yaml")]
    assert names == [*(["bob"] if "bob" in before else []), "alice"]


@rows(__file__, "name,before,status,message")
def test_a_failed_addition_is_one_error_line_and_changes_nothing(  # noqa: PLR0917
    name: str, before: str, status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(before)
    assert main(["key", "add", name, "--file", str(file)]) == status
    out, err = capsys.readouterr()
    assert not out and message in err and err.count("\n") == 1 and file.read_text() == before


def test_without_a_key_file_the_error_says_how_to_create_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "add", "alice"]) == 2
    assert "pass --file FILE, or set client_keys" in capsys.readouterr().err


def test_without_standard_output_no_key_is_created(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    command = f"{sys.executable} -m proxy key add alice --file {file} >&-"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, file.exists()) == (1, False)
    assert "standard output is closed, so a key cannot be shown" in done.stderr


def test_a_key_that_cannot_be_printed_is_not_stored(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    command = [sys.executable, "-m", "proxy", "key", "add", "alice", "--file", str(file)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    error = "vllm-tool-proxy: error: the output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr, file.read_bytes()) == (1, error, b"")
