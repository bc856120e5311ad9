"""pi: it speaks chat completions; where to, it reads from two files in its home folder."""

from __future__ import annotations

from proxy.cli.agents import AGENTS
from tests.agents.agent import Agent

PI = Agent(
    setup=AGENTS["pi"],
    folders=("node_modules/.bin",),
    arguments=("-p", "{prompt}"),
    environment={"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0", "PI_OFFLINE": "1"},
    dialect="chat",
    tool="bash",
    takes={"command": "{command}"},
)
