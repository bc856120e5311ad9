"""The engine's policy for a model's calls: the rules of the section `tools` in rules.yaml, and how they change a call.

`apply_rule` is pure and idempotent: it never changes its arguments, and returns the same objects where a rule does
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from html import unescape
from html.entities import html5
from itertools import islice
from typing import Any, Literal, TypeAlias

from proxy.json import Json, JsonObject, is_deep
from proxy.notations.literals import literal
from proxy.notations.toolset import ToolSet
from proxy.notations.validator import same

IdStyle = Literal["openai", "kimi", "mistral"]
Condition = Literal["is_string", "missing", "missing_or_empty", "exists", "invalid_enum", "matches"]
Action = Literal[
    "parse_json_array",
    "parse_json_object",
    "convert_string_to_boolean",
    "set_default",
    "remove_parameter",
    "convert_tool_to_write",
    "rename_parameter",
    "rename_tool",
    "unescape_html",
]
# Maximum number of places in one call that a path may match (`todos[]`: each item); beyond it, the rule does nothing.
MAX_PLACES = 1000

# The path step from a list to its items.
ITEMS = "[]"

_RENAMES_TOOL = frozenset(("rename_tool", "convert_tool_to_write"))
TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

# A place in the arguments: an object and a key, or a list and an index.
_Place: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One entry of `tools.<name>.fixes` in rules.yaml.

    `name` is the name in audit records; it defaults to the action. `tool` and `models` are globs on names; without
    `models`, the rule is for all models. `parameter` is the path that the rule checks: `("a", "b", "[]")` for `a.b[]`.
    `default` and `fallback` are one-tuples of the value, or empty if the file gives none. `valid` are the values of an
    enum, `pattern` is a glob on text, `to` the new name of a tool or of a path's last key. Loading the file checks that
    a rule has the fields that its condition and its action need.
    """

    name: str
    tool: str
    parameter: tuple[str, ...]
    condition: Condition
    action: Action
    models: tuple[str, ...] = ()
    default: tuple[Json, ...] = ()
    fallback: tuple[Json, ...] = ()
    valid: tuple[Json, ...] = ()
    pattern: str = ""
    to: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules for one model's calls.

    `rules` act whenever their condition holds. `fallback_rules`, the built-in ones, act only on calls that violate the
    offered schema, and only if they reduce the violations. `case_sensitive`: tool names in rules must match exactly.
    `infer_from_legacy_table`: the key table of earlier systems may identify the tool of a call without a name.
    `disabled_formats` are the formats in which calls are not recognized.
    """

    rules: tuple[ToolRule, ...] = ()
    fallback_rules: tuple[ToolRule, ...] = ()
    case_sensitive: bool = False
    ids: IdStyle = "openai"
    infer_from_legacy_table: bool = False
    disabled_formats: frozenset[str] = frozenset()


def applies_to_model(rule: ToolRule, model: str) -> bool:
    """Return whether the rule applies to `model`: it names no models, or one of its globs matches."""
    return not rule.models or any(fnmatchcase(model, glob) for glob in rule.models)


def rules_for(rules: Iterable[ToolRule], tool_name: str, *, case_sensitive: bool) -> tuple[ToolRule, ...]:
    """Return the rules for one tool's calls, in order."""
    spelled = str if case_sensitive else str.casefold
    name = spelled(tool_name)
    return tuple(rule for rule in rules if name == spelled(rule.tool) or fnmatchcase(name, spelled(rule.tool)))


def touched(rules: Iterable[ToolRule]) -> frozenset[str]:
    """Return the names of the arguments that the rules may change, add, remove or rename to."""
    found: set[str] = set()
    for rule in rules:
        if rule.action in _RENAMES_TOOL:
            continue
        found.add(rule.parameter[0])
        # A longer path renames a key inside an argument.
        if rule.action == "rename_parameter" and len(rule.parameter) == 1:
            found.add(rule.to)
    return frozenset(found)


def renames(rules: Iterable[ToolRule]) -> bool:
    """Return whether one of the rules may change the tool's name."""
    return any(rule.action in _RENAMES_TOOL for rule in rules)


def apply_rule(rule: ToolRule, name: str, values: JsonObject, tools: ToolSet) -> tuple[str, JsonObject]:
    """Return the tool's name and the arguments of a call after the rule; the same objects if nothing changes.

    The caller has checked that the rule is for this tool and model.
    """
    places = [*islice(_places(values, rule.parameter), MAX_PLACES + 1)]
    if len(places) > MAX_PLACES or not any(_holds(rule, *place) for place in places):
        return name, values
    if rule.action in _RENAMES_TOOL:
        return _new_name(rule, name, values, tools), values
    changed = deepcopy(values)
    # The last place first, because items may be removed.
    for place in reversed([*_places(changed, rule.parameter)]):
        if _holds(rule, *place):
            _act(rule, *place)
    return name, values if same(changed, values) else changed


def _new_name(rule: ToolRule, name: str, values: JsonObject, tools: ToolSet) -> str:
    wanted = rule.to
    if rule.action == "convert_tool_to_write":
        # An empty content would empty the file.
        if name.casefold() != "read" or not values.get("content"):
            return name
        wanted = "write"
    tool = tools.resolve(wanted)
    return name if tool is None else tool.name


def _places(node: Json, path: tuple[str, ...]) -> Iterator[_Place]:
    """Yield each place that the path matches, even if the object there lacks the last key.

    `("todos", "[]", "content")` names the content of each item of `{"todos": [{"content": "a"}, {}]}`.
    """
    keys: Iterable[Any] = ()
    if path[0] == ITEMS and isinstance(node, list):
        keys = range(len(node))
    elif path[0] != ITEMS and isinstance(node, dict):
        keys = (path[0],)
    for key in keys:
        if not path[1:]:
            yield node, key
        elif _exists(node, key):
            yield from _places(node[key], path[1:])  # type: ignore[index]


def _exists(container: Any, key: Any) -> bool:
    return isinstance(container, list) or key in container


def _holds(rule: ToolRule, container: Any, key: Any) -> bool:
    """Return whether a place satisfies the rule's condition."""
    if not _exists(container, key):
        return rule.condition in ("missing", "missing_or_empty")
    here = container[key]
    match rule.condition:
        case "missing":
            return False
        case "missing_or_empty":
            return here is None or (isinstance(here, str | list | dict) and not here)
        case "exists":
            return True
        case "is_string":
            return isinstance(here, str)
        case "invalid_enum":
            return not any(same(here, valid) for valid in rule.valid)
        case "matches":
            return isinstance(here, str) and fnmatchcase(here, rule.pattern)


def _act(rule: ToolRule, container: Any, key: Any) -> None:
    """Change the value at a place by a rule that does not rename the tool."""
    if rule.action == "set_default":
        container[key] = deepcopy(rule.default[0])
    elif not _exists(container, key):
        return
    elif rule.action == "remove_parameter":
        del container[key]
    elif rule.action != "rename_parameter":
        container[key] = _converted(rule, container[key])
    elif rule.to not in container:
        members = [*container.items()]
        container.clear()
        container.update((rule.to if name == key else name, value) for name, value in members)


def _converted(rule: ToolRule, text: Json) -> Json:
    """Return the array, object, boolean or decoded text that a string represents.

    If a string cannot be converted, return the rule's fallback, or the string itself.
    """
    if not isinstance(text, str):
        return text
    if rule.action == "unescape_html":
        once = _decoded(text)
        # `&amp;lt;` may be intentional, so it stays.
        return text if once == text or _decoded(once) != once else once
    if rule.action == "convert_string_to_boolean":
        return TRUTHS.get(text.lower(), text)
    # The fallback may itself be a string.
    if text in rule.fallback:
        return text
    read = literal(text)
    if isinstance(read, list if rule.action == "parse_json_array" else dict) and not is_deep(read):
        return read
    return deepcopy(rule.fallback[0]) if rule.fallback else text


def _decoded(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        entity = found.group()
        # `unescape` alone would decode `&copy=1` too.
        return unescape(entity) if entity[1] == "#" or entity[1:] in html5 else entity

    return _ENTITY.sub(character, text)
