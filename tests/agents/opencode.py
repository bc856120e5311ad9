"""OpenCode: it speaks chat completions; where to, it reads from a file in its home folder."""

from __future__ import annotations

import json

from tests.agents.agent import MODEL, Agent

_MODEL = {
    "name": MODEL,
    "tool_call": True,
    "reasoning": True,
    # In which field its provider gives earlier thoughts back.
    "interleaved": {"field": "reasoning_content"},
    "limit": {"context": 131072, "output": 8192},
}
_CONFIG = {
    "autoupdate": False,
    "share": "disabled",
    "model": f"local/{MODEL}",
    "small_model": f"local/{MODEL}",
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Local",
            "options": {"baseURL": "{url}/v1", "apiKey": "local"},
            "models": {MODEL: _MODEL},
        }
    },
    "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"},
}

OPENCODE = Agent(
    name="opencode",
    package="opencode-ai",
    version="1.18.33",
    program="node_modules/opencode-linux-{cpu}/bin/opencode",
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
    invited=True,
)
