"""The calls of a history: their form, their arguments, their names (F36, F79, F80)."""

from __future__ import annotations

from proxy.codec.json_access import as_object, as_text
from proxy.codec.json_text import Json, JsonObject, dump, load_json
from proxy.healing.conversation import Messages, function_of, on_calls, on_each, on_messages, role_of
from proxy.repair.argument_readers import read_arguments
from proxy.tools.toolset import read_tools

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


def _typed(call: JsonObject, body: JsonObject) -> JsonObject:
    if "type" in call or not function_of(call):
        return call
    return {**call, "type": "function"}


# Some templates print the type.
type_calls = on_calls(_typed)


def _read(call: JsonObject, body: JsonObject) -> JsonObject:
    function = function_of(call)
    if not function:
        return call
    given = function.get("arguments")
    if isinstance(given, str):
        text = _object_text(given, as_text(function.get("name")), body)
    elif isinstance(given, dict):
        text = dump(given)
    else:
        text = _wrapped(given)
    if text is given:
        return call
    return {**call, "function": {**function, "arguments": text}}


# Arguments are the text of a JSON object, whatever the model wrote or the client kept.
read_call_arguments = on_calls(_read)


def _object_text(text: str, name: str, body: JsonObject) -> str:
    """The text of an object: the same, or as the ladder reads it, or wrapped."""
    try:
        value = load_json(text)
    except ValueError:
        value = text
    if isinstance(value, dict):
        return text
    return _read_text(text, name, body) or _wrapped(value)


def _read_text(text: str, name: str, body: JsonObject) -> str:
    """The text of the object that the ladder finds, or ""."""
    tool = read_tools(body.get("tools")).resolve(name)
    lists: list[str] = []
    if tool is not None:
        lists = [key for key in tool.properties if tool.is_list(key)]
    # What broke off is not completed: the model would read that it had said so.
    for reading in read_arguments(text, lists=lists, stopped=False):
        if not reading.by_schema:
            return reading.text
    return ""


def _wrapped(value: Json) -> str:
    if value in (None, ""):
        return "{}"
    return dump({WRAPPER: value})


def _named(call: JsonObject, body: JsonObject) -> JsonObject:
    function = function_of(call)
    name = as_text(function.get("name"))
    tool = read_tools(body.get("tools")).resolve(name) if name else None
    if tool is None or tool.name == name:
        return call
    return {**call, "function": {**function, "name": tool.name}}


# A model that reads `functions.read:0` in its own turns writes it again.
name_calls = on_calls(_named)
