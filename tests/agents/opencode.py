"""OpenCode: it speaks chat completions; where to, it reads from a file in its home folder."""

from __future__ import annotations

import json

from proxy.cli.agents import AGENTS
from tests.agents.agent import Agent

_CONFIG = {
    "autoupdate": False,
    "share": "disabled",
    "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"},
}

OPENCODE = Agent(
    setup=AGENTS["opencode"],
    folders=("node_modules/opencode-linux-{cpu}/bin",),
    arguments=("run", "{prompt}"),
    environment={
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    },
    dialect="chat",
    tool="bash",
    takes={"command": "{command}"},
    files={".config/opencode/opencode.json": json.dumps(_CONFIG)},
    scripts="opencode_run",
    extra=1,
)
