"""Calls that stand as text in old turns, because nobody had found them when they were made, though a client ran them.

    assistant: I look. <tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>
    tool:      …

Only where results without a call follow at once, as many as the text has calls: then these are their results. What
counts as a call is what counts in a reply, in a wrapper of its own (contract C3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from proxy.codec.json_access import as_text
from proxy.codec.json_text import JsonObject, dump
from proxy.healing.conversation import Messages, calls_of, on_messages, role_of, text_of
from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.stream import Found, Piece
from proxy.tools.toolset import ToolSet, read_tools

# So many of the newest results are looked through for what a call was copied from.
_RESULTS = 8


def read_markup(body: JsonObject) -> JsonObject:
    """The body with the calls that stand as text in turns whose results follow."""
    return on_messages(_reading(body))(body)


def _reading(body: JsonObject) -> Callable[[Messages], Messages]:
    def read(messages: Messages) -> Messages:
        changed: list[JsonObject] = []
        newest: deque[str] = deque(maxlen=_RESULTS)
        tools: ToolSet | None = None
        for index, message in enumerate(messages):
            results = _results_behind(messages, index)
            if results:
                tools = tools or read_tools(body.get("tools"))
                changed.append(_called(message, results, tools, Copies(tools, tuple(newest))))
            else:
                changed.append(message)
            if role_of(message) == "user":
                newest.clear()
            elif role_of(message) == "tool":
                newest.append(text_of(message.get("content")) or "")
        return changed

    return read


def _results_behind(messages: Messages, index: int) -> list[JsonObject]:
    """The results that follow a text of the assistant's at once; none where it calls, or says nothing."""
    message = messages[index]
    if role_of(message) != "assistant" or calls_of(message) or not text_of(message.get("content")):
        return []
    results: list[JsonObject] = []
    for other in messages[index + 1 :]:
        if role_of(other) != "tool":
            break
        results.append(other)
    return results


def _called(message: JsonObject, results: list[JsonObject], tools: ToolSet, copies: Copies) -> JsonObject:
    """The message with its calls, if they are as many as their results; else the very same."""
    text = text_of(message.get("content")) or ""
    reader = Reader(tools, copies)
    pieces = (*reader.feed(text), *reader.finish())
    calls = [call for piece in pieces for call in piece.calls or ()]
    if len(calls) != len(results) or any(call.weak for call in calls):
        return message
    entries = [_entry(call, as_text(result.get("tool_call_id"))) for call, result in zip(calls, results, strict=True)]
    return {**message, "content": _prose(pieces), "tool_calls": [*entries]}


def _prose(pieces: tuple[Piece, ...]) -> str:
    """Return the text that is left."""
    return "".join(piece.text for piece in pieces if piece.is_prose).rstrip()


def _entry(call: Found, call_id: str) -> JsonObject:
    function: JsonObject = {"name": call.name, "arguments": dump(call.arguments)}
    entry: JsonObject = {"type": "function", "function": function}
    if call_id:
        return {"id": call_id, **entry}
    return entry
