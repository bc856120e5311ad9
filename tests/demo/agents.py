"""The agents of the demo, and their requests.

Layout, headers, and names of tools and parameters are those of the real agents; prompts and descriptions are not.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MARKER = "@@script@@"


@dataclass(frozen=True)
class Agent:
    """A coding agent: its name, its headers, and its first request with a placeholder for the script's name."""

    name: str
    headers: Mapping[str, str]
    body: Json

    def request(self, script: str) -> Json:
        """Return the request of a turn in which the model will say `script`."""
        body = copy.deepcopy(self.body)
        for message in body["messages"]:
            message["content"] = _fill(message["content"], script)
        return body


def _fill(content: Any, script: str) -> Any:
    """Return a message's content, text or parts, with the placeholder replaced by the script's name."""
    if isinstance(content, str):
        return content.replace(MARKER, script)
    return [{**part, "text": part["text"].replace(MARKER, script)} for part in content]


_GIVEN = json.loads(Path(__file__).with_name("agents.json").read_text(encoding="utf-8"))
OPENCLAW, OPENCODE, QWEN_CODE = (Agent(**each) for each in _GIVEN)
