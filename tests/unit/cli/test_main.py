"""The command line: help, errors and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy import __version__
from proxy.cli import serve
from proxy.cli.agents import AGENTS
from proxy.cli.main import main
from proxy.config.settings import SPECS
from tests.support.bare import make_bare
from tests.support.rows import rows

PACKAGE = Path(serve.__file__).parents[1]


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bare(tmp_path, monkeypatch)


def shown(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of a command as one line."""
    assert main(words.split()) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words", ["serve --help", "check -h", "--port 8004 --help"])
def test_help_shows_each_setting_with_its_variable_and_default(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(words, capsys)
    for spec in SPECS:
        assert spec.help in text.replace("- ", "-")  # lines may break after a hyphen
        assert all(name in text.replace(" ", "") for name in (*spec.flags, *spec.variables))
    for part in ("--rules FILE", "TOOL_PROXY_RULES", "(TOOL_PROXY_PORT; 8003; also PROXY_PORT)"):
        assert part in text
    assert "(TOOL_PROXY_UPSTREAM_CA; none)" in text and "(TOOL_PROXY_NO_UI; off)" in text


def test_help_lists_every_command_and_each_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("--help", capsys)
    for command in ("serve", "check", "parse", "doctor", "setup", "launch", "key"):
        assert f" {command} " in text
        assert f"Usage: vllm-tool-proxy {command}" in shown(f"{command} --help", capsys)
    for command in ("setup", "launch"):
        assert all(f"{agent}," in shown(f"{command} -h", capsys) for agent in AGENTS if agent != "sdk")
    assert "a file cannot be merged or written, or --undo found it changed" in shown("setup --help", capsys)
    assert "Default: the key that the proxy would use." in shown("doctor --help", capsys)


def test_without_arguments_it_describes_itself_and_suggests_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert text.startswith("vllm-tool-proxy repairs the tool calls of open models.") and text.count("\n") < 12
    for command in ("doctor --upstream", "launch claude --upstream", "serve --upstream", "--help"):
        assert f"vllm-tool-proxy {command}" in text


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_printed(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out == f"vllm-tool-proxy {__version__}\n"


@rows(__file__, "words,message")
def test_wrong_usage_is_one_error_line_and_exit_status_2(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.yaml").write_text("settings:\n  port: 8009  # ours\n  audit_size: 65536\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PWD", raising=False)
    assert main(words.split()) == 2
    out, err = capfd.readouterr()
    assert err.startswith("vllm-tool-proxy: error: ") and message in err and err.count("\n") == 1 and not out


def test_the_package_folder_keeps_the_users_symlinks(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(PACKAGE.parent)
    spelled = str(tmp_path / "current")
    assert serve.package_folder(spelled) == spelled
    assert serve.package_folder(str(tmp_path)) == str(PACKAGE.parent)
    assert serve.package_folder("/no/such/folder") == str(PACKAGE.parent)
