"""The agents by name. To add one, add an entry to `agents.yaml`."""

from __future__ import annotations

from pathlib import Path

import yaml

from proxy.cli.agents import AGENTS as SETUPS
from tests.agents.agent import Agent

_GIVEN = yaml.safe_load(Path(__file__).with_name("agents.yaml").read_text(encoding="utf-8"))

AGENTS = {
    name: Agent(SETUPS[name], tuple(given.pop("folders")), tuple(given.pop("arguments")), **given)
    for name, given in _GIVEN.items()
}
