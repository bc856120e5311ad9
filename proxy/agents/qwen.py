"""Qwen Code: it speaks chat completions; where to, it reads from its environment or from its settings."""

from __future__ import annotations

from proxy.agents.configuration import NO_KEY, PATIENCE, Agent, Configuration, File, Format, Values
from proxy.codec.json_text import JsonObject


def _configure(values: Values) -> Configuration:
    variables = {"OPENAI_BASE_URL": values.v1, "OPENAI_MODEL": values.model}
    generation: JsonObject = {"timeout": PATIENCE * 1000}
    if values.context is not None:
        generation["contextWindowSize"] = values.context
    # Its settings put variables in where they are named.
    key = f"${{{values.key_name}}}" if values.key_name else NO_KEY
    content: JsonObject = {
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": values.model, "generationConfig": generation},
        "env": {**variables, "OPENAI_API_KEY": key},
    }
    path = values.place("", ".qwen", "settings.json")
    return Configuration(
        command=("qwen",),
        environment={**variables, "OPENAI_API_KEY": values.key},
        files=(File(path, Format.JSON, content),),
        launched=("--auth-type", "openai", "--model", values.model, "--openai-base-url", values.v1),
    )


QWEN = Agent(
    name="qwen",
    title="Qwen Code",
    configure=_configure,
    source="https://qwenlm.github.io/qwen-code-docs",
    date="2026-11-22",
    version="0.15.10",
    package="@qwen-code/qwen-code",
)
