"""The agents' configurations: what each is told, and what stands in no file."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import KEY, NO_KEY, PATIENCE, Agent
from proxy.cli.main import _AGENTS
from proxy.cli.merging import merged
from proxy.config.settings import Settings
from tests.support.agent_values import KEYED, VALUES, told

EVERY = pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
PROGRAMS = pytest.mark.parametrize(
    "agent", [each for each in AGENTS.values() if each.name != "sdk"], ids=lambda each: each.name
)


def test_the_command_line_knows_the_agents_that_have_a_configuration() -> None:
    assert list(_AGENTS) == list(AGENTS)


@EVERY
def test_each_is_told_where_the_proxy_is_and_waits_longer_than_it(agent: Agent) -> None:
    said = told(agent.configure(VALUES))
    assert VALUES.url in said
    known = Settings()
    assert PATIENCE > known.idle_timeout > known.heartbeat
    waits = {f"{PATIENCE}", f"{PATIENCE * 1000}"} & {*re.findall(r"\d+", said)}
    # Cline and the SDKs have no such setting that is written down.
    assert bool(waits) == (agent.name not in ("cline", "sdk"))


@PROGRAMS
def test_each_is_told_the_model_and_has_a_program(agent: Agent) -> None:
    configuration = agent.configure(VALUES)
    assert "Qwen/Qwen3-Coder" in told(configuration)
    assert configuration.command


@EVERY
def test_the_context_is_told_where_it_is_known(agent: Agent) -> None:
    """Cline's own command takes none; where it is not known nothing is made up but what the agent insists on."""
    assert ("65536" in told(agent.configure(VALUES))) == (agent.name not in ("cline", "sdk"))
    assert "65536" not in told(agent.configure(replace(VALUES, context=None)))
    assert "None" not in told(agent.configure(replace(VALUES, context=None)))


@EVERY
def test_a_key_stands_in_no_file_and_none_is_made_up_beside_it(agent: Agent) -> None:
    """It is named there, or given when the agent is started."""
    configuration = agent.configure(KEYED)
    files = "\n".join(merged("", file) for file in configuration.files)
    assert KEY not in files
    assert f'"{NO_KEY}"' not in files
    assert "PROXY_KEY" in files or KEY in (*configuration.environment.values(), *configuration.first)
    assert (NO_KEY in told(agent.configure(VALUES))) == (agent.name != "codex")


@EVERY
def test_files_are_below_the_home_or_where_the_agents_own_variable_says(agent: Agent) -> None:
    names = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCLAW_STATE_DIR", "XDG_CONFIG_HOME", "PI_CODING_AGENT_DIR")
    moved = dict.fromkeys((*names, "CLINE_DATA_DIR"), "/else/where/")
    usual, other = agent.configure(VALUES), agent.configure(replace(VALUES, environment=moved))
    for file in usual.files:
        assert re.fullmatch(r"/home/u/\.[\w./-]+", file.path)
    if agent.name != "qwen":
        assert all(file.path.startswith("/else/where/") for file in other.files)


def test_a_model_that_takes_pictures_is_told_so() -> None:
    for name in ("codex", "openclaw", "opencode", "pi"):
        assert "image" not in told(AGENTS[name].configure(VALUES)).replace("supports_image_detail", "")
        assert "image" in told(AGENTS[name].configure(replace(VALUES, images=True))).replace(
            "supports_image_detail", ""
        )
