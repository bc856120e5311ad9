"""Whether a thought that the model said in its text came to the agent as one, and went back into the next prompt."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.agents.agent import THOUGHT
from tests.agents.shape import exchanges

Body = Mapping[str, Any]
# The place of a thought in the template.
PLACE = f"<|im_start|>assistant\n<think>\n{THOUGHT}\n</think>\n\n"
_SECONDS = 20


def faults(folder: Path, bodies: Iterable[Body], server: str) -> Iterator[str]:
    """Say what became of the thought, by the run's folder, the requests that the model server got, and the server."""
    answers = [said(events(answer.body)) for _, answer in exchanges(folder)]
    if {thoughts for thoughts, _ in answers if thoughts} != {THOUGHT}:
        yield f"the agent got the thoughts {[thoughts for thoughts, _ in answers]}"
    for _, text in answers:
        if THOUGHT in text or "think>" in text:
            yield f"the agent got the text {text!r}"
    last = max(bodies, key=lambda body: len(body["messages"]))
    prompt = rendered(last, server)
    if PLACE not in prompt:
        yield f"the next prompt does not hold it: {prompt[-600:]!r}"


def events(stream: bytes) -> Iterator[Body]:
    """Give the data of each event of a stream."""
    for line in stream.decode(errors="replace").splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def said(given: Iterable[Body]) -> tuple[str, str]:
    """Return the thoughts and the text in events of chat completions, or of Messages."""
    thoughts, texts = list[str](), list[str]()
    for event in given:
        entries = [choice.get("delta", {}) for choice in event.get("choices") or ()]
        for delta in (*entries, event.get("delta", {})):
            thoughts.append(delta.get("reasoning_content") or delta.get("thinking") or "")
            texts.append(delta.get("content") or delta.get("text") or "")
    return "".join(thoughts), "".join(texts)


def rendered(body: Body, server: str) -> str:
    """Return what the model server makes of a conversation; without an answer to come a script is no script."""
    asked = {"messages": body["messages"], "tools": body.get("tools"), "add_generation_prompt": False}
    request = urllib.request.Request(
        f"{server}/apply-template", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        prompt: str = json.load(answer)["prompt"]
    return prompt
