"""The tools of a Messages request, and its choice among them.

Source: the Anthropic API reference, "Create a Message": `tools`, `tool_choice`.
"""

from __future__ import annotations

from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.validation import (
    BODY,
    CACHE,
    NO_FIELD,
    DroppedFields,
    FieldPath,
    entry,
    flag,
    listing,
    mapping,
    nonempty_string,
    shown,
    string,
)

# The fields of a custom tool: "" for those that are carried, else the reason why not.
_TOOL = {
    **dict.fromkeys(("type", "name", "description", "input_schema", "strict"), ""),
    "cache_control": CACHE,
    "defer_loading": "chat completions offers every tool from the start",
    "allowed_callers": "nothing but the model itself calls a tool",
    "input_examples": NO_FIELD,
    "eager_input_streaming": "arguments stream anyway",
}
_CHOICE = {"type": "", "disable_parallel_tool_use": ""}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_TOOLS = BODY.field("tools")
_PLACE = BODY.field("tool_choice")


def tool_fields(body: JsonObject, losses: DroppedFields) -> JsonObject:
    """`tools`, `tool_choice` and `parallel_tool_calls` of the chat request, as far as the Messages request has them.

    Raises BadRequest for what is no tool, for tools of Anthropic's own unless the rules let them go, and for a choice
    that cannot be kept.
    """
    tools: list[Json] = []
    gone: set[str] = set()
    for index, value in enumerate(listing(body, "tools", BODY, needed=False)):
        path = _TOOLS.at(index)
        tool = entry(value, path)
        if tool.get("type") in (None, "custom"):
            tools.append(_function(tool, path, losses))
        else:
            gone.add(_foreign(tool, path, losses))
    choice = mapping(body, "tool_choice", BODY, needed=False)
    fields: JsonObject = {"tools": tools} if tools else {}
    return fields if body.get("tool_choice") is None else fields | _choice(choice, tools, gone, losses)


def _function(tool: JsonObject, path: FieldPath, losses: DroppedFields) -> JsonObject:
    """A custom tool as a function; its schema goes as it is."""
    function: JsonObject = {"name": nonempty_string(tool, "name", path)}
    if tool.get("description") is not None:
        function["description"] = string(tool, "description", path)
    function["parameters"] = mapping(tool, "input_schema", path)
    if tool.get("strict") is not None:
        function["strict"] = flag(tool, "strict", path)
    losses.leave(tool, _TOOL, path)
    return {"type": "function", "function": function}


def _foreign(tool: JsonObject, path: FieldPath, losses: DroppedFields) -> str:
    """A tool that Anthropic defines, whose schema only its own models know: refused, or gone; then its name."""
    kind = nonempty_string(tool, "type", path)
    called = tool.get("name")
    called = called if isinstance(called, str) and called else kind
    losses.server_only(path, f"the tool {shown(called)} of type {shown(kind)}", f"tools[] of type {shown(kind)}")
    return called


def _choice(choice: JsonObject, tools: list[Json], gone: set[str], losses: DroppedFields) -> JsonObject:
    kind = nonempty_string(choice, "type", _PLACE)
    if kind not in (*_CHOICES, "tool"):
        raise _PLACE.field("type").bad(f"{shown(kind)} is none of auto, any, tool, none")
    losses.leave(choice, _CHOICE if kind != "tool" else {**_CHOICE, "name": ""}, _PLACE)
    one = flag(choice, "disable_parallel_tool_use", _PLACE)
    translated = _named(choice, tools, gone) if kind == "tool" else _CHOICES[kind]
    if not tools:
        if kind == "any" and not gone:
            raise _PLACE.bad("any needs tools; offer some, or leave it out")
        losses.lost("tool_choice", "there are no tools to choose from")
        return {}
    return {"tool_choice": translated, **({"parallel_tool_calls": False} if one else {})}


def _named(choice: JsonObject, tools: list[Json], gone: set[str]) -> JsonObject:
    path = _PLACE.field("name")
    called = nonempty_string(choice, "name", _PLACE)
    functions = [tool["function"] for tool in tools if isinstance(tool, dict)]
    if any(isinstance(function, dict) and function["name"] == called for function in functions):
        return {"type": "function", "function": {"name": called}}
    if called in gone:
        raise path.bad(f"the rules leave the tool {shown(called)} out (`server_tools: drop`); choose another one")
    raise path.bad(f"{shown(called)} is none of the tools; name one of them")
