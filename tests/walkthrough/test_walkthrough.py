"""The commands in README, the quick starts and the other pages work for a new user."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from proxy import __version__
from proxy.cli.agents import AGENTS as SETUPS
from tests.package.build import SOURCES
from tests.real import llama
from tests.real.processes import ROOT, answers, free_port
from tests.support.doctor_scripts import instead, said, scripts
from tests.support.sources import copy_of
from tests.walkthrough import newcomer
from tests.walkthrough.commands import walks
from tests.walkthrough.newcomer import Newcomer

README, AGENTS_PAGE, SERVERS = ROOT / "README.md", ROOT / "docs" / "agents.md", ROOT / "docs" / "servers.md"
OPERATIONS = ROOT / "docs" / "operations.md"
HERMES, CODER = "Hermes' JSON", "Qwen3-Coder's XML"
# The stand-in's prompt, and the model's reply.
TASK = "List the files."
CALL = '<tool_call>\n{"name": "exec", "arguments": {"command": "ls"}}\n</tool_call>'
CALLED = '[["exec", {"command": "ls"}]]'
# Lines of README's first screen.
SCREEN = 50

pytestmark = [pytest.mark.skipif(not llama.available(), reason="needs the extra `real`"), pytest.mark.once]


@pytest.fixture(name="reader", scope="module")
def _reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """A new user with the sources, and a llama.cpp server that answers the doctor's prompts and the agent's task."""
    from tests.real import parrot  # noqa: PLC0415 - needs the extra

    folder = tmp_path_factory.mktemp("walkthrough")
    made = {**scripts(HERMES), "agent": (TASK, CALL)}
    template = folder / "template.jinja"
    template.write_text(instead(made, parrot.template("chatml_tools.jinja"), "<|go:{}:0|>"), encoding="utf-8")
    with llama.LlamaServer(said(made), template=template) as server:
        port = free_port()
        reader = Newcomer(folder, server.url, port)
        copy_of(SOURCES, reader.sources)
        (installing, *_) = walks(README)["commands"]
        installed = reader.types(installing)
        assert installed.status == 0, installed
        yield reader
        assert not answers(f"http://127.0.0.1:{port}/health")


def test_first_screen_has_the_three_commands() -> None:
    text = README.read_text()
    commands = walks(README)["commands"]
    assert [command.split()[:2] for command in commands[1:]] == [
        ["vllm-tool-proxy", "doctor"],
        ["vllm-tool-proxy", "launch"],
    ]
    assert "pip install ." in commands[0]
    assert all(command in "\n".join(text.splitlines()[:SCREEN]) for command in commands)


def test_first_screen_has_the_install_command_of_the_agent() -> None:
    """It is the command that `launch` prints if the agent is missing."""
    screen = "\n".join(README.read_text().splitlines()[:SCREEN])
    agent = SETUPS[walks(README)["commands"][2].split()[2]]
    assert f"`npm install -g {agent.package}@{agent.version}`" in screen


@pytest.mark.slow
def test_launch_of_a_missing_agent_prints_its_install_command(reader: Newcomer) -> None:
    agent = SETUPS["cline"]
    ended = reader.types(walks(README)["commands"][2].replace("claude", agent.name))
    assert ended.status == 127 and ended.err.endswith(f" npm install -g {agent.package}@{agent.version}\n"), ended


def test_installed_command_is_in_the_environment(reader: Newcomer) -> None:
    assert reader.types("command -v vllm-tool-proxy").out == f"{reader.sources}/venv/bin/vllm-tool-proxy\n"
    assert reader.types("vllm-tool-proxy --version").out == f"vllm-tool-proxy {__version__}\n"


@pytest.mark.slow
def test_doctor_reports_and_leaves_the_rules_file_unchanged(reader: Newcomer) -> None:
    """The doctor prints a report whether or not it finds defects in llama.cpp."""
    before = (reader.sources / "rules.yaml").read_bytes()
    report = reader.types(walks(README)["commands"][1])
    assert report.status in (0, 1), report
    assert "llama.cpp" in report.out and "parrot" in report.out
    assert (reader.sources / "rules.yaml").read_bytes() == before


def test_doctor_section_has_the_command_of_readme() -> None:
    assert walks(SERVERS)["doctor"] == walks(README)["commands"][1:2]


@pytest.mark.slow
def test_launched_agent_receives_a_tool_call(reader: Newcomer) -> None:
    """The proxy exits with the agent."""
    launched = reader.types(walks(README)["commands"][2])
    assert (launched.status, launched.out) == (0, f"claude {CALLED}\n"), launched


@pytest.mark.slow
def test_long_running_proxy_serves_several_agents(reader: Newcomer) -> None:
    serve, ready, setup = walks(README)["service"]
    assert serve.startswith("vllm-tool-proxy serve ")
    with reader.lets_run(serve):
        assert json.loads(reader.types(ready).out)["status"] == "ready"
        printed = reader.types(setup)
        assert printed.status == 0 and '"baseURL": "http://127.0.0.1:' in printed.out, printed
        show, write, launch = walks(AGENTS_PAGE)["agents"]
        assert "export ANTHROPIC_BASE_URL=http://127.0.0.1:" in reader.types(show).out
        assert reader.types(write).status == 0
        assert (reader.home / ".claude" / "settings.json").exists()
        assert reader.types(launch).out == f"claude -p Fix the tests {CALLED}\n"
        (reload,) = walks(OPERATIONS)["reload"]
        assert json.loads(reader.types(reload).out) == {"status": "success", "message": "Configuration reloaded"}
        undone = reader.types(show + " --undo")
        assert undone.status == 0 and not (reader.home / ".claude" / "settings.json").exists()


# Files that `setup --write` changes, but `launch` must not.
WRITES = {
    "codex": ".codex/config.toml",
    "opencode": ".config/opencode/opencode.json",
    "qwen": ".qwen/settings.json",
    "pi": ".pi/agent/models.json",
}


@pytest.mark.slow
@pytest.mark.parametrize("server", [name for name in walks(SERVERS) if name not in ("vllm", "doctor")])
def test_quick_start_of_each_server(reader: Newcomer, server: str) -> None:
    """All quick starts use the same llama.cpp server; other tests cover the differences between servers."""
    (command,) = walks(SERVERS)[server]
    agent = command.split()[2]
    launched = reader.types(command)
    assert launched.status == 0 and launched.out.startswith(f"{agent} "), launched
    assert "http://127.0.0.1:" in launched.out
    assert f'"{WRITES[agent]}"' not in launched.out, "launch wrote the user's own file"


def test_quick_start_of_vllm_is_the_one_in_readme() -> None:
    assert walks(SERVERS)["vllm"] == walks(README)["commands"][1:]


def test_every_launched_agent_has_a_stand_in() -> None:
    launched = {
        command.split()[2]
        for page in (README, AGENTS_PAGE, SERVERS)
        for commands in walks(page).values()
        for command in commands
        if " launch " in command
    }
    assert launched - set(newcomer.AGENTS) == set()


def test_every_server_has_a_quick_start() -> None:
    quick_starts = SERVERS.read_text().partition("\n## The doctor")[0]
    titles = [line[4:] for line in quick_starts.splitlines() if line.startswith("### ")]
    assert [*(title.lower() for title in titles), "doctor"] == list(walks(SERVERS))
