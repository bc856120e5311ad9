"""The engine's task for one request, built from the request and the rules."""

from __future__ import annotations

from proxy.dialects.chat.request import ChatRequest
from proxy.engine.task import Task
from proxy.limits import MAX_HELD
from proxy.notations.thoughts import Thoughts
from proxy.repair.policy import Policy


def make_task(
    request: ChatRequest,
    policy: Policy,
    *,
    seed: bytes,
    raw_text: bool,
    max_held: int = MAX_HELD,
    ordered: bool = False,
    thoughts: Thoughts | None = None,
) -> Task:
    """The engine's task for the reply to a request; `raw_text` says that the server was told not to look for calls,
    `ordered` that the client has text and reasoning in one order; `thoughts` are told from the text.
    """
    return Task(
        tools=request.tools,
        seed=seed,
        raw_text=raw_text,
        json_reply=request.json_reply,
        sources=request.sources,
        made=request.made,
        ids=request.ids,
        one_call=request.one_call,
        ordered=ordered,
        thoughts=thoughts,
        forced=request.forced_tool,
        policy=policy,
        max_held=max_held,
    )
