"""The tools and the tool choice of a Responses request, as functions.

Source: OpenAI's API reference, "Create a model response": `tools`, `tool_choice`. A function in a namespace is sent
upstream under a joined name, and returned under its own name with the namespace, as Codex expects:

    multi_agent_v1 / close_agent   ->   multi_agent_v1__close_agent
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from msgspec import Struct

from proxy.dialects.translation import Lost, Name, Object, bad, kind_of, present, shown
from proxy.json import Json, JsonObject, as_object, as_text, objects_in
from proxy.notations.toolset import short_name, with_digest

SEARCH = "tool_search"
# The only parameter of the function that replaces a custom tool.
INPUT = "input"
# Tools that the client runs, with schemas that only OpenAI's models know.
_CLIENT_TOOLS = frozenset(("apply_patch", "computer", "computer_use_preview", "local_shell", "shell"))


class Kind(Enum):
    """The kinds of tools, by how this dialect calls and answers them."""

    FUNCTION = "function"
    CUSTOM = "custom"
    SEARCH = "tool_search"


@dataclass(frozen=True, slots=True)
class Called:
    """A tool as the client knows it."""

    kind: Kind
    name: str
    namespace: str = ""


class Grammar(Struct):
    syntax: Name
    definition: Name


class Function(Struct):
    name: Name
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None


class Custom(Struct):
    name: Name
    description: str | None = None
    format: Object | None = None


class Search(Struct):
    execution: str
    description: str | None = None
    parameters: Object | None = None


class Namespace(Struct):
    name: Name
    tools: list[Object]
    description: str | None = None


class NamedTool(Struct):
    name: Name
    namespace: str | None = None


class AllowedTools(Struct):
    mode: Literal["auto", "required"]
    tools: list[Object]


@dataclass(slots=True)
class OfferedTools:
    """The tools of a request, as functions and by their upstream names."""

    functions: list[Json] = field(default_factory=list)
    by_name: dict[str, Called] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def called(self, name: str) -> Called:
        """Return the tool that the server calls by this name; a name that was not offered is a function (F40).

        Models omit namespaces. If only one tool has the name, it is the one meant.
        """
        alike = [called for called in self.by_name.values() if called.name == name]
        return self.by_name.get(name) or (alike[0] if len(alike) == 1 else Called(Kind.FUNCTION, name))

    def name_of(self, name: str, namespace: str | None) -> str:
        """Return the upstream name of a tool, offered or not."""
        return self._names.get((namespace or "", name)) or joined_name(namespace or "", name)

    def offer_all(self, lists: Iterable[tuple[list[Object], str]], lost: Lost) -> None:
        """Offer the tools of all lists; each list comes with its place."""
        for listed, where in lists:
            for at, value in enumerate(listed):
                self._offer(value, f"{where}.{at}", lost)

    def _offer(self, value: Object, where: str, lost: Lost, space: Namespace | None = None) -> None:
        kind = kind_of(value, where)
        function: JsonObject
        if kind == "custom":
            custom = lost.read(value, Custom, where)
            form = custom.format or {}
            grammar = lost.read(form, Grammar, f"{where}.format") if form.get("type") == "grammar" else None
            name, function = custom.name, _custom(custom.description, grammar)
        elif kind == "function":
            plain = lost.read(value, Function, where)
            name, function = plain.name, {**_function(plain), **present({"strict": plain.strict})}
        elif space is not None:
            raise bad(f"{where}.type", f"{shown(kind)} is not allowed in a namespace")
        elif kind == "namespace":
            space = lost.read(value, Namespace, where)
            for at, inner in enumerate(space.tools):
                self._offer(inner, f"{where}.tools.{at}", lost, space)
            return
        elif kind == SEARCH and value.get("execution") == "client":
            name, function = SEARCH, _function(lost.read(value, Search, where))
        elif kind in _CLIENT_TOOLS:
            words = "offer a function or a custom tool for it"
            raise bad(where, f"only OpenAI's models know the schema of {shown(kind)}; {words}")
        else:
            lost.server_only(where, f"the tool of type {shown(kind)}", shown(kind))
            return
        if space is not None and space.description:
            about = f"{as_text(function.get('description'))}\n\n{space.name}: {space.description}"
            function = {**function, "description": about.strip()}
        called = Called(Kind(kind), name, "" if space is None else space.name)
        key = (called.namespace, name)
        if key in self._names:
            lost.add(f"{where} offered twice", "the first one with that name is used")
            return
        server_name = joined_name(*key)
        if server_name in self.by_name:
            server_name = with_digest(server_name, "\0".join(key))
        self._names[key] = server_name
        self.by_name[server_name] = called
        self.functions.append({"type": "function", "function": {"name": server_name, **function}})

    def choice_fields(self, choice: str | Object | None, parallel: bool | None, lost: Lost) -> JsonObject:
        """Return `tools`, `tool_choice` and `parallel_tool_calls`. Raises BadRequest for a choice that is not offered.

        Chat servers do not support a choice among some tools, so only the allowed tools are offered.
        """
        where = "tool_choice"
        if not self.functions:
            for name, value in ((where, choice), ("parallel_tool_calls", parallel)):
                if value is not None:
                    lost.add(name, "there are no tools to choose from")
            return {}
        fields: JsonObject = {"tools": self.functions}
        if isinstance(choice, dict) and kind_of(choice, where) == "allowed_tools":
            allowed = lost.read(choice, AllowedTools, where)
            names = {
                name for at, each in enumerate(allowed.tools) for name in self._named(each, f"{where}.tools.{at}", lost)
            }
            tools = [each for each in self.functions if as_object(as_object(each)["function"])["name"] in names]
            if not tools:
                raise bad("tool_choice.tools", "none of them is offered to the model")
            fields = {"tools": tools, where: allowed.mode}
        elif isinstance(choice, dict):
            named = self._named(choice, where, lost)
            if len(named) != 1:
                raise bad(where, f"no tool of type {shown(choice['type'])} is offered to the model; choose another one")
            fields[where] = {"type": "function", "function": {"name": named[0]}}
        elif choice is not None:
            fields[where] = choice
        if parallel is not None:
            fields["parallel_tool_calls"] = parallel
        return fields

    def _named(self, choice: Object, where: str, lost: Lost) -> list[str]:
        """Return the upstream names of the tools in a choice, without dropped ones."""
        kind = kind_of(choice, where)
        if kind not in ("function", "custom", "namespace", SEARCH):
            lost.add(f"{where} of type {shown(kind)}", "the tool is not offered to the model")
            return []
        tool = NamedTool(SEARCH) if kind == SEARCH else lost.read(choice, NamedTool, where)
        if kind == "namespace":
            return [server_name for server_name, called in self.by_name.items() if called.namespace == tool.name]
        server_name = self.name_of(tool.name, tool.namespace)
        if server_name in self.by_name:
            return [server_name]
        alike = [key for key, called in self.by_name.items() if called.name == tool.name]
        if len(alike) != 1 or tool.namespace:
            raise bad(f"{where}.name", f"{shown(tool.name)} is not one of the tools; name one of them")
        return alike


def joined_name(namespace: str, name: str) -> str:
    """Return the upstream name of a tool in a namespace, in the characters of an id. Changed names get a digest."""
    return short_name(f"{namespace}__{name}", f"{namespace}\0{name}") if namespace else name


def _function(tool: Function | Search) -> JsonObject:
    parameters: Object = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
    return {**present({"description": tool.description}), "parameters": parameters}


def _custom(description: str | None, grammar: Grammar | None) -> JsonObject:
    """Return a free-text tool as a function with one string. Its grammar goes into the description."""
    parts = [description, f"Write the whole text as the string `{INPUT}`."]
    if grammar is not None:
        parts.append(f"The text must match this grammar ({grammar.syntax}):\n{grammar.definition}")
    schema: JsonObject = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}
    return {"description": "\n\n".join(filter(None, parts)), "parameters": {**schema, "additionalProperties": False}}


def tool_names(tools: list[Object]) -> str:
    """Return the names of the tools that a search found, with their namespaces, as text for the model."""
    names: list[str] = []
    for tool in tools:
        name = as_text(tool.get("name"))
        inner = [as_text(each.get("name")) for each in objects_in(tool.get("tools"))]
        names += [joined_name(name, each) for each in inner if each] or filter(None, [name])
    return ", ".join(names)
