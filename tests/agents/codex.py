"""Codex CLI: it speaks Responses; where to, it reads from a file in its home folder."""

from __future__ import annotations

import json

from tests.agents.agent import MODEL, Agent

_CONFIG = f"""\
model = "{MODEL}"
model_provider = "local"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"
%s
[model_providers.local]
name = "Local"
base_url = "{{url}}/v1"
env_key = "LOCAL_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false
"""
# What Codex has to know of a model so that it offers `apply_patch` as free text: without an entry it never does.
_CATALOG = {
    "models": [
        {
            "slug": MODEL,
            "display_name": MODEL,
            "description": None,
            "base_instructions": "You are a coding agent.",
            "shell_type": "unified_exec",
            "visibility": "list",
            "supported_in_api": True,
            "priority": 1,
            "context_window": 131072,
            "max_context_window": 131072,
            "effective_context_window_percent": 95,
            "input_modalities": ["text"],
            "supported_reasoning_levels": [],
            "supports_reasoning_summaries": False,
            "default_reasoning_summary": "none",
            "support_verbosity": False,
            "default_verbosity": None,
            "apply_patch_tool_type": "freeform",
            "truncation_policy": {"mode": "tokens", "limit": 10000},
            "supports_parallel_tool_calls": True,
            "experimental_supported_tools": [],
            "additional_speed_tiers": [],
            "supports_search_tool": False,
            "supports_image_detail_original": False,
            "availability_nux": None,
            "upgrade": None,
        }
    ]
}
# The files of a run in which Codex has an entry for the model.
WITH_CATALOG = {
    ".codex/config.toml": _CONFIG % 'model_catalog_json = "{home}/.codex/models.json"\n',
    ".codex/models.json": json.dumps(_CATALOG),
}

CODEX = Agent(
    name="codex",
    package="@openai/codex",
    version="0.169.0",
    program="node_modules/.bin/codex",
    arguments=("exec", "--skip-git-repo-check", "{prompt}"),
    environment={"LOCAL_KEY": "local", "CODEX_HOME": "{home}/.codex"},
    dialect="responses",
    tool="exec_command",
    takes={"cmd": "{command}"},
    files={".codex/config.toml": _CONFIG % ""},
)
