"""The agents that can be set up, by name. To add one, write a module like `claude` and add a line here."""

from __future__ import annotations

from proxy.agents.claude import CLAUDE
from proxy.agents.cline import CLINE
from proxy.agents.codex import CODEX
from proxy.agents.configuration import Agent
from proxy.agents.openclaw import OPENCLAW
from proxy.agents.opencode import OPENCODE
from proxy.agents.pi import PI
from proxy.agents.qwen import QWEN
from proxy.agents.sdk import SDK

AGENTS: dict[str, Agent] = {agent.name: agent for agent in (CLAUDE, CODEX, OPENCLAW, OPENCODE, QWEN, PI, CLINE, SDK)}
