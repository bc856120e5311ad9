"""`make agents` without the agents: the results page, streams, checks, and the scripted server over HTTP."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from proxy.cli.agent_files import SUFFIX
from proxy.cli.agents import AGENTS as SETUPS
from proxy.cli.merging import expected, merged, read
from tests.agents import inside, known
from tests.agents.agent import CONTEXT, MODEL, Agent
from tests.agents.results import BEGIN, END
from tests.agents.rows import BY_NAME
from tests.real.processes import ROOT
from tests.support.messages_client import MODELS, cards
from tests.support.scripted import PATIENCE, Upstream, answer

pytestmark = pytest.mark.once


class TestResults:
    def test_the_page_has_the_markers_that_the_command_replaces(self) -> None:
        page = Path("docs/agents.md").read_text(encoding="utf-8")
        assert page.count(BEGIN) == page.partition(BEGIN)[2].partition("\n## ")[0].count(END) == 1


def settings(home: Path) -> dict[str, str]:
    """Return the environment of a run with this home."""
    return {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}


def settled(agent: Agent, server: inside.Server, home: Path) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Return an agent's command, its variables and its files by path, after it was configured for a server.

    The home's own path is replaced.
    """
    home.mkdir()
    before = settings(home)
    environment = dict(before)
    command = inside.prepare(agent, BY_NAME["ok"], server, environment)
    # The agent does not read the setup records and the backups of its files.
    kept = [
        path
        for path in home.rglob("*")
        if path.is_file() and not path.match("setup-*.json") and not path.name.endswith(SUFFIX)
    ]
    files = {str(path.relative_to(home)): path.read_text().replace(str(home), "HOME") for path in kept}
    added = {name: value.replace(str(home), "HOME") for name, value in environment.items() if name not in before}
    return command, added, files


class TestAgent:
    @pytest.mark.slow
    @pytest.mark.parametrize("agent", known.AGENTS.values(), ids=known.AGENTS)
    def test_agents_are_configured_as_by_setup(self, agent: Agent, tmp_path: Path) -> None:
        """Agents are pointed at a server with the same files and variables as at a proxy."""
        with Upstream() as server:
            server.paths = {
                **{"/": [answer({"service": "vllm-tool-proxy"})], "/_ready": [answer({})]},
                MODELS: cards(MODEL, max_model_len=CONTEXT),
            }
            command, variables, files = settled(agent, inside.Server(server.url, through=True), tmp_path / "a")
            same = settled(agent, inside.Server(server.url, through=False), tmp_path / "b")
            printed = subprocess.run(
                inside.vllm_tool_proxy("setup", agent, server.url),
                env=settings(tmp_path / "b"),
                capture_output=True,
                text=True,
                check=True,
                timeout=PATIENCE,
            ).stdout
        assert (command, variables, files) == same
        told = [*files.values(), *variables.values()]
        assert any(server.url in each for each in told) and any(MODEL in each for each in [*told, *command])
        # The command configures agents only with files and variables.
        assert [*variables] == [name for name in variables if f"\nexport {name}=" in printed]
        assert shlex.join(command) in printed.splitlines()

    def test_setup_and_the_runs_cover_the_same_agents(self) -> None:
        assert [*known.AGENTS] == [name for name, setup in SETUPS.items() if setup.version]

    @pytest.mark.parametrize("agent", known.AGENTS.values(), ids=known.AGENTS)
    def test_setup_merges_into_a_users_existing_files(self, agent: Agent, tmp_path: Path) -> None:
        """The files exist before setup and keep their content."""
        agent.settle(tmp_path)
        files = {Path(file.path): file for file in agent.told("http://127.0.0.1:1", str(tmp_path)).files}
        for name, text in agent.files.items():
            file = files[tmp_path / name]
            assert (tmp_path / name).read_text() == text
            said = read(merged(text, file), file.format)
            assert said == expected(read(text, file.format), file.content) != read(text, file.format)
