"""Codex CLI: it speaks Responses; where to, it reads from a file in its home folder."""

from __future__ import annotations

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import PROVIDER
from tests.agents.agent import Agent

# What its user has in the file already; the proxy's provider comes beside it.
_CONFIG = """\
# Ask for nothing, and call nobody.
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"

[analytics]
enabled = false
"""
_PROVIDER = f"model_providers.{PROVIDER}"

CODEX = Agent(
    setup=AGENTS["codex"],
    folders=("node_modules/.bin",),
    arguments=(
        "exec",
        "--skip-git-repo-check",
        *("-c", f"{_PROVIDER}.request_max_retries=1"),
        *("-c", f"{_PROVIDER}.stream_max_retries=1"),
        "{prompt}",
    ),
    dialect="responses",
    tool="exec_command",
    takes={"cmd": "{command}"},
    files={".codex/config.toml": _CONFIG},
)
