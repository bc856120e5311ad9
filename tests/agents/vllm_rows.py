"""The rows of a real vLLM without flags: one row per notation of its model's call.

This server parses no calls, and refuses tools unless `tool_choice` is `none`. All runs use the same server
(`python -m tests.vllm --agents`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.agents import texts
from tests.agents.agent import FINAL, Agent
from tests.agents.rows import Row

SECONDS = 400  # an agent's prompt takes long on a busy machine with two cores
# vLLM refuses tools without its flags, and Codex's custom tool before that. Agents may retry.
REFUSED = {"chat": "CRASH/*", "messages": "CRASH/*", "responses": "CRASH/*"}


def _row(form: str, written: Callable[[Agent], str]) -> Row:
    """Return a row in which the server refuses the proxy's first request, and the proxy retries."""
    return Row(f"vLLM {form}", "ok/3", script=f"vllm_{form}", written=written, without=REFUSED, seconds=SECONDS)


ROWS = (
    _row("hermes", texts.tool_call_text),
    _row("coder", texts.coder_xml),
    _row("mistral", texts.mistral),
    _row("glm", texts.glm),
)
BY_NAME = {row.name: row for row in ROWS}


def scripts(agents: Iterable[Agent]) -> dict[str, list[str]]:
    """Return the model's scripts by row and agent: its call, and the final reply after the result."""
    return {
        agent.script(row.script): [row.written(agent), FINAL]
        for agent in agents
        for row in ROWS
        if row.written is not None
    }
