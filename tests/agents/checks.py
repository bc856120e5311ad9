"""Checks of the requests of a run: validity, results of the calls, and the prefix cache."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.agents.agent import WROTE

ROLES = {"system", "user", "assistant", "tool"}
PARTS = {"text", "image_url"}
Body = Mapping[str, Any]
# A call and its result in a request of Messages, and of Responses.
_CALLS = {"tool_use", "function_call", "custom_tool_call"}
_RESULTS = {"tool_result", "function_call_output", "custom_tool_call_output"}


def faults(body: Body) -> Iterator[str]:
    """Yield the faults for which vLLM would refuse a chat request."""
    open_calls: set[str] = set()
    for number, message in enumerate(body.get("messages") or [{}]):
        place, role = f"messages.{number}", message.get("role")
        if role not in ROLES:
            yield f"{place}: no such role: {role!r}"
        yield from _content_faults(place, message)
        if role == "tool" and message.get("tool_call_id") not in open_calls:
            yield f"{place}: a result without a call: {message.get('tool_call_id')!r}"
        for call in message.get("tool_calls") or ():
            yield from _call_faults(place, call)
            open_calls.add(call.get("id"))
    for number, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") != "function" or not isinstance(tool.get("function", {}).get("parameters"), dict):
            yield f"tools.{number}: not a function with parameters"
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options without a stream"


def _content_faults(place: str, message: Body) -> Iterator[str]:
    content = message.get("content")
    if content is None and not message.get("tool_calls"):
        yield f"{place}: no content"
    if isinstance(content, list):
        yield from (f"{place}: not a content part: {part}" for part in content if part.get("type") not in PARTS)
    elif not isinstance(content, str | None):
        yield f"{place}: content is neither text nor parts"


def _call_faults(place: str, call: Body) -> Iterator[str]:
    said = call.get("function", {})
    if call.get("type") != "function" or not (call.get("id") and said.get("name")):
        yield f"{place}: a call without a type, an id or a name"
    try:
        whole = isinstance(json.loads(said.get("arguments")), dict)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        yield f"{place}: arguments that are not a JSON object: {said.get('arguments')!r}"


def of_the_run(bodies: Iterable[Body], calls: int, dialect: str = "chat") -> Iterator[str]:
    """Yield the faults of a run's requests: invalid ones, and calls whose results were never sent upstream."""
    asked = [*bodies]
    for number, body in enumerate(asked if dialect == "chat" else ()):
        yield from (f"request {number}: {fault}" for fault in faults(body))
    sent = max((_done(body) for body in asked), default=0)
    if sent < calls:
        yield f"the results of {sent} of {calls} calls that write a proof were sent upstream"


def _done(body: Body) -> int:
    """Return the number of calls in a request of any dialect that write a proof and have a result."""
    called, answered = set[str | None](), set[str | None]()
    for item in _items(body):
        for call in item.get("tool_calls") or ():
            if WROTE in str(call.get("function", {}).get("arguments")):
                called.add(call.get("id"))
        if item.get("type") in _CALLS and WROTE in json.dumps(item):
            called.add(item.get("call_id", item.get("id")))
        answered.add(item.get("tool_call_id"))
        if item.get("type") in _RESULTS:
            answered.add(item.get("call_id", item.get("tool_use_id")))
    return len(called & answered)


def _items(body: Body) -> Iterator[Body]:
    """Yield the messages of a request and their blocks, or the items of a Responses request."""
    entries = body.get("messages") or body.get("input")
    for entry in entries if isinstance(entries, list) else ():
        yield entry
        blocks = entry.get("content")
        yield from (block for block in blocks if isinstance(block, dict)) if isinstance(blocks, list) else ()


def of_the_task(bodies: Iterable[Body]) -> list[Body]:
    """Return the requests that offer tools, or all if none does. Others may be for other tasks, like session names."""
    asked = [*bodies]
    return [body for body in asked if body.get("tools")] or asked


def costs_no_prefix(bodies: Iterable[Body], own: Iterable[Body]) -> bool:
    """Return whether the proxy keeps the prefix of requests. `own` are the agent's chat requests.

    If an agent changes its own prefix, the lost cache is not the proxy's fault.
    """
    return keeps_the_prefix(of_the_task(bodies)) or not keeps_the_prefix(of_the_task(own))


def keeps_the_prefix(bodies: Iterable[Body]) -> bool:
    """Return whether each request begins with the previous one (C8): the same tools, and its messages first.

    The keys must be in the same order.
    """
    ordered = sorted(bodies, key=lambda body: len(body["messages"]))
    tools = {json.dumps(body.get("tools")) for body in ordered}
    messages = [json.dumps(body["messages"])[:-1] for body in ordered]
    return len(tools) <= 1 and all(later.startswith(earlier) for earlier, later in itertools.pairwise(messages))
