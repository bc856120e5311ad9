"""Healing of the calls in a history: form, arguments, names, and calls written as text (F36, F79 to F81)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from proxy.healing.conversation import (
    Messages,
    calls_of,
    function_of,
    on_calls,
    on_each,
    on_functions,
    on_messages,
    role_of,
    text_of,
    with_value,
)
from proxy.json import Json, JsonObject, as_object, as_text, dump, load_json, without
from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.toolset import ToolSet, read_tools
from proxy.repair.arguments import read_arguments

# The key for arguments that are not an object, so that none of their text is lost.
WRAPPER = "arguments"
# Maximum number of recent results searched for the source of a copied call.
_RESULTS = 8


@on_messages
def function_call(messages: Messages) -> Messages:
    """Replace `{"function_call": {...}}` and the role `function`, which current templates do not support."""
    changed: list[JsonObject] = []
    made = 0
    for message in messages:
        role, old = role_of(message), as_object(message.get("function_call"))
        if role == "assistant" and not message.get("tool_calls") and as_text(old.get("name")):
            made += 1
            call: JsonObject = {"id": f"call_f{made}", "type": "function", "function": old}
            changed.append({**without(message, "function_call"), "tool_calls": [call]})
        elif role == "function":
            changed.append({**message, "role": "tool", "tool_call_id": f"call_f{made}"})
        else:
            changed.append(message)
    return changed


@on_each
def empty_calls(message: JsonObject) -> JsonObject:
    """Drop an empty list of calls."""
    return without(message, "tool_calls") if message.get("tool_calls", True) in (None, []) else message


@on_calls
def call_type(call: JsonObject) -> JsonObject:
    """Add the type of a call, which some templates print."""
    return call if "type" in call or not function_of(call) else {**call, "type": "function"}


def arguments(body: JsonObject) -> JsonObject:
    """Write arguments as the JSON text of an object, whatever the model or the client wrote."""
    offered = cache(lambda: read_tools(body.get("tools")))

    def read(function: JsonObject) -> JsonObject:
        arguments = value = function.get("arguments")
        if isinstance(arguments, str):
            with suppress(ValueError):
                value = load_json(arguments)
            if isinstance(value, dict):
                return function
        if isinstance(value, dict):
            return {**function, "arguments": dump(value)}
        tool = offered().resolve(as_text(function.get("name")))
        # Truncated arguments are not completed: the model would believe that it wrote the rest.
        found = read_arguments(as_text(arguments), tool.compiled if tool else None, stopped=False)
        text = "{}" if value in (None, "") else dump({WRAPPER: value})
        return {**function, "arguments": found.text if found else text}

    return on_functions(read)(body)


def call_names(body: JsonObject) -> JsonObject:
    """Correct the name of a call to that of the offered tool, because the model repeats names from its history."""
    tools = read_tools(body.get("tools"))

    def name(function: JsonObject) -> JsonObject:
        written_name = as_text(function.get("name"))
        tool = tools.resolve(written_name) if written_name else None
        return function if tool is None else with_value(function, "name", tool.name)

    return on_functions(name)(body)


def markup_calls(body: JsonObject) -> JsonObject:
    """Read calls from the text of old turns. The server missed them, but a client ran them.

        assistant: I look. <tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>
        tool:      …

    The text must be followed directly by one result per call. Calls are recognized as in a reply, each inside its
    wrapper (contract C3).
    """
    offered = cache(lambda: read_tools(body.get("tools")))

    def read(messages: Messages) -> Messages:
        changed: list[JsonObject] = []
        newest: deque[str] = deque(maxlen=_RESULTS)
        for index, message in enumerate(messages):
            results = _direct_results(messages, index)
            changed.append(_called(message, results, offered(), newest) if results else message)
            if role_of(message) == "user":
                newest.clear()
            elif role_of(message) == "tool":
                newest.append(text_of(message.get("content")) or "")
        return changed

    return on_messages(read)(body)


def _direct_results(messages: Messages, index: int) -> list[JsonObject]:
    """Return the results directly after an assistant's text; none if the message has calls or no text."""
    results: list[JsonObject] = []
    message = messages[index]
    if role_of(message) == "assistant" and not calls_of(message) and text_of(message.get("content")):
        while index + 1 < len(messages) and role_of(messages[index + 1]) == "tool":
            index += 1
            results.append(messages[index])
    return results


def _called(message: JsonObject, results: list[JsonObject], tools: ToolSet, newest: Iterable[str]) -> JsonObject:
    """Return the message with the calls in its text as tool calls.

    Return it unchanged if the numbers of calls and results differ. Calls copied from `newest` results do not count.
    """
    reader = Reader(tools, Copies(tools, tuple(newest)))
    pieces = (*reader.feed(text_of(message.get("content")) or ""), *reader.finish())
    calls = [call for piece in pieces for call in piece.calls or ()]
    if len(calls) != len(results) or any(call.weak for call in calls):
        return message
    entries: list[Json] = []
    for call, result in zip(calls, results, strict=True):
        function: JsonObject = {"name": call.name, "arguments": dump(call.arguments)}
        call_id = as_text(result.get("tool_call_id"))
        entries.append({**({"id": call_id} if call_id else {}), "type": "function", "function": function})
    prose = "".join(piece.text for piece in pieces if piece.is_prose).rstrip()
    return {**message, "content": prose, "tool_calls": entries}
