"""The command line: what it takes, what it refuses in one line, and what it prints without serving."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy import __version__
from proxy.commands import main as cli
from proxy.config.settings import SPECS
from tests.support.bare import make_bare

PACKAGE = Path(cli.__file__).parents[1]


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bare(tmp_path, monkeypatch)


def test_help_shows_each_option_with_its_variable_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    for word in ("serve", "check", "--rules FILE", "TOOL_PROXY_RULES", "--version"):
        assert word in text
    for spec in SPECS:
        assert spec.help in text
        assert all(name in text.replace(" ", "") for name in (*spec.flags, *spec.variables))
    assert "(TOOL_PROXY_PORT; 8003; also PROXY_PORT)" in text
    assert "(TOOL_PROXY_UPSTREAM_CA; none)" in text and "(TOOL_PROXY_NO_UI; off)" in text


def test_without_a_word_it_says_what_it_is_and_which_commands_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    assert text.startswith("vllm-tool-proxy repairs the tool calls of open models.") and text.count("\n") < 12
    for command in ("doctor --upstream", "launch claude --upstream", "serve --upstream", "--help"):
        assert f"vllm-tool-proxy {command}" in text


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version_is_told(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([flag])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"vllm-tool-proxy {__version__}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prot=1"], "there is no option --prot; use --port"),
        (["stop"], "there is no command 'stop'"),
        (["check", "serve"], "'serve' is one word too many"),
        (["--host"], "argument --host: expected one argument; see vllm-tool-proxy --help"),
        (["check", "--upstream-ca", "/dev/null/x"], "upstream_ca: /dev/null/x cannot be used"),
    ],
)
def test_the_return_value_is_the_exit_code(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["doctor", "setup", "check"])
def test_ctrl_c_is_one_line_and_a_status_of_its_own(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*words: object, **more: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    monkeypatch.setattr(cli, "_check", interrupted)
    assert cli.main([command]) == 130
    assert capsys.readouterr() == ("", "vllm-tool-proxy: interrupted: this did not come to its end\n")


def test_the_package_folder_is_spelled_as_the_user_does_if_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(PACKAGE.parent)
    spelled = str(tmp_path / "current")
    assert cli._package_folder(spelled) == spelled
    assert cli._package_folder(str(tmp_path)) == str(PACKAGE.parent)
    assert cli._package_folder("/no/such/folder") == str(PACKAGE.parent)


@pytest.mark.parametrize(
    "words,said",
    [
        (["check", "--rules", "old.yaml"], "old.yaml:3: there is no setting 'audit_size'; use "),
        (["check", "--audit-size", "65536"], "there is no option --audit-size; use "),
    ],
)
def test_unknown_settings_and_options_are_errors_that_name_near_ones(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    (tmp_path / "old.yaml").write_text("settings:\n  port: 8009  # ours\n  audit_size: 65536\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PWD", raising=False)
    assert cli.main(words) == 2
    out, err = capfd.readouterr()
    assert said in err and err.count("\n") == 1 and not out


def test_words_become_a_command_and_the_settings_that_are_given() -> None:
    assert cli._arguments([]) == ("serve", {})
    words = ["check", "--vllm-url", "http://h", "--no-ui", "--rules", "r.yaml", "--port=9"]
    given = {"upstream": "http://h", "no_ui": "true", "rules": "r.yaml", "port": "9"}
    assert cli._arguments(words) == ("check", given)
    assert cli._arguments([*words[1:], "check"]) == ("check", given)


def test_every_command_of_the_help_is_one_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    usage = text.partition("\n")[0].replace("[", " ").replace("]", " ").split()
    assert [name for name in cli.COMMANDS if f"\n  {name} " not in text or name not in usage] == []
    for name in (each for each in cli.COMMANDS if each not in ("serve", "check")):
        with pytest.raises(SystemExit) as ended:
            cli.main([name, "--help"])
        assert ended.value.code == 0 and f"usage: vllm-tool-proxy {name}" in capsys.readouterr().out


def test_an_error_is_one_line_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["a\nb\tc"]) == 2
    assert cli.main(["--rules", "no\nfile"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
