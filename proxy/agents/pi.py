"""pi: it speaks chat completions; providers and models stand in its `models.json`, time-outs in its settings."""

from __future__ import annotations

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.codec.json_text import JsonObject


def _configure(values: Values) -> Configuration:
    provider: JsonObject = {
        "baseUrl": values.v1,
        "api": "openai-completions",
        # The name of a variable is read as the variable.
        "apiKey": values.key_name or NO_KEY,
        "models": [values.pi_model],
    }
    settings: JsonObject = {
        "defaultProvider": PROVIDER,
        "defaultModel": values.model,
        "retry": {"provider": {"timeoutMs": PATIENCE * 1000}},
    }
    return Configuration(
        command=("pi",),
        files=(
            File(_place(values, "models.json"), Format.JSON, {"providers": {PROVIDER: provider}}),
            File(_place(values, "settings.json"), Format.JSON, settings),
        ),
        launched=("--provider", PROVIDER, "--model", values.model),
    )


def _place(values: Values, name: str) -> str:
    return values.place("PI_CODING_AGENT_DIR", ".pi/agent", name)


PI = Agent(
    name="pi",
    title="pi",
    configure=_configure,
    source="the docs of the package: models.md, settings.md",
    date="2026-11-22",
    version="0.73.1",
    package="@mariozechner/pi-coding-agent",
)
