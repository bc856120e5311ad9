"""Qwen Code: it speaks chat completions; where to, it reads from its environment or its settings."""

from __future__ import annotations

import json

from proxy.cli.agents import AGENTS
from tests.agents.agent import Agent

_CONFIG = {
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "enableAutoUpdate": False},
    "telemetry": {"enabled": False},
}

QWEN = Agent(
    setup=AGENTS["qwen"],
    folders=("node_modules/.bin",),
    arguments=("--yolo", "-p", "{prompt}"),
    environment={"QWEN_TELEMETRY_ENABLED": "false"},
    dialect="chat",
    tool="run_shell_command",
    takes={"command": "{command}", "is_background": False, "description": "make"},
    files={".qwen/settings.json": json.dumps(_CONFIG, indent=4)},
)
