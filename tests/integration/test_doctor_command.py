"""The command `vllm-tool-proxy doctor`: its output, its exit codes, the rules file that it writes, and the report."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.cli.main import main
from tests.real.processes import free_port
from tests.support.bare import make_bare
from tests.support.model_server import Behaviour, ModelServer, refusal
from tests.support.scripted import Act, Upstream

HERMES = "Hermes' JSON"
FINE = Behaviour()
# The server swallows its model's calls, and its template renders only one call per turn.
WRONG = replace(FINE, reads=frozenset({HERMES}), unread="swallowed")


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bare(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PWD", str(tmp_path))


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line of output, which is on stderr."""
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def test_a_port_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["doctor", "--upstream", url]) == 3
    start = f"vllm-tool-proxy: error: connection refused at {url}; "
    assert error_line(capsys) == f"{start}start the model server, or pass its URL with --upstream\n"
    assert main(["doctor", "--upstream", "http://gpubox.invalid:8000"]) == 3
    assert error_line(capsys).startswith("vllm-tool-proxy: error: unknown host gpubox.invalid")


def test_a_server_that_hangs(capsys: pytest.CaptureFixture[str]) -> None:
    with Upstream([Act.EXPECT_CLOSE]) as server:
        assert main(["doctor", "--upstream", server.url, "--timeout", "0.3"]) == 3
        line = error_line(capsys)
    assert line == f"vllm-tool-proxy: error: {server.url} does not answer: no answer within 0.3 s\n"


@pytest.mark.parametrize(
    "script",
    [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00\xff\x00\xff\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"],
)
def test_a_server_that_sends_garbage(script: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with Upstream([script]) as server:
        assert main(["doctor", "--upstream", server.url, "--timeout", "20"]) == 3
        assert error_line(capsys).startswith(f"vllm-tool-proxy: error: {server.url} is not a model server: ")


def test_the_exit_code_reports_harm(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(FINE) as server:
        assert main(["doctor", "--upstream", server.url]) == 0
        out, err = capsys.readouterr()
    assert "does harm" not in out and "for the rules file" not in out
    assert err.startswith("doctor: 1/") and len(err.splitlines()) == int(err.split("/")[1].split()[0])
    with ModelServer(WRONG) as server:
        assert main(["doctor", "--upstream", server.url]) == 1
    assert "does harm:\n- the server swallows the model's call" in capsys.readouterr().out


def test_the_key_is_only_sent_upstream(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SERVER_KEY", "sk-of-the-server")
    # A server may quote the key in its errors.
    said = refusal("Not for the key sk-of-the-server.")
    refuses = replace(FINE, before=lambda path, body: said if body.get("tool_choice") == "required" else None)
    with ModelServer(refuses) as server:
        main(["doctor", "--upstream", server.url, "--key-env", "SERVER_KEY"])
        main(["doctor", "--upstream", server.url, "--key-env", "SERVER_KEY", "--json"])
        assert {each["Authorization"] for each in server.headers} == {"Bearer sk-of-the-server"}
    out, err = capsys.readouterr()
    assert "sk-of-the-server" not in out + err
    assert out.count(f"Not for the key {'*' * 16}.") >= 2


def test_server_text_is_escaped_for_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(replace(FINE, name="m\ndoes harm:\n- x", version="1\x1b[2J\x07\u202e2")) as server:
        main(["doctor", "--upstream", server.url])
    out, _ = capsys.readouterr()
    assert out.splitlines()[1] == f"{server.url}: vllm 1\\u001b[2J\\u0007\\u202e2, model m\\ndoes harm:\\n- x"
    assert "\ndoes harm:\n" not in out and "\x1b" not in out and "\u202e" not in out


def test_the_entry_is_written_once_and_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--write` creates a file that `check` accepts. The second run changes nothing, and the file keeps its text."""
    rules = tmp_path / "mine.yaml"
    before = "# ours\nmodels:\n  - {match: 'Qwen*', upstream: live}  # theirs\n  - match: '*'\n    parse: auto\n"
    rules.write_text(before)
    rules.chmod(0o640)
    with ModelServer(WRONG) as server:
        main(["doctor", "--upstream", server.url, "--write", "mine.yaml"])
        assert f"written: {rules} (backup: {rules}.before-1)" in capsys.readouterr().out
        after = rules.read_text()
        entry = '  - {"match": "Qwen3-Coder", "parse": "proxy", "upstream": "live"}\n'
        assert after == before.replace("models:\n", f"models:\n{entry}")
        assert (tmp_path / "mine.yaml.before-1").read_text() == before
        assert stat.S_IMODE(rules.stat().st_mode) == 0o640
        main(["doctor", "--upstream", server.url, "--write", "mine.yaml"])
        assert f"nothing was written: {rules} needs no further entry" in capsys.readouterr().out
    assert rules.read_text() == after
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.yaml", "mine.yaml.before-1"]
    assert main(["check", "--rules", "mine.yaml"]) == 0
    assert 'models Qwen3-Coder: {"match": "Qwen3-Coder", "parse": "proxy"' in capsys.readouterr().out


def test_the_printed_entry_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed entry can be pasted into a file unchanged."""
    with ModelServer(replace(WRONG, name='org/[odd]*: "model"', owner="vllm")) as server:
        main(["doctor", "--upstream", server.url])
    out = capsys.readouterr().out
    (tmp_path / "pasted.yaml").write_text(out[out.index("models:\n") : out.index("\nspent: ")] + "\n")
    assert main(["check", "--rules", "pasted.yaml"]) == 0
    assert '"parse": "proxy"' in capsys.readouterr().out


def test_a_missing_file_is_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(WRONG) as server:
        main(["doctor", "--upstream", server.url, "--write", "new.yaml"])
        assert f"written: {tmp_path / 'new.yaml'} (it is new)" in capsys.readouterr().out
    assert main(["check", "--rules", "new.yaml"]) == 0
    out = capsys.readouterr().out
    assert "models Qwen3-Coder: " in out and "models *gpt-oss*: " in out, "the built-in entries still apply"


def test_a_symbolic_link_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.yaml").symlink_to(tmp_path / "there" / "rules.yaml")
    (tmp_path / "lost.yaml").symlink_to(tmp_path / "nowhere" / "rules.yaml")
    with ModelServer(WRONG) as server:
        assert main(["doctor", "--upstream", server.url, "--write", "lost.yaml"]) == 2
        assert server.asked == [] and "nowhere" in error_line(capsys)
        main(["doctor", "--upstream", server.url, "--write", "link.yaml"])
    assert (tmp_path / "there" / "rules.yaml").read_text().startswith("models:")


def test_without_a_path_the_file_in_use_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If no file is in use, the user's file is created, so that `serve` reads it."""
    rules = tmp_path / "config" / "vllm-tool-proxy" / "rules.yaml"
    with ModelServer(WRONG) as server:
        main(["doctor", "--upstream", server.url, "--write"])
        assert f"written: {rules} (it is new)" in capsys.readouterr().out
        mine = tmp_path / "mine.yaml"
        mine.write_text("aliases: {small: Qwen3-Coder}\n")
        main(["doctor", "--upstream", server.url, "--rules", "mine.yaml", "--write"])
        assert f"written: {mine} (backup: {mine}.before-1)" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["no/such/place", "."])
def test_an_unwritable_path_is_reported_first(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(WRONG) as server:
        assert main(["doctor", "--upstream", server.url, "--write", place]) == 2
        assert server.asked == []
    assert str(tmp_path / place) in error_line(capsys)


def test_a_bad_rules_file_is_reported_before_any_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("models: [{matches: x}]\n")
    with ModelServer(WRONG) as server:
        assert main(["doctor", "--upstream", server.url, "--write", "bad.yaml"]) == 2
        assert server.asked == []
    assert "bad.yaml:1:" in error_line(capsys)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--upstream", "ftp://x"], "--upstream: 'ftp://x' cannot be used; it must be an http:// or https:// URL"),
        (["--key-env", "NO_KEY"], "--key-env NO_KEY: the variable is not set; set it to the key\n"),
    ],
)
def test_unusable_options_are_errors(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *words]) == 2
    assert error_line(capsys).startswith(f"vllm-tool-proxy: error: {line}")


def test_a_key_that_is_not_a_valid_header_value_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-ü-secret")
    assert main(["doctor", "--key-env", "MY_KEY"]) == 2
    line = error_line(capsys)
    assert "--key-env MY_KEY: this must be a key, one line of up to" in line and "secret" not in line
