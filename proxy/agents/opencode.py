"""OpenCode: it speaks chat completions; providers and models stand in its `opencode.json`."""

from __future__ import annotations

import json

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.agents.merging import expected, other_models, read
from proxy.agents.spans import NotMergeableError
from proxy.codec.json_text import JsonObject

_CONTENT = "OPENCODE_CONFIG_CONTENT"
_RIVALS = (("agent", "*", "model"),)
# Those that it brings along. The user's file or the project's may name another model for each.
_AGENTS = ("build", "plan", "general", "explore")


def _configure(values: Values) -> Configuration:
    return Configuration(command=("opencode",), files=(_file(values),))


def _launch(values: Values) -> Configuration:
    """The variable is merged with the files, and wins over those of the user and of the project.

    No other provider is enabled: a model of one would be asked past the proxy.
    """
    file = _file(values)
    own = {path[1] for path in _models_in_the_users_file(values, file)}
    agents: JsonObject = {name: {"model": file.content["model"]} for name in (*_AGENTS, *sorted(own - {*_AGENTS}))}
    winning: JsonObject = {**file.content, "enabled_providers": [PROVIDER], "agent": agents}
    given = values.environment.get(_CONTENT, "")
    return Configuration(command=("opencode",), environment={_CONTENT: json.dumps(_with_own(given, winning))})


def _models_in_the_users_file(values: Values, file: File) -> list[tuple[str, ...]]:
    try:
        return [path for name in (file.path, f"{file.path}c") for path in other_models(values.read(name), file)]
    except NotMergeableError:  # OpenCode itself reports it
        return []


def _file(values: Values) -> File:
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
    return File(path, Format.JSON, content, rivals=_RIVALS)


def _with_own(given: str, winning: JsonObject) -> JsonObject:
    """Merge what must win into the user's own variable. One that cannot be read is left out: OpenCode refuses it."""
    try:
        return expected(read(given, Format.JSON), winning)
    except NotMergeableError:
        return winning


OPENCODE = Agent(
    name="opencode",
    title="OpenCode",
    configure=_configure,
    launch=_launch,
    source="https://opencode.ai/docs/providers",
    date="2026-11-22",
    version="1.18.33",
    package="opencode-ai",
)
