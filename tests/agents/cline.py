"""Cline's command line: it speaks chat completions; where to, its own `cline auth` writes down."""

from __future__ import annotations

from proxy.cli.agents import AGENTS
from tests.agents.agent import Agent

CLINE = Agent(
    setup=AGENTS["cline"],
    folders=("node_modules/.bin",),
    arguments=("--auto-approve", "true", "--retries", "1", "{prompt}"),
    environment={"CLINE_TELEMETRY_DISABLED": "1", "DO_NOT_TRACK": "1"},
    dialect="chat",
    tool="run_commands",
    takes={"commands": ["{command}"]},
)
