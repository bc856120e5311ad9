"""Healing of the offered tools for templates and grammars (F84)."""

from __future__ import annotations

from proxy.healing.conversation import Change, messages_of, on_functions, replaced, with_function, with_value
from proxy.json import Json, JsonObject, as_list, as_object, as_text, without
from proxy.notations.schema import resolve
from proxy.notations.toolset import short_name

# Maximum number of schemas read in one tool.
_SCHEMAS_OF_A_TOOL = 2_000
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_INSIDE = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contains", "unevaluatedItems"),
    *("additionalItems", "not", "if", "then", "else"),
)
_DEFINITIONS = ("$defs", "definitions")


def _on_tools(change: Change) -> Change:
    """Turn a change of a tool's function into a change of the body. The tool also gets its type."""

    def entry_of(entry: Json) -> Json:
        if not isinstance(entry, dict) or not as_object(entry.get("function")):
            return entry
        entry = with_function(entry, change)
        return entry if "type" in entry else {"type": "function", **entry}

    return lambda body: replaced(body, "tools", [*map(entry_of, as_list(body.get("tools")))])


@_on_tools
def tool_parameters(function: JsonObject) -> JsonObject:
    """Add empty parameters to a tool without any."""
    given = function.get("parameters")
    parameters = {} if given is None else given
    if not isinstance(parameters, dict):
        return function
    whole: JsonObject = {"type": "object", **parameters, "properties": as_object(parameters.get("properties"))}
    return with_value(function, "parameters", whole)


def no_tools(body: JsonObject) -> JsonObject:
    """Add an empty list of tools, for templates that read the list without checking that it exists."""
    return {**body, "tools": []} if body.get("tools") is None and messages_of(body) else body


@_on_tools
def tool_descriptions(function: JsonObject) -> JsonObject:
    """Replace a missing description by an empty one."""
    parameters = as_object(function.get("parameters"))
    properties = as_object(parameters.get("properties"))
    described: JsonObject = {name: _described(schema) for name, schema in properties.items()}
    if described != properties:
        function = {**function, "parameters": {**parameters, "properties": described}}
    return as_object(_described(function))


def _described(entry: Json) -> Json:
    if not isinstance(entry, dict) or isinstance(entry.get("description"), str):
        return entry
    return {**entry, "description": ""}


@_on_tools
def plain_schemas(function: JsonObject) -> JsonObject:
    """Write schemas with one type each, without references and without `true` or `false`."""
    root = function.get("parameters")
    if not isinstance(root, dict):
        return function
    remaining = _SCHEMAS_OF_A_TOOL

    def plain(schema: Json, references: tuple[str, ...]) -> Json:
        """Return a plain schema. It is empty if the value may be anything, or if the schema contains itself."""
        nonlocal remaining
        remaining -= 1
        if not isinstance(schema, dict) or remaining < 0:
            return {}
        reference = as_text(schema.get("$ref"))
        if reference:
            if reference in references:
                return {}
            schema = {**as_object(resolve(reference, root)), **without(schema, "$ref")}
            references = (*references, reference)
        made: JsonObject = {}
        for key, value in _one_alternative(schema).items():
            if key in _LISTS:
                made[key] = [plain(inner, references) for inner in as_list(value)]
            elif key == "type" and isinstance(value, list):
                made[key] = next((kind for kind in value if kind != "null"), "null")
            elif key == "items" or (key in _INSIDE and isinstance(value, dict)):
                made[key] = plain(value, references)
            elif key in _BY_NAME and isinstance(value, dict):
                made[key] = {name: plain(inner, references) for name, inner in value.items()}
            elif key not in _DEFINITIONS:
                made[key] = value
        return made

    return with_value(function, "parameters", plain(root, ()))


def _one_alternative(schema: JsonObject) -> JsonObject:
    """Replace a choice between one schema and null by that schema."""
    for key in ("anyOf", "oneOf"):
        alternatives = as_list(schema.get(key))
        others = [inner for inner in alternatives if as_object(inner).get("type") != "null"]
        if len(others) == 1 and len(alternatives) == 2:
            return {**as_object(others[0]), **without(schema, key)}
    return schema


def _renamed(function: JsonObject) -> JsonObject:
    name = as_text(function.get("name"))
    short = short_name(name)
    return function if short == name else {**function, "name": short}


_renamed_tools = _on_tools(_renamed)
_renamed_calls = on_functions(_renamed)


def tool_names(body: JsonObject) -> JsonObject:
    """Shorten the names of the tools, also in the calls of the history and in the tool choice."""
    body = _renamed_calls(_renamed_tools(body))
    choice = as_object(body.get("tool_choice"))
    new = with_function(choice, _renamed)
    return body if new is choice else {**body, "tool_choice": new}
