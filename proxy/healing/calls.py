"""The calls of a history: their form, their arguments, their names (F36, F79, F80)."""

from __future__ import annotations

from collections.abc import Callable

from proxy.codec.json_access import as_object, as_text
from proxy.codec.json_text import Json, JsonObject, dump, load_json
from proxy.healing.conversation import Messages, function_of, on_calls, on_each, on_messages, role_of
from proxy.repair.arguments import read_arguments
from proxy.tools.toolset import Tool, ToolSet, read_tools

# The key under which arguments that are no object go up, so that nothing of them is lost.
WRAPPER = "arguments"


def _modern(messages: Messages) -> Messages:
    changed: list[JsonObject] = []
    made = 0
    for message in messages:
        if _calls_in_the_old_way(message):
            made += 1
            changed.append(_modern_call(message, f"call_f{made}"))
        elif role_of(message) == "function":
            changed.append({**message, "role": "tool", "tool_call_id": f"call_f{made}"})
        else:
            changed.append(message)
    return changed


def _calls_in_the_old_way(message: JsonObject) -> bool:
    if role_of(message) != "assistant" or message.get("tool_calls"):
        return False
    return bool(as_text(as_object(message.get("function_call")).get("name")))


def _modern_call(message: JsonObject, call_id: str) -> JsonObject:
    modern = {key: value for key, value in message.items() if key != "function_call"}
    modern["tool_calls"] = [{"id": call_id, "type": "function", "function": message["function_call"]}]
    return modern


# `{"function_call": {...}}` and the role `function`, which templates of today do not know.
modern_calls = on_messages(_modern)


def _without_empty(message: JsonObject) -> JsonObject:
    if message.get("tool_calls", True) in (None, []):
        return {key: value for key, value in message.items() if key != "tool_calls"}
    return message


# An empty list of calls is none.
drop_empty_calls = on_each(_without_empty)


def _typed(call: JsonObject) -> JsonObject:
    if "type" in call or not function_of(call):
        return call
    return {**call, "type": "function"}


# Some templates print the type.
type_calls = on_calls(lambda body: _typed)


def _reading(body: JsonObject) -> Callable[[JsonObject], JsonObject]:
    """A function that reads the arguments of a call; the tools are looked at when one needs them."""
    tools: list[ToolSet] = []

    def tools_of() -> ToolSet:
        if not tools:
            tools.append(read_tools(body.get("tools")))
        return tools[0]

    def read(call: JsonObject) -> JsonObject:
        function = function_of(call)
        if not function:
            return call
        arguments = function.get("arguments")
        text = _object_text(arguments)
        if not text:
            tool = tools_of().resolve(as_text(function.get("name")))
            text = _read_text(as_text(arguments), tool) or _wrapped(arguments)
        if text is arguments:
            return call
        return {**call, "function": {**function, "arguments": text}}

    return read


# Arguments are the text of a JSON object, whatever the model wrote or the client kept.
read_call_arguments = on_calls(_reading)


def _object_text(arguments: Json) -> str:
    """The text of an object, the very same one if it is one; "" if it is none."""
    if isinstance(arguments, dict):
        return dump(arguments)
    if isinstance(arguments, str) and isinstance(_value(arguments), dict):
        return arguments
    return ""


def _value(text: str) -> Json:
    """The JSON value of a text; the text itself if it is none."""
    try:
        return load_json(text)
    except ValueError:
        return text


def _read_text(text: str, tool: Tool | None) -> str:
    """The object that arguments which are no JSON stand for, as JSON; "" if no reader finds one."""
    # What broke off is not completed: the model would read that it had said so.
    found = read_arguments(text, tool.compiled if tool else None, stopped=False)
    return found.text if found else ""


def _wrapped(arguments: Json) -> str:
    value = arguments
    if isinstance(arguments, str):
        value = _value(arguments)
    if value in (None, ""):
        return "{}"
    return dump({WRAPPER: value})


def _naming(body: JsonObject) -> Callable[[JsonObject], JsonObject]:
    """A function that gives a call the name of the offered tool that it means."""
    tools = read_tools(body.get("tools"))

    def name(call: JsonObject) -> JsonObject:
        function = function_of(call)
        written_name = as_text(function.get("name"))
        tool = tools.resolve(written_name) if written_name else None
        if tool is None or tool.name == written_name:
            return call
        return {**call, "function": {**function, "name": tool.name}}

    return name


# A model that reads `functions.read:0` in its own turns writes it again.
name_calls = on_calls(_naming)
