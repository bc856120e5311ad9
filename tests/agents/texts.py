"""How models write a call into their text, and how they spoil its arguments: the same in every dialect."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.agents.agent import Agent

LEAD = "I'll make the file."


def in_pieces(text: str, count: int = 8) -> Iterator[str]:
    """Cut `text` into `count` pieces, about as long as each other; together they are the text."""
    size = len(text) / count
    places = [round(size * number) for number in range(count + 1)]
    return (text[start:end] for start, end in itertools.pairwise(places))


def without(key: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The object without a key."""
    return {name: value for name, value in given.items() if name != key}


def tools_text(agent: Agent) -> str:
    return f"{LEAD}\n<tools>\n{agent.call().json}\n</tools>"


def tool_call_text(agent: Agent) -> str:
    return f"{LEAD}\n<tool_call>\n{agent.call().json}\n</tool_call>"


def coder_xml(agent: Agent) -> str:
    return f"{LEAD}\n<tool_call>\n{_function(agent)}\n</tool_call>"


def coder_xml_bare(agent: Agent) -> str:
    return f"{LEAD}\n{_function(agent)}"


def mistral(agent: Agent) -> str:
    """Devstral's: the marks are special tokens, which vLLM leaves out of a text unless it is asked for them."""
    call = agent.call()
    return f"{LEAD}[TOOL_CALLS]{call.name}[ARGS]{call.arguments}"


def glm(agent: Agent) -> str:
    """GLM's: a name, and pairs of a key and a value; what is no string is JSON."""
    call = agent.call()
    pairs = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value if isinstance(value, str) else json.dumps(value)}</arg_value>\n"
        for key, value in call.values.items()
    )
    return f"{LEAD}\n<tool_call>{call.name}\n{pairs}</tool_call>"


def _function(agent: Agent) -> str:
    call = agent.call()
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in call.values.items())
    return f"<function={call.name}>\n{parameters}</function>"


def fence_json(agent: Agent) -> str:
    return f"```json\n{agent.call().json}\n```"


def bare_json(agent: Agent) -> str:
    return agent.call().json


def think_leak(agent: Agent) -> str:
    """The template opens the reasoning, so the server sees only its end."""
    return f"The user wants a file, so I make it.\n</think>\n\n<tool_call>\n{agent.call().json}\n</tool_call>"


def doubled(agent: Agent) -> str:
    """The arguments as JSON in a JSON string."""
    return json.dumps(agent.call().arguments)


def python(agent: Agent) -> str:
    """The arguments as Python writes them."""
    return repr(dict(agent.call().values))


def truncated(agent: Agent) -> str:
    """The arguments without their last bracket, although the model stopped by itself."""
    return agent.call().arguments[:-1]


def other_case(name: str) -> str:
    """The name in other letters."""
    return name.lower() if name.lower() != name else name.title()
