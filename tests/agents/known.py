"""The agents that take part, by name. Another one is a module like `claude`, and a line here."""

from __future__ import annotations

from tests.agents.claude import CLAUDE
from tests.agents.cline import CLINE
from tests.agents.codex import CODEX
from tests.agents.openclaw import OPENCLAW
from tests.agents.opencode import OPENCODE
from tests.agents.pi import PI
from tests.agents.qwen import QWEN

AGENTS = {agent.name: agent for agent in (CLAUDE, CODEX, OPENCLAW, OPENCODE, QWEN, PI, CLINE)}
