"""The section `tools` of rules.yaml: YAML in, rules out, each checked for what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from yaml.nodes import Node

from proxy.codec.json_text import Json
from proxy.config.yaml_nodes import choice, mapping, node_error, optional, sequence, shown, text_of, value
from proxy.errors import RulesError
from proxy.repair.policy import Action, Condition, ToolRule
from proxy.repair.rule_actions import ITEMS

MAX_RULES = 1000
MAX_STEPS = 16
MAX_DESCRIPTION = 1000

CONDITIONS: tuple[Condition, ...] = get_args(Condition)
ACTIONS: tuple[Action, ...] = get_args(Action)
_FIELDS = ("name", "parameter", "condition", "action", "models", "description")
# The other fields: which a condition or an action needs, and which it may have.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "invalid_enum": ("valid_values",),
    "matches": ("pattern",),
    "set_default": ("default_value",),
    "rename_parameter": ("to",),
    "rename_tool": ("to",),
}
_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "parse_json_array": ("fallback_value",),
    "parse_json_object": ("fallback_value",),
}
_ALL_FIELDS = (*_FIELDS, *(name for table in (_NEEDED, _ALLOWED) for names in table.values() for name in names))
_STEP = re.compile(r"((?:\\[.\[\\]|[^.\[\\])+)((?:\[\])*)(\.|\Z)")
_ESCAPED = re.compile(r"\\(.)")


def parse_tools(node: Node) -> tuple[ToolRule, ...]:
    """The rules of the section `tools`, in the file's order; raises RulesError with the line."""
    rules: list[ToolRule] = []
    for tool, entry in mapping(node, "tools").items():
        what = f"tool {shown(tool)}"
        keys = mapping(entry, what, ("models", "fixes"))
        models = _globs(keys, what)

        def fix(item: Node, _: str, tool: str = tool, models: tuple[str, ...] = models) -> ToolRule:
            return _fix(item, f"a fix of {shown(tool)}", tool, models)

        rules += sequence(keys["fixes"], f"fixes of {what}", fix) if "fixes" in keys else ()
        if len(rules) > MAX_RULES:
            raise node_error(entry, f"there are over {MAX_RULES} rules for tools; remove some, or join them by globs")
    return tuple(rules)


def _fix(node: Node, what: str, tool: str, models: tuple[str, ...]) -> ToolRule:
    keys = mapping(node, what, tuple(dict.fromkeys(_ALL_FIELDS)))
    for needed in ("parameter", "condition", "action"):
        if needed not in keys:
            raise node_error(node, f"{what} has no {needed}; write {needed}: and what it is")
    condition = choice(keys["condition"], f"condition of {what}", CONDITIONS)
    action = choice(keys["action"], f"action of {what}", ACTIONS)
    _check_fields(node, keys, what, (condition, action))
    path = _path(keys["parameter"], f"parameter of {what}")
    return ToolRule(
        name=_name(keys, what) or action,
        tool=tool,
        parameter=path,
        condition=condition,
        action=action,
        models=_globs(keys, what) or models,
        default=_value_of(keys, "default_value", what),
        fallback=_value_of(keys, "fallback_value", what),
        valid=_valid(keys, what),
        pattern=optional(keys, "pattern", lambda node: text_of(node, f"pattern of {what}"), ""),
        to=optional(keys, "to", lambda node: _to(node, what, action, path), ""),
        description=_description(keys, what),
    )


def _check_fields(node: Node, keys: Mapping[str, Node], what: str, words: tuple[Condition, Action]) -> None:
    """Refuse fields that are missing, or that mean nothing to the condition and the action."""
    for word in words:
        for needed in _NEEDED.get(word, ()):
            if needed not in keys:
                raise node_error(node, f"{what} has no {needed}, which {word} needs; write {needed}: and what it is")
    allowed = {*_FIELDS, *(field for word in words for table in (_NEEDED, _ALLOWED) for field in table.get(word, ()))}
    for field, child in keys.items():
        if field not in allowed:
            raise node_error(child, f"{field} means nothing to {' and '.join(words)} in {what}; remove it")


def _path(node: Node, what: str) -> tuple[str, ...]:
    """The steps of a path: `a.b[].c` is `a`, `b`, `[]`, `c`; a backslash makes a dot or a bracket a part of a key."""
    text = text_of(node, what)
    steps: list[str] = []
    pos, more = 0, True
    while more:
        step = _STEP.match(text, pos)
        if step is None:
            raise _no_path(node, what)
        key = _ESCAPED.sub(r"\1", step.group(1))
        if key == ITEMS:
            raise _no_path(node, what)
        steps += [key, *[ITEMS] * (len(step.group(2)) // 2)]
        pos, more = step.end(), bool(step.group(3))
    if len(steps) > MAX_STEPS:
        raise node_error(node, f"{what} has over {MAX_STEPS} steps; shorten it")
    return tuple(steps)


def _no_path(node: Node, what: str) -> RulesError:
    shape = r"keys with dots between them, [] behind a list for its items, \. for a dot in a key"
    return node_error(node, f"{what} cannot be {shown(text_of(node, what))}; write {shape}")


def _to(node: Node, what: str, action: Action, path: tuple[str, ...]) -> str:
    if action == "rename_tool":
        return text_of(node, f"to of {what}")
    keys = _path(node, f"to of {what}")
    if len(keys) > 1 or path[-1] in (ITEMS, keys[0]):
        raise node_error(node, f"{what} cannot rename {shown('.'.join(path))} so; write one key in to, and another one")
    return keys[0]


def _name(keys: Mapping[str, Node], what: str) -> str:
    name = optional(keys, "name", lambda node: text_of(node, f"name of {what}"), "")
    if not name.isprintable():
        raise node_error(keys["name"], f"name of {what} holds control characters; write it on one line")
    return name


def _description(keys: Mapping[str, Node], what: str) -> str:
    if "description" not in keys:
        return ""
    return text_of(keys["description"], f"description of {what}", longest=MAX_DESCRIPTION, empty=True)


def _globs(keys: Mapping[str, Node], what: str) -> tuple[str, ...]:
    if "models" not in keys:
        return ()
    globs = sequence(keys["models"], f"models of {what}", text_of)
    if not globs:
        raise node_error(keys["models"], f"models of {what} is empty; name one, or remove the line for all models")
    return globs


def _value_of(keys: Mapping[str, Node], field: str, what: str) -> tuple[Json, ...]:
    if field not in keys:
        return ()
    return (value(keys[field], f"{field} of {what}"),)


def _valid(keys: Mapping[str, Node], what: str) -> tuple[Json, ...]:
    if "valid_values" not in keys:
        return ()
    values = sequence(keys["valid_values"], f"valid_values of {what}", value)
    if not values:
        raise node_error(keys["valid_values"], f"valid_values of {what} is empty; name the values that are valid")
    return values
