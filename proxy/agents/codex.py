"""Codex CLI: it speaks Responses; the provider stands in `config.toml`, and the model in a catalog beside it.

Without an entry of the catalog Codex takes a window of its own for the model, and never offers `apply_patch` as the
free text that it was made for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from proxy.agents.configuration import PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.codec.json_text import JsonObject

CATALOG = f"{PROVIDER}-models.json"
# An entry of a catalog brings the model's instructions: those of Codex for unknown models are not used beside it.
_INSTRUCTIONS = """\
You are a coding agent that works in the user's terminal, in the folder of a project.

# How you work
- Keep going until what the user asked for is done, and only then end your turn. Do not guess: read the files and run
  the commands that tell you.
- Look before you change: search with `rg` or `grep`, and read what is around the place that you want to change.
- Make the smallest change that solves the problem at its root. Keep the style of the code around it. Leave alone what
  is not part of the task, and mention it instead.
- Change files with the tool `apply_patch`; use the shell for all else. Do not write a file with a shell command where
  a patch does it.
- Run the tests, the linter or the program that show that it works, if there are any. Say so where you could not.
- Never commit, push, or throw away changes that you did not make, unless the user asked for it.
- Files named AGENTS.md hold instructions for the folder that they are in, and for all below it. What the user says
  wins over them.

# How you answer
- Before a group of commands say in one sentence what you are about to do.
- At the end say in a few sentences what you changed, where, and what is left to do. Name files by their paths.
"""

_LEVELS = {
    "none": "Answers without thinking",
    "low": "Thinks little",
    "medium": "Thinks as it is used to",
    "high": "Thinks long, for hard problems",
    "xhigh": "Thinks as long as it can",
}


def _configure(values: Values) -> Configuration:
    catalog = values.place("CODEX_HOME", ".codex", CATALOG)
    config = values.place("CODEX_HOME", ".codex", "config.toml")
    return Configuration(
        command=("codex",),
        files=(
            # Up to 0.133 the profile that it names wins over what is written; later ones do not start with it.
            File(config, Format.TOML, _content(values, catalog), without=(("profile",),)),
            File(catalog, Format.JSON, {"models": [_entry(values)]}, own=True),
        ),
    )


def _launch(values: Values) -> Configuration:
    """Options win over every file; only the catalog must be a file."""
    content = _content(values, f"{values.folder}/{CATALOG}")
    return Configuration(
        command=("codex", *_options(content)), private={CATALOG: json.dumps({"models": [_entry(values)]})}
    )


def _content(values: Values, catalog: str) -> JsonObject:
    """Return its settings; `catalog` is the path of the list of models."""
    provider: JsonObject = {
        "name": PROVIDER,
        "base_url": values.v1,
        "wire_api": "responses",
        "stream_idle_timeout_ms": PATIENCE * 1000,
    }
    if values.key_name:
        provider["env_key"] = values.key_name
    return {
        "model": values.model,
        "model_provider": PROVIDER,
        "model_catalog_json": catalog,
        "model_providers": {PROVIDER: provider},
    }


def _options(content: JsonObject, path: str = "") -> Iterator[str]:
    """Yield the settings as options of the command line."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _options(value, f"{path}{key}.")
        else:
            yield from ("-c", f"{path}{key}={json.dumps(value, ensure_ascii=False)}")


def _entry(values: Values) -> JsonObject:
    """The model in Codex's catalog."""
    return {
        "slug": values.model,
        "display_name": values.model,
        "description": None,
        "base_instructions": _INSTRUCTIONS,
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "context_window": values.context,
        "max_context_window": values.context,
        "effective_context_window_percent": 95,
        "input_modalities": values.inputs,
        # None of them is the default, so that nothing goes up where the user chooses none.
        "supported_reasoning_levels": [{"effort": word, "description": _LEVELS[word]} for word in values.efforts],
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


CODEX = Agent(
    name="codex",
    title="Codex CLI",
    configure=_configure,
    launch=_launch,
    source="https://developers.openai.com/codex/config-reference",
    date="2026-11-22",
    version="0.169.0",
    package="@openai/codex",
)
