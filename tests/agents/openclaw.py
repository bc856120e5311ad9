"""OpenClaw: it speaks chat completions; where to, it reads from a file in its home folder. It wants Node 24."""

from __future__ import annotations

import json

from proxy.cli.agents import AGENTS
from tests.agents.agent import Agent

_CONFIG = {"models": {"mode": "replace"}, "tools": {"exec": {"security": "full", "ask": "off"}}}

OPENCLAW = Agent(
    setup=AGENTS["openclaw"],
    also="node-linux-{cpu}@24.21.0",
    folders=("node_modules/node-linux-{cpu}/bin", "node_modules/.bin"),
    arguments=(
        *("agent", "exec", "{prompt}", "--cwd", "{project}"),
        *("--no-auth-env-only", "--json", "--timeout", "{patience}"),
    ),
    environment={"OPENCLAW_TELEMETRY": "0", "OPENCLAW_SKIP_UPDATE_CHECK": "1"},
    dialect="chat",
    tool="exec",
    takes={"command": "{command}"},
    files={".openclaw/openclaw.json": json.dumps(_CONFIG, indent=2)},
)
