"""Claude Code: it speaks Messages, and wants no login where a token and a base URL are in the environment."""

from __future__ import annotations

from proxy.cli.agents import AGENTS
from tests.agents.agent import Agent

CLAUDE = Agent(
    setup=AGENTS["claude"],
    # The package's own script only looks for this one.
    folders=("node_modules/@anthropic-ai/claude-code-linux-{cpu}",),
    arguments=("-p", "{prompt}", "--dangerously-skip-permissions"),
    environment={
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",  # else it refuses to skip permissions for root
    },
    dialect="messages",
    tool="Bash",
    takes={"command": "{command}", "description": "make the file"},
)
