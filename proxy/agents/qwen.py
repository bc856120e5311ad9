"""Qwen Code: it speaks chat completions; where to, it reads from its environment or from its settings."""

from __future__ import annotations

import json

from proxy.agents.configuration import NO_KEY, PATIENCE, Agent, Configuration, File, Format, Values
from proxy.agents.merging import expected, read
from proxy.codec.json_text import JsonObject

# Settings for all users of a machine. They win over those of the user and of the project.
_SYSTEM = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
_SYSTEM_DEFAULTS = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
_USUAL = "/etc/qwen-code/settings.json"
_PRIVATE = "settings.json"


def _configure(values: Values) -> Configuration:
    # Its settings put variables in where they are named.
    key = f"${{{values.key_name}}}" if values.key_name else NO_KEY
    content: JsonObject = {**_chosen(values), "env": {**_variables(values), "OPENAI_API_KEY": key}}
    path = values.place("", ".qwen", "settings.json")
    return Configuration(
        command=("qwen",),
        environment={**_variables(values), "OPENAI_API_KEY": values.key},
        files=(File(path, Format.JSON, content),),
    )


def _launch(values: Values) -> Configuration:
    """Private settings take the place of the machine's, which are merged into them. Raises NotMergeableError."""
    system = values.environment.get(_SYSTEM) or _USUAL
    # A model of this name in the user's list would bring its own URL along.
    winning: JsonObject = {**_chosen(values), "modelProviders": {"openai": []}}
    settings = expected(read(values.read(system), Format.JSON), winning)
    # They are read from beside the machine's settings.
    defaults = values.environment.get(_SYSTEM_DEFAULTS) or f"{system.rpartition('/')[0]}/system-defaults.json"
    paths = {_SYSTEM: f"{values.folder}/{_PRIVATE}", _SYSTEM_DEFAULTS: defaults}
    return Configuration(
        command=("qwen",),
        environment={**_variables(values), "OPENAI_API_KEY": values.key, **paths},
        private={_PRIVATE: json.dumps(settings)},
    )


def _variables(values: Values) -> dict[str, str]:
    return {"OPENAI_BASE_URL": values.v1, "OPENAI_MODEL": values.model}


def _chosen(values: Values) -> JsonObject:
    """Return the settings that choose the API and the model."""
    generation: JsonObject = {"timeout": PATIENCE * 1000}
    if values.context is not None:
        generation["contextWindowSize"] = values.context
    return {
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": values.model, "generationConfig": generation},
    }


QWEN = Agent(
    name="qwen",
    title="Qwen Code",
    configure=_configure,
    launch=_launch,
    source="https://qwenlm.github.io/qwen-code-docs",
    date="2026-11-22",
    version="0.15.10",
    package="@qwen-code/qwen-code",
)
