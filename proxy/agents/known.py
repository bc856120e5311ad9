"""The agents that can be set up, by name. Another one is a module like `claude`, and a line here."""

from __future__ import annotations

from proxy.agents.claude import CLAUDE
from proxy.agents.cline import CLINE
from proxy.agents.codex import CODEX
from proxy.agents.configuration import Agent
from proxy.agents.documented import CONTINUE, GOOSE, SDK, ZED
from proxy.agents.openclaw import OPENCLAW
from proxy.agents.opencode import OPENCODE
from proxy.agents.pi import PI
from proxy.agents.qwen import QWEN

AGENTS: dict[str, Agent] = {
    agent.name: agent for agent in (CLAUDE, CODEX, OPENCLAW, OPENCODE, QWEN, PI, CLINE, CONTINUE, ZED, GOOSE, SDK)
}
