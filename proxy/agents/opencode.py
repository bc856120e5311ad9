"""OpenCode: it speaks chat completions; providers and models stand in its `opencode.json`."""

from __future__ import annotations

import json

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.agents.merging import expected, read
from proxy.agents.spans import NotMergeableError
from proxy.codec.json_text import JsonObject

_CONTENT = "OPENCODE_CONFIG_CONTENT"
_RIVALS = (("agent", "*", "model"),)


def _configure(values: Values) -> Configuration:
    model: JsonObject = {
        "name": values.model,
        "tool_call": True,
        "modalities": {"input": values.inputs, "output": ["text"]},
        "reasoning": True,
        # In which field its provider gives earlier thoughts back.
        "interleaved": {"field": "reasoning_content"},
        "limit": {"context": values.window, "output": values.output},
    }
    options: JsonObject = {
        "baseURL": values.v1,
        "apiKey": f"{{env:{values.key_name}}}" if values.key_name else NO_KEY,
        "timeout": PATIENCE * 1000,
    }
    provider: JsonObject = {
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": options,
        "models": {values.model: model},
    }
    models: JsonObject = {"model": f"{PROVIDER}/{values.model}", "small_model": f"{PROVIDER}/{values.model}"}
    content: JsonObject = {"$schema": "https://opencode.ai/config.json", **models, "provider": {PROVIDER: provider}}
    path = values.place("XDG_CONFIG_HOME", ".config", "opencode/opencode.json")
    # It is merged with the files, and wins over that of a project.
    winning: JsonObject = {**models, "provider": {PROVIDER: {"options": {"baseURL": values.v1}}}}
    return Configuration(
        command=("opencode",),
        files=(File(path, Format.JSON, content, rivals=_RIVALS),),
        launched_with={_CONTENT: json.dumps(_with_own(values.environment.get(_CONTENT, ""), winning))},
    )


def _with_own(given: str, winning: JsonObject) -> JsonObject:
    """What wins, in what the user's own variable says; that alone where it cannot be read, which OpenCode refuses."""
    try:
        return expected(read(given, Format.JSON), winning)
    except NotMergeableError:
        return winning


OPENCODE = Agent(
    name="opencode",
    title="OpenCode",
    configure=_configure,
    source="https://opencode.ai/docs/providers",
    date="2026-11-22",
    version="1.18.33",
    package="opencode-ai",
)
