"""The values that agents are set up with in tests, and all that one is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from proxy.cli.configuration import Agent, Configuration, Values
from proxy.cli.merging import merged

VALUES = Values("http://10.0.0.1:8003", "Qwen/Qwen3-Coder", 65536, home="/home/u")
KEYED = replace(VALUES, key_name="PROXY_KEY")
FOLDER = "/tmp/private"
NO_TEXTS: Mapping[str, str] = {}


def launched(agent: Agent, values: Values, texts: Mapping[str, str] = NO_TEXTS) -> Configuration:
    """Return what an agent is given for one run; `texts` are the user's files."""
    return agent.launch(replace(values, folder=FOLDER, read=lambda path: texts.get(path, "")))


def told(configuration: Configuration) -> str:
    """All that an agent is told, as one text."""
    files = (merged("", file) for file in configuration.files)
    return "\n".join((*configuration.environment.values(), *configuration.command, *configuration.first, *files))
