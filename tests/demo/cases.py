"""The cases of the demo: the agent, what its model writes, and what the agent must receive."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import requests

from benchmarks.models.replay import receive
from benchmarks.models.replies import Reply
from tests.demo.agents import OPENCLAW, OPENCODE, QWEN_CODE, Agent
from tests.real.llama import load_scripts

COMMAND = "printf made-by-tool > $PWD/proof.txt"

Expected = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class Case:
    """One row: an agent, a script of `tests/real`, a description of its form, and the intended calls and text."""

    agent: Agent
    script: str
    wrote: str
    calls: Expected = ()
    text: str = ""

    def ask(self, url: str) -> Reply:
        """Send the agent's request to the server at `url` and return the reply. Errors are part of the reply."""
        try:
            return receive(url, self.agent.request(self.script), self.agent.headers)
        except (requests.RequestException, ValueError, LookupError) as error:
            return Reply("", [], "", 0, 0.0, f"{type(error).__name__}: {error}")

    def faults(self, reply: Reply) -> list[str]:
        """Return the differences between `reply` and what the agent must receive."""
        if reply.error:
            return [f"error: {reply.error}"]
        calls = [_meaning(*call) for call in reply.calls]
        checks = {
            f"finish {reply.finish!r}": reply.finish == ("tool_calls" if self.calls else "stop"),
            f"calls {calls}": calls == list(self.calls),
            f"text {reply.text!r}": self._is_text(reply.text),
        }
        return [f"unexpected {what}" for what, holds in checks.items() if not holds]

    def _is_text(self, text: str) -> bool:
        """Return whether the text is as expected: verbatim, except for blanks in a reply with calls."""
        return text.strip() == self.text if self.calls else text == self.text


def _meaning(name: str, arguments: str) -> tuple[str, Any]:
    """Return a call as an agent reads it. Arguments that are not JSON are a string, which no case expects."""
    try:
        return name, json.loads(arguments)
    except ValueError:
        return name, arguments


def _forms(agent: Agent, prefix: str, *calls: tuple[str, dict[str, Any]]) -> list[Case]:
    """Return an agent's cases: one call, written in four forms."""
    lead = "I'll make the file."
    return [
        Case(agent, f"{prefix}_hermes", "<tool_call> JSON", calls, lead),
        Case(agent, f"{prefix}_tools", "<tools> JSON", calls, lead),
        Case(agent, f"{prefix}_xml", "<function=...> XML", calls),
        Case(agent, f"{prefix}_fence", "```json fence", calls),
    ]


def _plain(agent: Agent, script: str, wrote: str) -> Case:
    return Case(agent, script, wrote, text=load_scripts()[script][0])


_BASH = {"command": COMMAND, "description": "make the file"}
_QWEN = {"command": COMMAND, "is_background": False, "description": "make"}

CASES = (
    *_forms(OPENCLAW, "openclaw", ("exec", {"command": COMMAND})),
    _plain(OPENCLAW, "plain", "plain text"),
    *_forms(OPENCODE, "opencode", ("bash", _BASH)),
    Case(
        OPENCODE,
        "opencode_two",
        "two <tools> blocks",
        (("bash", {"command": COMMAND}), ("read", {"filePath": "proof.txt"})),
    ),
    *_forms(QWEN_CODE, "qwen", ("run_shell_command", _QWEN)),
    _plain(QWEN_CODE, "essay", "text about calls"),
)
