"""Cline's command line: it speaks chat completions; `cline auth` writes what it must know, and comes first."""

from __future__ import annotations

from proxy.agents.configuration import Agent, Configuration, Values

_PROVIDER = "openai-compatible"


def _configure(values: Values) -> Configuration:
    auth = ("cline", "auth", "-p", _PROVIDER, "-k", values.key, "-m", values.model, "-b", values.v1)
    return Configuration(
        command=("cline", "-P", _PROVIDER, "-m", values.model),
        first=auth,
        written=values.place("CLINE_DATA_DIR", ".cline/data", "settings/providers.json"),
        notes=("Its own timer (300 s without a byte) is reset by the proxy's heartbeats; it has no setting.",),
    )


CLINE = Agent(
    name="cline",
    title="Cline",
    configure=_configure,
    source="the README of the package",
    date="2026-11-22",
    version="3.0.65",
    package="cline",
)
