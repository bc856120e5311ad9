"""Changes of a request by the rules for its model: parameters (F59 to F61, F85) and offered tools.

Anything that the rules do not name stays unchanged. The docstrings of the structs describe the keys in rules.yaml.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from proxy.healing.conversation import all_the_same, function_of, with_function
from proxy.json import Json, JsonObject, as_list, as_object, as_text, without

# Fields that define the request, or decide how its answer is read.
KEPT = frozenset(
    (
        "model",
        "messages",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "stream",
        "n",
        "response_format",
        "parallel_tool_calls",
    )
)

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, title="a text of 1 to 200 characters")]
_ABOVE_0 = Meta(gt=0, title="a number above 0")


class Sampling(Struct, frozen=True, omit_defaults=True):
    """Fields of the request body.

    set: Values that replace the client's.
    default: Values for fields that the client does not send.
    strip: Fields that are removed.
    at_most: The largest number that a field may have.
    """

    set: dict[Text, Any] = {}
    default: dict[Text, Any] = {}
    strip: tuple[Text, ...] = ()
    at_most: dict[Text, Annotated[int, _ABOVE_0] | Annotated[float, _ABOVE_0]] = {}

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            for name in getattr(self, key):
                if name in KEPT:
                    raise ValueError(key, f"{name!r} cannot be changed by a rule; remove it")


class OfferedTools(Struct, frozen=True, omit_defaults=True):
    """Tools of the request, by globs on their names.

    drop: Tools that are not offered to the model.
    describe: Maximum length of a description in characters.
    polls: Tools that are called again and again on purpose.
    most_repeats: Number of identical calls with identical results after which the turn ends.
    """

    drop: tuple[Text, ...] = ()
    describe: Annotated[int, Meta(ge=1, le=100_000, title="a whole number from 1 to 100000")] = 0
    polls: tuple[Text, ...] = ()
    most_repeats: Annotated[int, Meta(ge=2, le=100_000, title="a whole number from 2 to 100000")] = 0


def sample(body: JsonObject, sampling: Sampling) -> JsonObject:
    """Return the body with the model's parameters; the same body if nothing changes."""
    new = without(body, *sampling.strip)
    for key, value in sampling.default.items():
        new.setdefault(key, value)
    for key, value in sampling.set.items():
        if key not in new or new[key] != value:
            new[key] = value
    for key, most in sampling.at_most.items():
        value = new.get(key)
        if isinstance(value, int | float) and value > most:
            new[key] = most
    if [*new] == [*body] and all_the_same([*new.values()], [*body.values()]):
        return body
    if [*body][-1:] == ["messages"]:  # the messages stay the last key (contract C8)
        new["messages"] = new.pop("messages")
    return new


def offer(body: JsonObject, offered: OfferedTools) -> JsonObject:
    """Return the body with fewer tools and shorter descriptions; the same body if the rules require neither.

    A tool that the client forces is kept.
    """
    tools = as_list(body.get("tools"))
    forced = _name(body.get("tool_choice"))

    def is_dropped(tool: Json) -> bool:
        name = _name(tool)
        return name != forced and any(fnmatchcase(name, glob) for glob in offered.drop)

    def described(tool: Json) -> Json:
        if not offered.describe or not isinstance(tool, dict):
            return tool
        return with_function(tool, lambda function: _shortened(function, offered.describe))

    remaining = [described(tool) for tool in tools if not is_dropped(tool)]
    if all_the_same(remaining, tools):
        return body
    return {**body, "tools": remaining} if remaining else without(body, "tools", "tool_choice", "parallel_tool_calls")


def _name(entry: Json) -> str:
    """Return the name of a tool or of a tool choice."""
    return as_text(function_of(as_object(entry)).get("name"))


def _shortened(value: JsonObject, longest: int, *, named: bool = False) -> JsonObject:
    """Return a function or a schema with shortened descriptions. The keys of `named` schemas are names."""
    new: JsonObject = {}
    for key, inner in value.items():
        new[key] = inner
        if isinstance(inner, str) and key == "description" and not named:
            new[key] = cut(inner, longest)
        elif isinstance(inner, dict) and (named or key in ("parameters", "items", "properties")):
            new[key] = _shortened(inner, longest, named=key == "properties" and not named)
    return value if all_the_same([*new.values()], [*value.values()]) else new


def cut(text: str, longest: int) -> str:
    """Cut a text to a length, between words if possible."""
    if len(text) <= longest:
        return text
    short = text[: longest - 1]
    return f"{short.rpartition(' ')[0] or short}…"
