"""OpenClaw: it speaks chat completions; providers and models stand in its `openclaw.json`."""

from __future__ import annotations

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.codec.json_text import JsonObject

# An agent's own model, as it is written since 2026.9, and as it was before.
_RIVALS = (("agents", "entries", "*", "model"), ("agents", "list", "*", "model"))


def _configure(values: Values) -> Configuration:
    provider: JsonObject = {
        "baseUrl": values.v1,
        "apiKey": f"${{{values.key_name}}}" if values.key_name else NO_KEY,
        "api": "openai-completions",
        "timeoutSeconds": PATIENCE,
        "models": [values.pi_model],
    }
    content: JsonObject = {
        "agents": {"defaults": {"model": {"primary": f"{PROVIDER}/{values.model}"}}},
        "models": {"providers": {PROVIDER: provider}},
    }
    path = values.place("OPENCLAW_STATE_DIR", ".openclaw", "openclaw.json")
    return Configuration(command=("openclaw",), files=(File(path, Format.JSON, content, rivals=_RIVALS),))


OPENCLAW = Agent(
    name="openclaw",
    title="OpenClaw",
    configure=_configure,
    source="https://docs.openclaw.ai/gateway/configuration",
    date="2026-11-22",
    version="2026.9.6",
    package="openclaw",
)
