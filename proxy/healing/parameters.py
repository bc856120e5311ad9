"""Rules' changes in a request by the model: its parameters (F59 to F61, F85), and which tools it offers.

All of it is on request: nothing is changed of which the rules say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from proxy.codec.json_access import as_list, as_object, as_text
from proxy.codec.json_text import Json, JsonObject
from proxy.healing.conversation import all_the_same

# What says something of tools, and nothing without any.
_OF_TOOLS = frozenset(("tools", "tool_choice", "parallel_tool_calls"))
# No value of JSON.
_NOTHING = object()
# What makes a request the one that it is, or decides how its answer is read.
KEPT = frozenset(
    (
        *("model", "messages", "tools", "tool_choice", "functions", "function_call", "stream", "n"),
        *("response_format", "parallel_tool_calls"),
    )
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Fields of the body: what they are `set` to, what they are by `default`, what is stripped, and how large a number
    may be (`at_most`).
    """

    set: Mapping[str, Json] = field(default_factory=dict)
    default: Mapping[str, Json] = field(default_factory=dict)
    strip: tuple[str, ...] = ()
    at_most: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """Tools by globs on their names that are not offered, and the characters that a description may have (0: all).
    `polls` are those that are called again and again on purpose; a call that was made `most_repeats` times with the
    same result ends the turn without the model (0: never).
    """

    drop: tuple[str, ...] = ()
    describe: int = 0
    polls: tuple[str, ...] = ()
    most_repeats: int = 0


def sample(body: JsonObject, sampling: Sampling) -> JsonObject:
    """The body with the model's parameters; the very same one if it has them."""
    new = {key: value for key, value in body.items() if key not in sampling.strip}
    for key, value in sampling.default.items():
        new.setdefault(key, value)
    for key, value in sampling.set.items():
        if new.get(key, _NOTHING) != value:
            new[key] = value
    for key, most in sampling.at_most.items():
        new |= _limited(new, key, most)
    if [*new] == [*body] and all_the_same([*new.values()], [*body.values()]):
        return body
    return _messages_last(new, body)


def _limited(body: JsonObject, key: str, most: float) -> JsonObject:
    """The field with the largest number that it may have, if it has a larger one."""
    value = body.get(key)
    if isinstance(value, int | float) and value > most:
        return {key: most}
    return {}


def _messages_last(new: JsonObject, body: JsonObject) -> JsonObject:
    """The messages stay the last key if they were (contract C8)."""
    if not body or [*body][-1] != "messages":
        return new
    messages = new.pop("messages")
    return {**new, "messages": messages}


def offer(body: JsonObject, offered: OfferedTools) -> JsonObject:
    """The body with fewer tools and shorter descriptions; the very same one if the rules say nothing of them.

    A tool that the client forces stays.
    """
    if not offered.drop and not offered.describe:
        return body
    tools = as_list(body.get("tools"))
    forced = _name(body.get("tool_choice"))
    remaining = [tool for tool in tools if not _is_dropped(tool, offered.drop, forced)]
    described = [_described(tool, offered.describe) for tool in remaining]
    if all_the_same(described, tools):
        return body
    if described:
        return {**body, "tools": described}
    return {key: value for key, value in body.items() if key not in _OF_TOOLS}


def _name(entry: Json) -> str:
    """The name of a tool, or of the tool that is chosen."""
    return as_text(as_object(as_object(entry).get("function")).get("name"))


def _is_dropped(tool: Json, globs: tuple[str, ...], forced: str) -> bool:
    name = _name(tool)
    return name != forced and any(fnmatchcase(name, glob) for glob in globs)


def _described(tool: Json, longest: int) -> Json:
    """A tool whose description, and those of its parameters, are cut to so many characters."""
    if not longest:
        return tool
    function = as_object(as_object(tool).get("function"))
    short = _shortened(function, longest)
    if short is function:
        return tool
    return {**as_object(tool), "function": short}


def _shortened(value: JsonObject, longest: int) -> JsonObject:
    new: JsonObject = {}
    for key, inner in value.items():
        new[key] = inner
        if isinstance(inner, str) and key == "description":
            new[key] = cut(inner, longest)
        elif isinstance(inner, dict):
            new[key] = _shortened_member(key, inner, longest)
    if all_the_same([*new.values()], [*value.values()]):
        return value
    return new


def _shortened_member(key: str, value: JsonObject, longest: int) -> JsonObject:
    if key in ("parameters", "items"):
        return _shortened(value, longest)
    if key == "properties":
        return _shortened_members(value, longest)
    return value


def _shortened_members(properties: JsonObject, longest: int) -> JsonObject:
    new: JsonObject = {}
    for name, schema in properties.items():
        new[name] = schema
        if isinstance(schema, dict):
            new[name] = _shortened(schema, longest)
    if all_the_same([*new.values()], [*properties.values()]):
        return properties
    return new


def cut(text: str, longest: int) -> str:
    """A text of at most so many characters, cut between words if it can be."""
    if len(text) <= longest:
        return text
    short = text[: longest - 1]
    words = short.rpartition(" ")[0]
    return f"{words or short}…"
