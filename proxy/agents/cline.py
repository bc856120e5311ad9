"""Cline's command line: it speaks chat completions; `cline auth` writes what it must know, and comes first."""

from __future__ import annotations

import json

from proxy.agents.configuration import Agent, Configuration, Values
from proxy.codec.json_text import JsonObject

_PROVIDER = "openai-compatible"
_PRIVATE = "providers.json"


def _configure(values: Values) -> Configuration:
    auth = ("cline", "auth", "-p", _PROVIDER, "-k", values.key, "-m", values.model, "-b", values.v1)
    return Configuration(
        command=_start(values),
        first=auth,
        written=values.place("CLINE_DATA_DIR", ".cline/data", "settings/providers.json"),
        notes=("Its own timer (300 s without a byte) is reset by the proxy's heartbeats; it has no setting.",),
    )


def _launch(values: Values) -> Configuration:
    """Private providers take the place of the user's; all else of the user's stays in force.

    A session runs within its own process: the daemon that Cline shares between sessions would keep these providers for
    later ones of the user.
    """
    settings: JsonObject = {"provider": _PROVIDER, "apiKey": values.key, "model": values.model, "baseUrl": values.v1}
    provider: JsonObject = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    content: JsonObject = {"version": 1, "lastUsedProvider": _PROVIDER, "modes": {}, "providers": {_PROVIDER: provider}}
    path = f"{values.folder}/{_PRIVATE}"
    return Configuration(
        command=_start(values),
        environment={"CLINE_PROVIDER_SETTINGS_PATH": path, "CLINE_SESSION_BACKEND_MODE": "local"},
        private={_PRIVATE: json.dumps(content)},
    )


def _start(values: Values) -> tuple[str, ...]:
    return ("cline", "-P", _PROVIDER, "-m", values.model)


CLINE = Agent(
    name="cline",
    title="Cline",
    configure=_configure,
    launch=_launch,
    source="the README of the package",
    date="2026-11-22",
    version="3.0.65",
    package="cline",
)
