"""What the engine is told of a request: all that the request and the rules say."""

from __future__ import annotations

from typing import Any

from proxy.dialects.chat.request import read_chat
from proxy.exchange.plan import make_task
from proxy.repair.policy import Policy
from tests.support.helpers import OFFERED


def test_the_task_carries_what_the_request_says() -> None:
    body: dict[str, Any] = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "now", "arguments": "{}"}}]},
            {"role": "tool", "content": "a result"},
        ],
        "tools": [*OFFERED],
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
    }
    policy = Policy(case_sensitive=True)
    task = make_task(read_chat(b"", body), policy, seed=b"s", raw_text=True, max_held=7)
    assert task.tools is not None and len(task.tools.names) == len(OFFERED)
    assert (task.json_reply, task.sources) == (True, ("a", "a result"))
    assert (task.ids, task.one_call) == (frozenset({"c1"}), True)
    assert (task.seed, task.raw_text, task.policy, task.max_held) == (b"s", True, policy, 7)
