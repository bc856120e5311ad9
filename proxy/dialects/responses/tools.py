"""The tools of a Responses request as functions, and its choice among them.

Source: OpenAI's API reference, "Create a model response": `tools`, `tool_choice`. A function of a namespace goes up
under one joined name, and comes back under its own with the namespace beside it, as Codex wants it:

    multi_agent_v1 / close_agent   ->   multi_agent_v1__close_agent
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b

from proxy.codec.json_access import as_list, as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.responses.fields import CLIENT_TOOLS, OTHER_TOOL_ROWS, TOOL_FIELDS
from proxy.dialects.validation import (
    BODY,
    DroppedFields,
    FieldPath,
    entry,
    flag,
    listing,
    mapping,
    nonempty_string,
    optional,
    shown,
)

# The longest name that OpenAI's API and its imitators take for a function.
_LONGEST = 64
_ODD = re.compile(r"[^A-Za-z0-9_-]")
SEARCH = "tool_search"
INPUT = "input"
_CHOICES = ("auto", "none", "required")
_PLACE = BODY.field("tool_choice")
# The choices that name one tool.
_NAMING = frozenset(("function", "custom", SEARCH, *OTHER_TOOL_ROWS))
_NO_TOOLS = "there are no tools to choose from"


class Kind(Enum):
    """The kinds of tools, by how they are called and answered in this dialect."""

    FUNCTION = "function"
    CUSTOM = "custom"
    SEARCH = "tool_search"


@dataclass(frozen=True, slots=True)
class Called:
    """A tool as the client knows it."""

    kind: Kind
    name: str
    namespace: str = ""


@dataclass(slots=True)
class OfferedTools:
    """The tools of a request: as functions, in their order, and by the names under which the server knows them."""

    functions: list[Json] = field(default_factory=list)
    by_name: dict[str, Called] = field(default_factory=dict)
    # The types of those that were left out.
    gone: set[str] = field(default_factory=set)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def called(self, name: str) -> Called:
        """The tool that the server calls by this name; one that was not offered is a function (F40).

        Models leave out a namespace: to the client that is a tool which it does not know. If only one has the name, it
        is meant.
        """
        offered = self.by_name.get(name)
        if offered is not None:
            return offered
        alike = [called for called in self.by_name.values() if called.name == name]
        if len(alike) == 1:
            return alike[0]
        return Called(Kind.FUNCTION, name)

    def name_of(self, name: str, namespace: str) -> str:
        """The name under which the server knows a tool, offered or not."""
        return self._names.get((namespace, name)) or joined_name(namespace, name)

    def reserve(self, name: str) -> None:
        """A tool without a namespace keeps its name, whatever the others are called."""
        self._names.setdefault(("", name), name)

    def offer(self, called: Called, function: JsonObject) -> bool:
        """Offer a tool; False if there is one of that name already."""
        key = (called.namespace, called.name)
        name = self._names.get(key, "")
        if not name:
            name = joined_name(called.namespace, called.name)
            if name in self._names.values():
                name = _distinct(called.namespace, called.name, name)
            self._names[key] = name
        if name in self.by_name:
            return False
        self.by_name[name] = called
        self.functions.append({"type": "function", "function": {"name": name, **function}})
        return True

    def only(self, names: Iterable[str]) -> list[Json]:
        """The functions of these names."""
        allowed = frozenset(names)
        return [tool for tool in self.functions if as_object(as_object(tool).get("function")).get("name") in allowed]


def joined_name(namespace: str, name: str) -> str:
    """The name of a namespace's tool: of an id's letters, and not too long; a digest tells apart what was cut."""
    if not namespace:
        return name
    plain = f"{namespace}__{name}"
    spelled = _ODD.sub("_", plain)
    if spelled != plain or len(spelled) > _LONGEST:
        return _distinct(namespace, name, spelled)
    return spelled


def _distinct(namespace: str, name: str, plain: str) -> str:
    digest = blake2b(f"{namespace}\0{name}".encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{plain[: _LONGEST - len(digest) - 1]}_{digest}"


def offered_tools(
    body: JsonObject, items: Iterable[tuple[JsonObject, FieldPath]], losses: DroppedFields
) -> OfferedTools:
    """The tools of the body, then those that `additional_tools` and `tool_search_output` bring, in their order."""
    lists = [(listing(body, "tools", BODY, needed=False), BODY.field("tools"))]
    for item, path in items:
        if item.get("type") in ("additional_tools", "tool_search_output"):
            lists.append((listing(item, "tools", path), path.field("tools")))
    tools = OfferedTools()
    for listed, _ in lists:
        for tool in objects_in(listed):
            if tool.get("type") in ("function", "custom") and isinstance(tool.get("name"), str):
                tools.reserve(as_text(tool["name"]))
    for listed, path in lists:
        for index, value in enumerate(listed):
            here = path.at(index)
            _offer(entry(value, here), here, tools, losses)
    return tools


def _offer(tool: JsonObject, path: FieldPath, tools: OfferedTools, losses: DroppedFields) -> None:
    kind = nonempty_string(tool, "type", path)
    if kind == "namespace":
        _offer_namespace(tool, path, tools, losses)
    elif kind == SEARCH and tool.get("execution") == "client":
        losses.leave(tool, TOOL_FIELDS[SEARCH], path)
        _add(Called(Kind.SEARCH, SEARCH), _described(tool, path) | _parameters(tool, path), path, tools, losses)
    elif kind in ("function", "custom"):
        _offer_plain(tool, path, tools, losses)
    elif kind in CLIENT_TOOLS:
        raise path.bad(f"the tool of type {shown(kind)}: {OTHER_TOOL_ROWS[kind].removeprefix('refused: ')}")
    else:
        losses.server_only(path, f"the tool of type {shown(kind)}", f"{path.kind} of type {shown(kind)}")
        tools.gone.add(kind)


def _offer_namespace(tool: JsonObject, path: FieldPath, tools: OfferedTools, losses: DroppedFields) -> None:
    losses.leave(tool, TOOL_FIELDS["namespace"], path)
    namespace = nonempty_string(tool, "name", path)
    about = optional(tool, "description", path)
    here = path.field("tools")
    for index, value in enumerate(listing(tool, "tools", path)):
        inner = entry(value, here.at(index))
        kind = nonempty_string(inner, "type", here.at(index))
        if kind not in ("function", "custom"):
            raise here.at(index).field("type").bad(f"{shown(kind)} cannot stand in a namespace")
        _offer_plain(inner, here.at(index), tools, losses, namespace=namespace, about=about)


def _offer_plain(
    tool: JsonObject,
    path: FieldPath,
    tools: OfferedTools,
    losses: DroppedFields,
    *,
    namespace: str = "",
    about: str = "",
) -> None:
    """A function or a custom tool, in a namespace or not."""
    name = nonempty_string(tool, "name", path)
    kind = Kind(tool["type"])
    losses.leave(tool, TOOL_FIELDS[kind.value], path)
    if kind is Kind.CUSTOM:
        function = _custom(tool, path)
    else:
        function = _described(tool, path) | _parameters(tool, path)
        if tool.get("strict") is not None:
            function["strict"] = flag(tool, "strict", path)
    if about:
        description = f"{as_text(function.get('description'))}\n\n{namespace}: {about}"
        function = {**function, "description": description.strip()}
    _add(Called(kind, name, namespace), function, path, tools, losses)


def _add(called: Called, function: JsonObject, path: FieldPath, tools: OfferedTools, losses: DroppedFields) -> None:
    if not tools.offer(called, function):
        losses.lost(f"{path.kind} offered twice", "the first of that name counts")


def _described(tool: JsonObject, path: FieldPath) -> JsonObject:
    if tool.get("description") is None:
        return {}
    return {"description": optional(tool, "description", path)}


def _parameters(tool: JsonObject, path: FieldPath) -> JsonObject:
    if tool.get("parameters") is None:
        return {"parameters": {"type": "object", "properties": {}}}
    return {"parameters": mapping(tool, "parameters", path)}


def _custom(tool: JsonObject, path: FieldPath) -> JsonObject:
    """A tool whose input is free text: a function with one string. Its grammar is told to the model in words."""
    parts = [optional(tool, "description", path), f"Write the whole text as the string `{INPUT}`."]
    form = mapping(tool, "format", path, needed=False)
    if form.get("type") == "grammar":
        here = path.field("format")
        syntax = nonempty_string(form, "syntax", here)
        parts.append(f"The text must match this grammar ({syntax}):\n{nonempty_string(form, 'definition', here)}")
    schema: JsonObject = {
        "type": "object",
        "properties": {INPUT: {"type": "string"}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return {"description": "\n\n".join(filter(None, parts)), "parameters": schema}


def choice_fields(body: JsonObject, tools: OfferedTools, losses: DroppedFields) -> JsonObject:
    """`tools`, `tool_choice` and `parallel_tool_calls` of the chat request; no choice where the client offers nothing.

    Raises BadRequest for a choice that cannot be kept.
    """
    choice = body.get("tool_choice")
    if not tools.functions:
        for name in ("tool_choice", "parallel_tool_calls"):
            if body.get(name) is not None:
                losses.lost(name, _NO_TOOLS)
        _check_kind(choice)
        if isinstance(choice, dict):
            kind = nonempty_string(choice, "type", _PLACE)
            if tools.gone or kind not in _NAMING:
                _check_object(choice, tools)
        return {}
    fields: JsonObject = {"tools": tools.functions}
    _check_kind(choice)
    if isinstance(choice, dict):
        fields |= _object_choice(choice, tools, losses)
    elif choice is not None:
        fields["tool_choice"] = choice
    if body.get("parallel_tool_calls") is not None:
        fields["parallel_tool_calls"] = flag(body, "parallel_tool_calls", BODY)
    return fields


def _check_kind(choice: Json) -> None:
    """BadRequest for what is no choice at all."""
    if choice is None or isinstance(choice, dict):
        return
    if not isinstance(choice, str) or choice not in _CHOICES:
        raise _PLACE.bad(f"must be one of {', '.join(_CHOICES)}, or an object")


def _object_choice(choice: JsonObject, tools: OfferedTools, losses: DroppedFields) -> JsonObject:
    kind = nonempty_string(choice, "type", _PLACE)
    if kind == "allowed_tools":
        return _allowed(choice, tools, losses)
    _check_object(choice, tools)
    losses.leave(choice, {"type": "", "name": "", "namespace": ""}, _PLACE)
    return {"tool_choice": {"type": "function", "function": {"name": _named(choice, tools, _PLACE)}}}


def _check_object(choice: JsonObject, tools: OfferedTools) -> None:
    """BadRequest for a tool of OpenAI's own: it is not offered, so it cannot be chosen."""
    kind = nonempty_string(choice, "type", _PLACE)
    if kind == "allowed_tools":
        return
    if kind in ("function", "custom", SEARCH):
        if not tools.functions:
            raise _PLACE.bad("there are no tools; offer the one that is to be called")
        return
    raise _PLACE.bad(f"the tool of type {shown(kind)} is not offered to the model here; choose another one")


def _named(choice: JsonObject, tools: OfferedTools, path: FieldPath) -> str:
    """The server's name of a tool that the client names."""
    name = SEARCH
    if choice.get("type") != SEARCH:
        name = nonempty_string(choice, "name", path)
    namespace = optional(choice, "namespace", path)
    server_name = tools.name_of(name, namespace)
    if server_name in tools.by_name:
        return server_name
    alike = [offered_name for offered_name, called in tools.by_name.items() if called.name == name]
    if len(alike) == 1 and not namespace:
        return alike[0]
    raise path.field("name").bad(f"{shown(name)} is none of the tools; name one of them")


def _allowed(choice: JsonObject, tools: OfferedTools, losses: DroppedFields) -> JsonObject:
    """Only the tools that are allowed are offered: no chat server knows a choice among some."""
    mode = nonempty_string(choice, "mode", _PLACE)
    if mode not in ("auto", "required"):
        raise _PLACE.field("mode").bad(f"{shown(mode)} is none of auto, required")
    here = _PLACE.field("tools")
    names: list[str] = []
    for index, value in enumerate(listing(choice, "tools", _PLACE)):
        allowed = entry(value, here.at(index))
        kind = nonempty_string(allowed, "type", here.at(index))
        if kind in tools.gone:
            losses.lost(f"{here.kind} of type {shown(kind)}", "the tool is not offered to the model here")
        elif kind == "namespace":
            names += _of_namespace(nonempty_string(allowed, "name", here.at(index)), tools.by_name)
        else:
            names.append(_named(allowed, tools, here.at(index)))
    functions = tools.only(names)
    if not functions:
        raise here.bad("none of them is a tool that the model is offered")
    return {"tools": functions, "tool_choice": mode}


def _of_namespace(namespace: str, by_name: Mapping[str, Called]) -> list[str]:
    return [name for name, called in by_name.items() if called.namespace == namespace]


def tool_names(tools: Json) -> list[str]:
    """The names of tools that a search found, for the model; those of a namespace with it."""
    names: list[str] = []
    for tool in objects_in(as_list(tools)):
        name = as_text(tool.get("name"))
        inner = [as_text(each.get("name")) for each in objects_in(tool.get("tools"))]
        names += [joined_name(name, each) for each in inner if each] or ([name] if name else [])
    return names
