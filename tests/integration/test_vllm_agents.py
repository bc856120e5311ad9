"""`make vllm`'s table of agents, without a vLLM and without agents: its rows, its judge, and who does what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agents import chat_replies, known, vllm_rows
from tests.agents.agent import Agent
from tests.agents.rows import Row
from tests.real import vllm
from tests.support.client_view import of_bytes
from tests.support.helpers import function, offered
from tests.vllm import agents

pytestmark = pytest.mark.once

TYPES: Mapping[type, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    list: {"type": "array", "items": {"type": "string"}},
}


def written(row: Row, agent: Agent) -> str:
    """What the model says to the agent first."""
    assert row.written is not None
    return row.written(agent)


class TestRows:
    """What the model says."""

    @pytest.mark.parametrize("agent", known.AGENTS.values(), ids=known.AGENTS)
    @pytest.mark.parametrize("row", vllm_rows.ROWS, ids=lambda row: row.name)
    def test_the_engine_finds_what_the_model_meant(self, row: Row, agent: Agent) -> None:
        """In the notation of the row, with the schema of the agent's shell: no cell is wrong by the row's fault."""
        call = agent.call()
        shell = function(call.name, {key: TYPES[type(value)] for key, value in call.values.items()}, *call.values)
        got = of_bytes(chat_replies.text(written(row, agent)), tools=offered(shell))
        assert got.values == [(call.name, dict(call.values))]
        assert (got.finish, got.error) == ("tool_calls", "")


@pytest.fixture(name="no_vllm")
def _no_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The table's folder; its vLLM has a version, and agents are there."""
    monkeypatch.setattr(agents, "CACHE", tmp_path)
    monkeypatch.setattr(vllm, "version", lambda: "0.1")
    monkeypatch.setattr(agents, "installed", lambda agent: tmp_path)
    return tmp_path


