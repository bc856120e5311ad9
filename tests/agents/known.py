"""The agents that take part, by name. Another one is a module like `claude`, and a line here."""

from __future__ import annotations

from tests.agents.claude import CLAUDE
from tests.agents.codex import CODEX
from tests.agents.opencode import OPENCODE

AGENTS = {agent.name: agent for agent in (CLAUDE, CODEX, OPENCODE)}
