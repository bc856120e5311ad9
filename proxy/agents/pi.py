"""pi: it speaks chat completions; providers and models stand in its `models.json`, time-outs in its settings."""

from __future__ import annotations

import json

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.codec.json_text import JsonObject

# A name by which it is loaded as it is: of a ".js" pi keeps a compiled copy.
_EXTENSION = "provider.mjs"


def _configure(values: Values) -> Configuration:
    settings: JsonObject = {
        "defaultProvider": PROVIDER,
        "defaultModel": values.model,
        "retry": {"provider": {"timeoutMs": PATIENCE * 1000}},
    }
    return Configuration(
        command=("pi",),
        files=(
            File(_place(values, "models.json"), Format.JSON, {"providers": {PROVIDER: _provider(values)}}),
            File(_place(values, "settings.json"), Format.JSON, settings),
        ),
    )


def _launch(values: Values) -> Configuration:
    """An extension defines the provider, and wins over one of the same name in the user's files.

    The time-out has no option. It ends with the head of a reply, which the proxy's first heartbeat sends.
    """
    provider = f"{json.dumps(PROVIDER)}, {json.dumps(_provider(values))}"
    options = ("--extension", f"{values.folder}/{_EXTENSION}", "--provider", PROVIDER, "--model", values.model)
    return Configuration(
        command=("pi", *options),
        private={_EXTENSION: f"export default function (pi) {{\n  pi.registerProvider({provider});\n}}\n"},
    )


def _provider(values: Values) -> JsonObject:
    return {
        "baseUrl": values.v1,
        "api": "openai-completions",
        # The name of a variable is read as the variable.
        "apiKey": values.key_name or NO_KEY,
        "models": [values.pi_model],
    }


def _place(values: Values, name: str) -> str:
    return values.place("PI_CODING_AGENT_DIR", ".pi/agent", name)


PI = Agent(
    name="pi",
    title="pi",
    configure=_configure,
    launch=_launch,
    source="the docs of the package: models.md, settings.md",
    date="2026-11-22",
    version="0.73.1",
    package="@mariozechner/pi-coding-agent",
)
