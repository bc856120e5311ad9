"""Calls as models write them in text, and damaged arguments, the same for every dialect."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.agents.agent import Agent
from tests.support.renderers import RENDERERS

LEAD = "I'll make the file."


def in_pieces(text: str, count: int = 8) -> Iterator[str]:
    """Cut `text` into `count` pieces of about equal length."""
    size = len(text) / count
    places = [round(size * number) for number in range(count + 1)]
    return (text[start:end] for start, end in itertools.pairwise(places))


def without(key: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != key}


def _written(form: str, lead: str = f"{LEAD}\n") -> Callable[[Agent], str]:
    """Return a writer of a sentence and the call in a format."""
    return lambda agent: lead + RENDERERS[form].render([(agent.call().name, dict(agent.call().values))])


tools_text = _written("qwen25_tools")
tool_call_text = _written("hermes")
coder_xml = _written("qwen3_coder")
# Devstral's markers are special tokens, which vLLM drops from texts unless a request asks for them.
mistral = _written("mistral_v11", LEAD)
glm = _written("glm45")


def coder_xml_bare(agent: Agent) -> str:
    return coder_xml(agent).replace("<tool_call>\n", "").replace("\n</tool_call>", "")


# Rows whose server leaves the call in the model's text.
WRITTEN: Mapping[str, Callable[[Agent], str]] = {
    "tools_text": tools_text,
    "tool_call_text": tool_call_text,
    "coder_xml": coder_xml,
    "coder_xml_bare": coder_xml_bare,
    "fence_json": lambda agent: f"```json\n{agent.call().json}\n```",
    "bare_json": lambda agent: agent.call().json,
    # The template opens the reasoning, so the reply has only its end.
    "think_leak": lambda agent: (
        f"The user wants a file, so I make it.\n</think>\n\n<tool_call>\n{agent.call().json}\n</tool_call>"
    ),
}


def doubled(agent: Agent) -> str:
    """Return the arguments as JSON in a JSON string."""
    return json.dumps(agent.call().arguments)


def python(agent: Agent) -> str:
    return repr(dict(agent.call().values))


def truncated(agent: Agent) -> str:
    """Return the arguments without their last bracket. The finish reason is not a length limit."""
    return agent.call().arguments[:-1]


def other_case(name: str) -> str:
    return name.lower() if name.lower() != name else name.title()
