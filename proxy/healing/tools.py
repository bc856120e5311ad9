"""The offered tools as templates and grammars can read them (F84)."""

from __future__ import annotations

from collections.abc import Callable

from proxy.codec.json_access import as_list, as_object, as_text
from proxy.codec.json_text import Json, JsonObject
from proxy.healing.conversation import function_of, on_calls, replaced
from proxy.tools.short_names import short_name

# Schemas that are looked at in one tool.
_SCHEMAS_OF_A_TOOL = 2_000
_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_SCHEMAS_INSIDE = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contains", "unevaluatedItems"),
    *("additionalItems", "not", "if", "then", "else"),
)
_DEFINITIONS = ("$defs", "definitions")


def _on_functions(change: Callable[[JsonObject], JsonObject]) -> Callable[[JsonObject], JsonObject]:
    """A change of what a tool says of its function as one of the body."""

    def changed(body: JsonObject) -> JsonObject:
        return replaced(body, "tools", [_entry(entry) for entry in as_list(body.get("tools"))])

    def _entry(entry: Json) -> Json:
        if not isinstance(entry, dict):
            return entry
        function = entry.get("function")
        if not function:
            return entry
        if not isinstance(function, dict):
            return entry
        new = change(function)
        if new is not function:
            entry = {**entry, "function": new}
        if "type" not in entry:
            entry = {"type": "function", **entry}
        return entry

    return changed


def _with_parameters(function: JsonObject) -> JsonObject:
    parameters = function.get("parameters")
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, dict):
        return function
    if "type" in parameters and isinstance(parameters.get("properties"), dict):
        return function
    whole: JsonObject = {"type": "object", **parameters}
    if not isinstance(whole.get("properties"), dict):
        whole["properties"] = {}
    return {**function, "parameters": whole}


# A tool without parameters has none of them, and says so.
complete_parameters = _on_functions(_with_parameters)


def _with_descriptions(function: JsonObject) -> JsonObject:
    parameters = as_object(function.get("parameters"))
    properties = as_object(parameters.get("properties"))
    described: JsonObject = {}
    for name, schema in properties.items():
        described[name] = schema
        if isinstance(schema, dict) and not isinstance(schema.get("description"), str):
            described[name] = {**schema, "description": ""}
    if any(described[name] is not properties[name] for name in described):
        function = {**function, "parameters": {**parameters, "properties": described}}
    if not isinstance(function.get("description"), str):
        function = {**function, "description": ""}
    return function


# A description that is missing is empty.
complete_descriptions = _on_functions(_with_descriptions)


def _plain_function(function: JsonObject) -> JsonObject:
    parameters = function.get("parameters")
    if not isinstance(parameters, dict):
        return function
    plain = _Plain(parameters).schema(parameters, ())
    if plain == parameters:
        return function
    return {**function, "parameters": plain}


# One type a place, no references, no schema that is true or false.
plain_schemas = _on_functions(_plain_function)


class _Plain:
    """The schemas within one tool's parameters in plain words; so many that no chain of references is endless."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._remaining = _SCHEMAS_OF_A_TOOL

    def schema(self, schema: Json, references: tuple[str, ...]) -> Json:
        """One schema; `references` are those that lead to it. What may be anything is the empty one."""
        self._remaining -= 1
        if not isinstance(schema, dict) or self._remaining < 0:
            return {}
        reference = as_text(schema.get("$ref"))
        if reference:
            if reference in references:
                return {}  # it holds itself
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**as_object(self._referred(reference)), **beside}
            references = (*references, reference)
        plain: JsonObject = {}
        for key, value in _one_alternative(schema).items():
            if key not in _DEFINITIONS:
                plain[key] = self._member(key, value, references)
        return plain

    def _member(self, key: str, value: Json, references: tuple[str, ...]) -> Json:
        """The value of one key of a schema."""
        if key in _ALTERNATIVES:
            return [self.schema(inner, references) for inner in as_list(value)]
        if key == "type" and isinstance(value, list):
            return next((kind for kind in value if kind != "null"), "null")
        if key == "items":
            return self.schema(value, references)
        if isinstance(value, dict):
            return self._object(key, value, references)
        return value

    def _object(self, key: str, value: JsonObject, references: tuple[str, ...]) -> Json:
        if key in _SCHEMAS_BY_NAME:
            return {name: self.schema(inner, references) for name, inner in value.items()}
        if key in _SCHEMAS_INSIDE:
            return self.schema(value, references)
        return value

    def _referred(self, reference: str) -> Json:
        """The schema that `#/$defs/place` means."""
        schema: Json = self._root
        for step in reference.removeprefix("#/").split("/"):
            schema = as_object(schema).get(step.replace("~1", "/").replace("~0", "~"))
        return schema


def _one_alternative(schema: JsonObject) -> JsonObject:
    """A schema whose only alternative is null as what else it is."""
    for key in ("anyOf", "oneOf"):
        others = [inner for inner in as_list(schema.get(key)) if as_object(inner).get("type") != "null"]
        if len(others) == 1 and len(as_list(schema.get(key))) == 2:
            beside = {name: value for name, value in schema.items() if name != key}
            return {**as_object(others[0]), **beside}
    return schema


def _renamed(function: JsonObject) -> JsonObject:
    name = as_text(function.get("name"))
    short = short_name(name)
    if short == name:
        return function
    return {**function, "name": short}


def _renamed_call(call: JsonObject) -> JsonObject:
    function = function_of(call)
    new = _renamed(function)
    if new is function:
        return call
    return {**call, "function": new}


def _chosen(body: JsonObject) -> JsonObject:
    choice = as_object(body.get("tool_choice"))
    function = as_object(choice.get("function"))
    new = _renamed(function)
    if new is function:
        return body
    return {**body, "tool_choice": {**choice, "function": new}}


_renamed_tools = _on_functions(_renamed)
_renamed_calls = on_calls(lambda body: _renamed_call)


def shorten_names(body: JsonObject) -> JsonObject:
    """Short names for the tools, the calls of the history, and the choice of one."""
    return _chosen(_renamed_calls(_renamed_tools(body)))
