"""Whether a thought that the model said in its text came to the agent as one, and went back into the next prompt."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.agents.agent import THOUGHT
from tests.agents.shape import said

Body = Mapping[str, Any]
# The place of a thought in the template.
PLACE = f"<|im_start|>assistant\n<think>\n{THOUGHT}\n</think>\n\n"
_SECONDS = 20


def faults(folder: Path, bodies: Iterable[Body], server: str) -> Iterator[str]:
    """Say what became of the thought, by the run's folder, the requests that the model server got, and the server."""
    answers = said(folder)
    if {each.thinking for each in answers if each.thinking} != {THOUGHT}:
        yield f"the agent got the thoughts {[each.thinking for each in answers]}"
    for each in answers:
        if THOUGHT in each.text or "think>" in each.text:
            yield f"the agent got the text {each.text!r}"
    last = max(bodies, key=lambda body: len(body["messages"]))
    prompt = rendered(last, server)
    if PLACE not in prompt:
        yield f"the next prompt does not hold it: {prompt[-600:]!r}"


def rendered(body: Body, server: str) -> str:
    """Return what the model server makes of a conversation; without an answer to come a script is no script."""
    asked = {"messages": body["messages"], "tools": body.get("tools"), "add_generation_prompt": False}
    request = urllib.request.Request(
        f"{server}/apply-template", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        prompt: str = json.load(answer)["prompt"]
    return prompt
