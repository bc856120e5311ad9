"""Tries of every template with every shape: whether it is accepted, without loss and in order."""

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
    """One template rendered with one shape. `wrong` is the fault, or empty."""

    template: str
    shape: str
    wrong: str = ""


def tries(ask: Ask, shapes: Callable[[], Iterator[tuple[str, Body]]] = bodies) -> Iterator[Try]:
    for template in templates():
        for shape, body in shapes():
            yield Try(template.name, shape, judged(ask, template, body))


def judged(ask: Ask, template: ChatTemplate, body: Body) -> str:
    """Return the fault of the prompt, or ""."""
    try:
        prompt = ask(template, body)
    except Refused as refused:
        return f"refused: {refused}"[:160]
    return lost(body, prompt)


def lost(body: Body, prompt: str) -> str:
    """Return a description of markers that are missing from the prompt or out of order, or ""."""
    markers = [mark for message in body["messages"] for mark in markers_of(message)]
    missing = [mark for mark in markers if mark not in prompt]
    if missing:
        return f"lost: {', '.join(missing)}"
    return _out_of_order(body["messages"], prompt)


def _out_of_order(messages: list[Body], prompt: str) -> str:
    """Return the prompt's order of the markers if it differs from the conversation's, or "".

    A call, its results, and user texts between them may be in any order. System texts may be anywhere.
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
    """Return whether the message is a result, or precedes one in the same turn."""
    for message in messages[index:]:
        if message["role"] in ("tool", "function"):
            return True
        if message["role"] == "assistant":
            return False
    return False


def markers_of(message: Body) -> list[str]:
    """Return the markers of a message, those of its text first."""
    texts = [json.dumps(message.get(key)) for key in ("content", "tool_calls", "function_call")]
    return [mark for text in texts for mark in MARKER.findall(text)]
