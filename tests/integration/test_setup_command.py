"""`vllm-tool-proxy setup` and `launch`: what they request from a proxy, print, write, undo and start."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
import trustme

from proxy.cli import proxy_facts
from proxy.cli.agent_files import SUFFIX
from proxy.cli.agents import AGENTS
from proxy.cli.configuration import Values
from proxy.cli.main import main
from tests.conftest import Proxy, start, tls_context
from tests.real.processes import ROOT
from tests.support.messages_client import MODELS, cards
from tests.support.scripted import PATIENCE, Act, Upstream, answer

pytestmark = pytest.mark.once

MODEL = "Qwen/Qwen3-Coder"
KEY = "a-secret-key-of-the-proxy"
# A program that reports how it was started.
SHOWS = """#!/bin/sh
for word in "$0" "$@"; do echo "word $word"; done
env | sort | sed "s/^/env /"
exit 7
"""
ABOUT = answer({"service": "vllm-tool-proxy", "version": "1"})
READY = answer({"status": "ready"})


class Ran(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(name="home")
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home without environment variables of agents."""
    web = [f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL", "NO")]
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", *web, *map(str.lower, web)):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(name="run")
def _run(capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    def run(*words: str) -> Ran:
        capsys.readouterr()
        status = main(words)
        return Ran(status, *capsys.readouterr())

    return run


@pytest.fixture(name="real", scope="module")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Yield a proxy in front of a server with one model, which has an alias in the rules."""
    folder = tmp_path_factory.mktemp("setup")
    (folder / "rules.yaml").write_text(f'aliases: {{"claude-*": {MODEL}}}\n')
    with ExitStack() as stack:
        server = stack.enter_context(Upstream())
        server.paths = {"/health": [answer({})], MODELS: cards(MODEL, max_model_len=65536)}
        yield start(server.url, "--rules", str(folder / "rules.yaml"), folder=folder, stack=stack)


@pytest.fixture(name="keyed")
def _keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_KEY", KEY)


def proxy_that(**paths: Any) -> Upstream:
    """Return a server that answers like a proxy, except on these paths."""
    server = Upstream()
    usual: dict[str, Any] = {"/": [ABOUT], "/_ready": [READY], MODELS: cards(MODEL, max_model_len=65536)}
    server.paths = {**usual, **{f"/{name}".replace("/models", MODELS): script for name, script in paths.items()}}
    return server


def tree(home: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(home)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


def pi_files(home: Path) -> dict[str, tuple[int, bytes]]:
    """Create both of pi's files in a home. Return the tree."""
    folder = home / ".pi/agent"
    folder.mkdir(parents=True)
    for name in ("models.json", "settings.json"):
        (folder / name).write_text('{"mine": 1}\n')
    return tree(home)


def program(folder: Path, name: str, text: str = SHOWS) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def launched(home: Path, *words: str, **variables: str) -> Ran:
    """Run the command as a process. The home's `bin` is first on PATH."""
    path = f"{home / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(
        [sys.executable, "-m", "proxy", *words],
        cwd=ROOT,
        env={"PATH": path, "HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class TestPrint:
    @pytest.mark.parametrize("agent", AGENTS)
    def test_each_agents_whole_configuration_is_printed(self, agent: str, run: Run, real: Proxy, home: Path) -> None:
        ran = run("setup", agent, "--url", f"{real.url}/v1/")
        assert (ran.status, ran.err) == (0, "")
        title, asked, *_ = ran.out.splitlines()
        version = AGENTS[agent].version
        assert title == f"# {AGENTS[agent].title}{f', tested with version {version}' if version else ''}"
        assert asked == f"# proxy {real.url}, model {MODEL}, context 65536 tokens"
        assert real.url in ran.out.partition(asked)[2]
        assert tree(home) == {}

    def test_the_environment_can_be_evaluated_by_a_shell(self, run: Run, real: Proxy) -> None:
        """It refers to the variable that contains the key and never contains the key itself."""
        out = run("setup", "claude", "--url", real.url).out
        lines = out.partition("# environment\n")[2].partition("\n\n")[0]
        said = subprocess.run(
            ["sh", "-c", f"{lines}\nenv"], env={"ANTHROPIC_API_KEY": "x"}, capture_output=True, text=True, check=True
        )
        assert {f"ANTHROPIC_BASE_URL={real.url}", "CLAUDE_CODE_MAX_CONTEXT_TOKENS=65536"} <= {*said.stdout.splitlines()}
        assert "ANTHROPIC_API_KEY" not in said.stdout

    def test_a_model_name_is_never_executed_as_a_command(self, run: Run, tmp_path: Path) -> None:
        """The output for the SDKs is shell code: comments and variables."""
        with proxy_that(models=cards("coder\ntouch owned #", max_model_len=65536)) as server:
            out = run("setup", "sdk", "--url", server.url).out
        subprocess.run(["sh", "-c", out], cwd=tmp_path, timeout=PATIENCE, check=True)
        assert "touch owned" in out and not (tmp_path / "owned").exists()

    def test_a_key_is_named_but_never_printed(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PROXY_KEY", KEY)
        with proxy_that() as server:
            outs = [run("setup", agent, "--url", server.url, "--key-env", "PROXY_KEY").out for agent in AGENTS]
        assert all("PROXY_KEY" in out and KEY not in out for out in outs)

    @pytest.mark.parametrize("words", [("claude",), ("claude", "--write"), ("codex", "--write"), ("sdk",)])
    def test_exceptions_from_a_web_proxy_are_exported(
        self, words: tuple[str, ...], run: Run, real: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The web proxy's URL is not printed, because it may contain a password."""
        monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@web:3128")
        ran = run("setup", *words, "--url", real.url)
        assert "secret" not in ran.out
        # The content of Claude Code's file is not printed again.
        exported = "export NO_PROXY=127.0.0.1,localhost,::1\nexport no_proxy=127.0.0.1,localhost,::1\n"
        assert (exported in ran.out) == (words != ("claude", "--write"))

    def test_a_small_context_is_reported(self, run: Run) -> None:
        with proxy_that(models=cards(MODEL, max_model_len=8192)) as server:
            assert "A context of 8192 tokens is small" in run("setup", "pi", "--url", server.url).out
        with proxy_that(models=cards(MODEL)) as server:
            out = run("setup", "pi", "--url", server.url).out
        assert "context unknown" in out and "is small" not in out


class TestModels:
    def test_an_alias_is_not_listed_as_a_second_model(self, run: Run, real: Proxy) -> None:
        listed = json.loads(real.get(MODELS)[2])["data"]
        assert [each["id"] for each in listed] == [MODEL, "claude-Qwen3-Coder"]
        assert f"model {MODEL}," in run("setup", "sdk", "--url", real.url).out

    @pytest.mark.parametrize("name", ["claude-Qwen3-Coder", "claude-sonnet-4-5", MODEL])
    def test_a_model_can_be_selected_by_any_name_that_the_proxy_knows(self, name: str, run: Run, real: Proxy) -> None:
        out = run("setup", "sdk", "--url", real.url, "--model", name).out
        assert f"model {name}, context 65536 tokens" in out

    def test_a_choice_is_required_if_there_are_several_models(self, run: Run) -> None:
        with proxy_that(models=cards("a", "b", max_model_len=9000)) as server:
            ran = run("setup", "pi", "--url", server.url)
            assert (ran.status, ran.out) == (2, "")
            assert ran.err == "vllm-tool-proxy: error: the proxy has several models; choose one with --model: a, b\n"
            assert "model b," in run("setup", "pi", "--url", server.url, "--model", "b").out
        with proxy_that(models=cards("a\nb", *map(str, range(11)))) as server:
            ran = run("setup", "pi", "--url", server.url)
        assert ran.err.endswith(" --model: a\\nb, 0, 1, 2, 3, 4, 5, 6, 7, 8 and 2 more\n")

    def test_a_missing_model_is_rejected(self, run: Run, real: Proxy) -> None:
        ran = run("setup", "pi", "--url", real.url, "--model", "gpt-5")
        assert ran.status == 2
        assert ran.err.endswith(f"no model 'gpt-5'; the server has: {MODEL}, claude-Qwen3-Coder\n")

    def test_llama_servers_model_list_shows_image_support(self, run: Run) -> None:
        listed = {"data": [{"id": "m"}, {"id": "claude-m"}], "models": [{"model": "m", "capabilities": ["multimodal"]}]}
        with proxy_that(models=[answer(listed)]) as server:
            server.paths[f"{MODELS}/claude-m"] = [answer({"type": "model", "display_name": "m"})]
            for name in ("m", "claude-m"):
                assert '"image"' in run("setup", "pi", "--url", server.url, "--model", name).out

    def test_aliases_and_rules_define_a_models_capabilities(self, run: Run, tmp_path: Path) -> None:
        """A real proxy reports them for each name, listed or not."""
        rules = tmp_path / "rules.yaml"
        rules.write_text(
            'aliases: {"claude-opus-4": gpt-oss-20b, "big": gpt-oss-20b}\n'
            "models: [{match: Qwen3-Coder, family: gpt-oss}]\n"
        )
        with Upstream() as server, ExitStack() as stack:
            server.paths = {"/health": [answer({})], MODELS: cards("gpt-oss-20b", "Qwen3-Coder")}
            url = start(server.url, "--rules", str(rules), folder=tmp_path, stack=stack).url
            for name in ("Qwen3-Coder", "claude-opus-4", "big"):
                out = run("setup", "codex", "--url", url, "--model", name).out
                assert re.findall(r'"effort": "(.*?)"', out) == ["low", "medium", "high"], name


SILENT = "the server at URL does not answer / within 0.2 s; restart it"
NO_PROXY = [
    *([b"SSH-2.0-OpenSSH_9\r\n"], [b""], [Act.RST], [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"]),
    *([answer({}, 404)], [answer(b"<html>")], [answer([])], [answer({"service": "other"})], [answer({})]),
]
# Paths that differ from a proxy's, the exit status, and the error message.
UNUSABLE: list[tuple[dict[str, Any], int, str]] = [
    ({"": [Act.EXPECT_CLOSE]}, 3, SILENT),
    ({"": [b"HTTP/1.1 200 OK\r\n", Act.EXPECT_CLOSE]}, 3, SILENT),
    *(({"": script}, 4, "is not vllm-tool-proxy") for script in NO_PROXY),
    ({"_ready": [answer({"status": "unavailable"}, 503)]}, 3, "the proxy at URL does not reach its model server;"),
    *(
        ({"models": [answer(body)]}, 4, "the list of models of the proxy at URL ")
        for body in (b"no JSON", b"[]", b'{"data": 7}', b'{"data": []}', b"")
    ),
]


class TestNoProxy:
    def line(self, run: Run, url: str, *words: str) -> tuple[int, str]:
        ran = run("setup", "claude", "--url", url, *words)
        assert ran.out == "" and ran.err.count("\n") == 1
        return ran.status, ran.err.removeprefix("vllm-tool-proxy: error: ").rstrip("\n")

    def test_no_listener(self, run: Run) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        status, line = self.line(run, url)
        assert (status, line) == (
            3,
            f"connection refused at {url}; start `vllm-tool-proxy serve`, or give the proxy's --url",
        )

    def test_an_unknown_certificate(
        self, run: Run, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with Upstream(tls=tls_context(authority)) as server:
            server.paths = {"/": [ABOUT], "/_ready": [READY], MODELS: cards(MODEL)}
            status, line = self.line(run, server.url)
            authority.cert_pem.write_to_path(tmp_path / "ca.pem")
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            assert run("setup", "claude", "--url", server.url).status == 0
        assert status == 3 and line.startswith(f"no TLS connection to {server.url}: ")
        assert line.endswith("; set SSL_CERT_FILE to the file of its authority")

    @pytest.mark.parametrize(("paths", "status", "words"), UNUSABLE)
    def test_a_server_that_is_not_a_usable_proxy(
        self, run: Run, paths: dict[str, Any], status: int, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if words == SILENT:
            monkeypatch.setattr(proxy_facts, "_SECONDS", 0.2)
        with proxy_that(**paths) as server:
            told, line = self.line(run, server.url)
        assert told == status and words.replace("URL", server.url) in line

    def test_a_key_that_is_required_or_rejected(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PROXY_KEY", KEY)
        with proxy_that(models=[answer({"error": {}}, 401)]) as server:
            wanted = self.line(run, server.url)
            refused = self.line(run, server.url, "--key-env", "PROXY_KEY")
        told = "name its variable with --key-env, or set TOOL_PROXY_UPSTREAM_KEY if the model server wants it"
        assert wanted == (2, f"the server wants a key (401); {told}")
        assert refused == (2, "the server refuses the key in PROXY_KEY (401)")

    @pytest.mark.parametrize("name", ["PROXY_KEY", "odd name", "$HOME", "lower", "BLANK"])
    def test_a_variable_without_a_key(self, run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BLANK", " ")
        status, line = self.line(run, "http://127.0.0.1:9", "--key-env", name)
        assert status == 2 and line.startswith(
            f"--key-env {name}" if name in ("PROXY_KEY", "BLANK") else f"--key-env {name!r}"
        )

    @pytest.mark.parametrize(
        "url", ["localhost:8003", "ftp://h", "http://", "http://h:99999", "http://a b", "http://u@h", ""]
    )
    def test_an_invalid_url(self, run: Run, url: str) -> None:
        status, line = self.line(run, url)
        assert status == 2 and line.startswith(f"--url {url!r} is not valid; give ")


class TestWrite:
    """`--write` and `--undo` for every agent that has files."""

    @pytest.mark.usefixtures("keyed")
    @pytest.mark.parametrize("agent", AGENTS)
    @pytest.mark.parametrize("key", [(), ("--key-env", "PROXY_KEY")], ids=["", "with a key"])
    def test_writing_is_idempotent_and_can_be_undone(
        self, agent: str, key: tuple[str, ...], run: Run, real: Proxy, home: Path
    ) -> None:
        before = tree(home)
        words = ("setup", agent, "--url", real.url, *key, "--write")
        first = run(*words)
        assert (first.status, first.err) == (0, "")
        written = tree(home)
        new = {name for name in written.keys() - before if (home / name).is_file()}
        record = {f".local/state/vllm-tool-proxy/setup-{agent}.json"} if new else set()
        assert first.out.count(": written") == len(new - record) == len(_made_by(agent))
        assert {name for name, (mode, _) in written.items() if mode & 0o077} == {*before}
        assert not [path for path in home.rglob("*") if path.is_dir() and path.stat().st_mode & 0o077]
        # Cline cannot read its key from a variable.
        holding = {name for name, (_, content) in written.items() if KEY.encode() in content}
        assert holding == ({".cline/data/settings/providers.json"} if key and agent == "cline" else set())
        second = run(*words)
        assert (second.status, second.out.count(": nothing to change")) == (0, len(new - record))
        assert tree(home) == written
        assert run("setup", agent, "--undo").status == 0
        assert tree(home) == before
        assert run("setup", agent, "--undo").out == "nothing to undo\n"

    def test_a_users_own_files_are_merged_and_restored(self, run: Run, real: Proxy, home: Path) -> None:
        config = home / ".codex/config.toml"
        config.parent.mkdir()
        config.write_text('# mine\nmodel = "gpt-5"  # the usual\n\n[tui]\nx = 1\n')
        config.chmod(0o640)
        before = tree(home)
        out = run("setup", "codex", "--url", real.url, "--write").out
        assert f"{config}: written; the original is {config}{SUFFIX}" in out
        said = tomllib.loads(config.read_text())
        assert (said["model"], said["tui"], said["model_provider"]) == (MODEL, {"x": 1}, "vllm-tool-proxy")
        assert f'\n# mine\nmodel = "{MODEL}"  # the usual\n' in config.read_text()
        run("setup", "codex", "--undo")
        assert tree(home) == before

    def test_an_unmergeable_file_is_reported_and_unchanged(self, run: Run, real: Proxy, home: Path) -> None:
        config = home / ".codex/config.toml"
        config.parent.mkdir()
        config.write_text('[[model_providers]]\nname = "x"\n')
        before = tree(home)
        ran = run("setup", "codex", "--url", real.url, "--write")
        assert ran.status == 1 and ran.err.count("\n") == 1
        assert f"{config} is unchanged: " in ran.err and "prints without --write" in ran.err
        assert tree(home) == before

    def test_overriding_settings_are_emptied_and_restored(self, run: Run, real: Proxy, home: Path) -> None:
        config = home / ".claude/settings.json"
        config.parent.mkdir()
        config.write_text('{"env": {"ANTHROPIC_API_KEY": "sk", "CLAUDE_CODE_USE_BEDROCK": "1", "MINE": "x"}}\n')
        before = tree(home)
        out = run("setup", "claude", "--url", real.url, "--write").out
        assert f"{config}: written; the original is {config}{SUFFIX}\n" in out
        said = json.loads(config.read_text())["env"]
        assert said["MINE"] == "x" and said["ANTHROPIC_API_KEY"] == said["CLAUDE_CODE_USE_BEDROCK"] == ""
        again = run("setup", "claude", "--url", real.url, "--write").out
        assert f"{config}: nothing to change\n" in again
        run("setup", "claude", "--undo")
        assert tree(home) == before

    def test_undo_contacts_no_proxy(self, run: Run, home: Path) -> None:
        assert run("setup", "pi", "--undo", "--url", "http://127.0.0.1:9") == (0, "nothing to undo\n", "")

    def test_undo_with_a_closed_pipe_is_complete(self, run: Run, real: Proxy, home: Path) -> None:
        """With `--undo | true` the second file would otherwise stay and could never be restored."""
        before = pi_files(home)
        run("setup", "pi", "--url", real.url, "--write")
        reading, writing = os.pipe()
        os.close(reading)
        words = [sys.executable, "-m", "proxy", "setup", "pi", "--undo"]
        subprocess.run(words, cwd=ROOT, stdout=writing, timeout=PATIENCE, check=False)
        os.close(writing)
        assert tree(home) == before

    def test_undo_changes_nothing_if_one_backup_is_missing(self, run: Run, real: Proxy, home: Path) -> None:
        pi_files(home)
        run("setup", "pi", "--url", real.url, "--write")
        copy = home / f".pi/agent/settings.json{SUFFIX}"
        copy.unlink()
        written = tree(home)
        ran = run("setup", "pi", "--undo")
        told = f"{copy}, the copy of the original, is missing, so nothing is restored"
        assert ran == (1, "", f"vllm-tool-proxy: error: {told}\n")
        assert tree(home) == written

    def test_a_manually_restored_file_is_backed_up_again(self, run: Run, real: Proxy, home: Path) -> None:
        before = pi_files(home)
        run("setup", "pi", "--url", real.url, "--write")
        for name in ("models.json", "settings.json"):
            (home / f".pi/agent/{name}{SUFFIX}").rename(home / ".pi/agent" / name)
        assert run("setup", "pi", "--url", real.url, "--write").status == 0
        assert run("setup", "pi", "--undo").status == 0
        assert tree(home) == before

    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
    def test_only_regular_files_are_written(
        self, make: Callable[[Path], None], run: Run, real: Proxy, home: Path
    ) -> None:
        (home / ".claude").mkdir()
        make(home / ".claude/settings.json")
        told = f"{home}/.claude/settings.json cannot be read (not a regular file)"
        assert run("setup", "claude", "--url", real.url, "--write").err == f"vllm-tool-proxy: error: {told}\n"

    def test_an_unwritable_path_is_reported_in_one_line(
        self, run: Run, real: Proxy, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not even root can create a folder in /proc, and a symbolic link to itself cannot be resolved."""
        (home / ".codex").mkdir()
        (home / ".codex/config.toml").symlink_to("config.toml")
        for folder in (home / ".codex", Path("/proc/no-such-folder")):
            monkeypatch.setenv("CODEX_HOME", str(folder))
            ran = run("setup", "codex", "--url", real.url, "--write")
            assert (ran.status, ran.err.count("\n")) == (1, 1)
            assert str(folder) in ran.err and "cannot be" in ran.err


def _made_by(agent: str) -> list[str]:
    """Return the files that an agent's setup creates."""
    return [file.path for file in AGENTS[agent].configure(Values("http://h", "m")).files]


class TestLaunch:
    def test_claude_code_gets_its_environment_and_no_file_is_written(self, real: Proxy, home: Path) -> None:
        program(home / "bin", "claude")
        before = tree(home)
        words = ("launch", "claude", "--url", real.url, "--key-env", "PROXY_KEY", "--", "-p", "a b", "--", "--url")
        ran = launched(home, *words, PROXY_KEY=KEY, ANTHROPIC_API_KEY="mine", CLAUDE_CODE_USE_BEDROCK="1", KEPT="x")
        assert (ran.status, ran.err) == (7, "")
        lines = ran.out.splitlines()
        words_of = [line.removeprefix("word ") for line in lines if line.startswith("word ")]
        assert [*words_of[:2], *words_of[3:]] == [f"{home}/bin/claude", "--settings", "-p", "a b", "--", "--url"]
        settings = json.loads(words_of[2])
        assert settings["env"]["ANTHROPIC_BASE_URL"] == real.url and KEY not in words_of[2]
        said = {f"ANTHROPIC_BASE_URL={real.url}", f"ANTHROPIC_AUTH_TOKEN={KEY}", f"ANTHROPIC_MODEL={MODEL}", "KEPT=x"}
        assert {f"env {each}" for each in said} <= {*lines}
        variables = [line for line in lines if line.startswith("env ")]
        assert not [line for line in variables if "ANTHROPIC_API_KEY" in line or "BEDROCK" in line]
        assert tree(home) == before

    @pytest.mark.slow
    def test_the_proxy_is_reached_without_a_web_proxy(self, real: Proxy, home: Path) -> None:
        """curl and most other clients obey these variables and would use the web proxy even for 127.0.0.1."""
        program(home / "bin", "claude")
        web = {"HTTP_PROXY": "http://web:3128", "https_proxy": "http://web:3128", "NO_PROXY": "corp.example"}
        ran = launched(home, "launch", "claude", "--url", real.url, **web)
        said = {f"env {name}={value}" for name, value in web.items() if name != "NO_PROXY"}
        excepted = {f"env {name}=corp.example,127.0.0.1,localhost,::1" for name in ("NO_PROXY", "no_proxy")}
        assert said | excepted <= {*ran.out.splitlines()}
        assert "NO_PROXY" not in launched(home, "launch", "claude", "--url", real.url).out.upper()

    def test_any_program_gets_the_variables_of_the_sdks(self, real: Proxy, home: Path) -> None:
        assert shutil.which("env") is not None
        ran = launched(home, "launch", "sdk", "--url", real.url, "--", "env")
        assert f"OPENAI_BASE_URL={real.url}/v1" in ran.out.splitlines()

    def test_both_sdks_use_the_printed_variables(self, real: Proxy, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """The SDKs need no other settings."""
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        printed = run("setup", "sdk", "--url", real.url).out
        for line in printed.splitlines():
            if line.startswith("export "):
                monkeypatch.setenv(*line.removeprefix("export ").split("=", 1))
        with openai.OpenAI(max_retries=0) as client, anthropic.Anthropic(max_retries=0) as other:
            assert [each.id for each in client.models.list()] == [MODEL, "claude-Qwen3-Coder"]
            assert [each.id for each in other.models.list()] == [MODEL, "claude-Qwen3-Coder"]

    def test_a_program_that_cannot_start_is_reported(
        self, run: Run, real: Proxy, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(home))
        ran = run("launch", "pi", "--url", real.url)
        assert ran.status == 127 and "npm install -g @mariozechner/pi-coding-agent@0.73.1" in ran.err
        assert run("launch", "sdk", "--url", real.url).status == 2
        assert run("launch", "sdk", "--url", real.url, "--", "gone").err.endswith(" gone is not on PATH\n")
        assert tree(home) == {}
