"""Claude Code: it speaks Messages, and wants no login where a token and a base URL are in the environment."""

from __future__ import annotations

from tests.agents.agent import MODEL, Agent

CLAUDE = Agent(
    name="claude",
    package="@anthropic-ai/claude-code",
    version="2.1.197",
    # The package's own script only looks for this one.
    program="node_modules/@anthropic-ai/claude-code-linux-{cpu}/claude",
    arguments=("-p", "{prompt}", "--dangerously-skip-permissions"),
    environment={
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_AUTH_TOKEN": "local",
        "ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_SMALL_FAST_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CONFIG_DIR": "{home}/.claude",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",  # else it refuses to skip permissions for root
    },
    dialect="messages",
    tool="Bash",
    takes={"command": "{command}", "description": "make the file"},
)
