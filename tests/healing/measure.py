"""How many tries are accepted with nothing lost and the order kept: every template times every shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.healing.ask import Ask
from tests.healing.shapes import MARKER, bodies
from tests.support.chat_templates import ChatTemplate, Refused, templates

Body = dict[str, Any]


@dataclass(frozen=True)
class Try:
    """One template asked with one shape; `wrong` is empty where everything arrived."""

    template: str
    shape: str
    wrong: str = ""


def tries(ask: Ask, shapes: Callable[[], Iterator[tuple[str, Body]]] = bodies) -> Iterator[Try]:
    """All of them."""
    for template in templates():
        for shape, body in shapes():
            yield Try(template.name, shape, judged(ask, template, body))


def judged(ask: Ask, template: ChatTemplate, body: Body) -> str:
    """What is wrong with the prompt; empty if nothing."""
    try:
        prompt = ask(template, body)
    except Refused as refused:
        return f"refused: {refused}"[:160]
    return lost(body, prompt)


def lost(body: Body, prompt: str) -> str:
    """The markers that are not in the prompt, or not in their order; system texts may stand anywhere."""
    markers = [mark for message in body["messages"] for mark in markers_of(message)]
    missing = [mark for mark in markers if mark not in prompt]
    if missing:
        return f"lost: {', '.join(missing)}"
    return _out_of_order(body["messages"], prompt)


def _out_of_order(messages: list[Body], prompt: str) -> str:
    """The markers in the order of the prompt if that is not the order of what was said.

    A call and its results have one rank, and so has what the user says between them; system texts may stand anywhere.
    """
    ranks: dict[str, int] = {}
    rank = 0
    for index, message in enumerate(messages):
        if message["role"] == "assistant" or not _before_a_result(messages, index):
            rank += 1
        for mark in markers_of(message):
            if not mark.startswith("mks"):
                ranks[mark] = rank
    found = sorted(ranks, key=prompt.index)
    if [ranks[mark] for mark in found] == sorted(ranks.values()):
        return ""
    return f"order: {' '.join(found)}"


def _before_a_result(messages: list[Body], index: int) -> bool:
    """True for a result, and for what stands before one since the assistant spoke."""
    for message in messages[index:]:
        if message["role"] in ("tool", "function"):
            return True
        if message["role"] == "assistant":
            return False
    return False


def markers_of(message: Body) -> list[str]:
    """The markers of a message, its text's first."""
    texts = [json.dumps(message.get(key)) for key in ("content", "tool_calls", "function_call")]
    return [mark for text in texts for mark in MARKER.findall(text)]
