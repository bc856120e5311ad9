"""The values that agents are set up with in tests, and all that one is told."""

from __future__ import annotations

from dataclasses import replace

from proxy.agents.configuration import Configuration, Values
from proxy.agents.merging import merged

VALUES = Values("http://10.0.0.1:8003", "Qwen/Qwen3-Coder", 65536, home="/home/u")
KEYED = replace(VALUES, key_name="PROXY_KEY")


def told(configuration: Configuration) -> str:
    """All that an agent is told, as one text."""
    files = (merged("", file) for file in configuration.files)
    return "\n".join((*configuration.environment.values(), *configuration.command, *configuration.first, *files))
