"""The rows of a real vLLM that was started without any flag: one row per notation of its model's call.

It finds no calls, and refuses tools unless `tool_choice` is `none`. All runs have the same server
(`python -m tests.vllm --agents`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.agents import texts
from tests.agents.agent import FINAL, Agent
from tests.agents.rows import Row

SECONDS = 400  # a prompt of an agent's takes a busy machine of two cores some of them
# vLLM refuses tools without its flags, and Codex's custom tool before that. Agents may ask again.
REFUSED = {"chat": "CRASH/*", "messages": "CRASH/*", "responses": "CRASH/*"}


def _row(form: str, written: Callable[[Agent], str]) -> Row:
    """The proxy's first request is refused, and so it asks once more; the next one is right."""
    return Row(f"vLLM {form}", "ok/3", script=f"vllm_{form}", written=written, without=REFUSED, seconds=SECONDS)


ROWS = (
    _row("hermes", texts.tool_call_text),
    _row("coder", texts.coder_xml),
    _row("mistral", texts.mistral),
    _row("glm", texts.glm),
)
BY_NAME = {row.name: row for row in ROWS}


def scripts(agents: Iterable[Agent]) -> dict[str, list[str]]:
    """Return what the model says to each agent in each row: its call, and behind the result that it is done."""
    return {
        agent.script(row.script): [row.written(agent), FINAL]
        for agent in agents
        for row in ROWS
        if row.written is not None
    }
