"""A chat client as agents have one: it sends a request and gathers the streamed reply.

It shares nothing with the proxy: what the demonstration shows must not depend on how the proxy reads a reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.demo.agents import Agent

TIMEOUT = 10  # seconds without a byte


@dataclass
class Call:
    """A tool call, put together from its deltas."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Reply:
    """What an agent has at the end of a stream; `error` is empty unless the server sent one."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str = ""
    error: str = ""

    def take(self, chunk: dict[str, Any]) -> None:
        """Add one chunk of the stream."""
        if chunk.get("error"):
            self.error = message(chunk)
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta") or {}
            self.text += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                self._take_call(part)
            self.finish = choice.get("finish_reason") or self.finish

    def _take_call(self, part: dict[str, Any]) -> None:
        """Add one delta of a call: a new index opens a call."""
        if part["index"] == len(self.calls):
            self.calls.append(Call())
        call, function = self.calls[part["index"]], part.get("function") or {}
        call.id = part.get("id") or call.id
        call.name = function.get("name") or call.name
        call.arguments += function.get("arguments") or ""


def message(answer: dict[str, Any]) -> str:
    """Return the words of an error object, on one line."""
    error = answer.get("error")
    words = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(words).split())


def gather(lines: Iterable[bytes]) -> Reply:
    """Return the reply that the lines of an event stream make, up to `[DONE]`."""
    reply = Reply()
    for line in lines:
        field_name, _, value = line.partition(b":")
        if field_name != b"data":
            continue
        if value.strip() == b"[DONE]":
            break
        reply.take(json.loads(value))
    return reply


def ask(url: str, agent: Agent, script: str) -> Reply:
    """Send the agent's request to the server at `url` and return the reply, an error of any kind in it."""
    with requests.Session() as session:
        session.trust_env = False  # no proxy of the environment between the agent and 127.0.0.1
        try:
            with session.post(
                f"{url}/v1/chat/completions",
                json=agent.request(script),
                headers=dict(agent.headers),
                stream=True,
                timeout=TIMEOUT,
            ) as answer:
                if answer.ok:
                    return gather(answer.iter_lines())
                return Reply(error=f"{answer.status_code} {answer.text[:300]}")
        except (requests.RequestException, ValueError, LookupError) as error:
            return Reply(error=f"{type(error).__name__}: {error}")
