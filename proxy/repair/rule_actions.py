"""The rules for tools: what those of rules.yaml do to a call.

`apply_rule` is pure and idempotent: it never changes what it is given, gives back the very same objects where nothing
is to be done, and to apply a rule twice is to apply it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from html import unescape
from html.entities import html5
from itertools import islice
from typing import TypeAlias

from proxy.codec.json_text import Json, JsonObject, load_json
from proxy.codec.literals import VerbatimNumber, dump, is_deep, read_literal
from proxy.repair.policy import Action, ToolRule
from proxy.tools.schema import same
from proxy.tools.schema_types import type_of
from proxy.tools.toolset import ToolSet

# Places in one call that a path names: `todos[]` names each item. Where there are more, the rule does nothing.
MAX_PLACES = 1000

# The step of a path from a list to its items.
ITEMS = "[]"

_RENAMES_TOOL = frozenset(("rename_tool", "convert_tool_to_write"))
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_MAX_TAG = 256
_BLANKS = " \t\r\n"
_TAG = re.compile(
    r"</?(?:[\w-]{1,32}:)?(?:parameter|function|function_calls?|invoke|tool_calls?|arg_key|arg_value|arguments)"
    r"(?:[=\s][^<>]{0,200})?/?>|<\|(?:tool|function)_\w{1,40}\|>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

# What stands at a place: nothing, or one value.
_Found: TypeAlias = tuple[Json, ...]


def applies_to_model(rule: ToolRule, model: str) -> bool:
    """True if the rule is for `model`: it names none, or one of its globs matches."""
    return not rule.models or any(fnmatchcase(model, glob) for glob in rule.models)


def rules_for(rules: Iterable[ToolRule], tool_name: str, *, case_sensitive: bool) -> tuple[ToolRule, ...]:
    """The rules for the calls of one tool, in their order."""
    if case_sensitive:
        return tuple(rule for rule in rules if _is_named(tool_name, rule.tool))
    folded = tool_name.casefold()
    return tuple(rule for rule in rules if _is_named(folded, rule.tool.casefold()))


def _is_named(name: str, glob: str) -> bool:
    return name == glob or (any(mark in glob for mark in "*?[") and fnmatchcase(name, glob))


def touched(rules: Iterable[ToolRule]) -> frozenset[str]:
    """The names of the arguments that the rules may change, add or remove, or rename to."""
    changing = [rule for rule in rules if rule.action not in _RENAMES_TOOL]
    renamed = (rule.to for rule in changing if rule.action == "rename_parameter" and len(rule.parameter) == 1)
    return frozenset((*(rule.parameter[0] for rule in changing), *renamed))


def renames(rules: Iterable[ToolRule]) -> bool:
    """True if one of the rules may change the tool's name."""
    return any(rule.action in _RENAMES_TOOL for rule in rules)


def apply_rule(rule: ToolRule, name: str, values: JsonObject, tools: ToolSet) -> tuple[str, JsonObject]:
    """The tool's name and the arguments of a call after the rule; the same objects where it does nothing.

    Whether the rule is for this tool and this model is asked before. It does nothing where its path names over
    `MAX_PLACES` places.
    """
    places = tuple(islice(_places(values, rule.parameter), MAX_PLACES + 1))
    if len(places) > MAX_PLACES or not any(_holds(rule, found) for found in places):
        return name, values
    if rule.action in _RENAMES_TOOL:
        return _new_name(rule, name, values, tools), values
    changed = _changed(rule, values, rule.parameter)
    return name, changed if isinstance(changed, dict) else values


def _new_name(rule: ToolRule, name: str, values: JsonObject, tools: ToolSet) -> str:
    wanted = rule.to
    if rule.action == "convert_tool_to_write":
        # An empty content would empty the file.
        if name.casefold() != "read" or not values.get("content"):
            return name
        wanted = "write"
    tool = tools.resolve(wanted)
    return name if tool is None or tool.name == name else tool.name


def _places(node: Json, path: tuple[str, ...]) -> Iterator[_Found]:
    """What stands at each place that the path names; at a key that an object lacks, nothing."""
    step, rest = path[0], path[1:]
    if step == ITEMS:
        for item in node if isinstance(node, list) else ():
            yield from _places(item, rest) if rest else [(item,)]
    elif isinstance(node, dict) and not rest:
        yield (node[step],) if step in node else ()
    elif isinstance(node, dict) and step in node:
        yield from _places(node[step], rest)


def _holds(rule: ToolRule, found: _Found) -> bool:
    """True if the rule's condition holds for what stands at a place."""
    if not found:
        return rule.condition in ("missing", "missing_or_empty")
    here = found[0]
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
        case "is_type":
            return type_of(here) in ((rule.type, "integer") if rule.type == "number" else (rule.type,))


def _changed(rule: ToolRule, node: Json, path: tuple[str, ...]) -> Json:
    """The node with the rule applied at each place that the path names: a copy, or itself if nothing changes."""
    step, rest = path[0], path[1:]
    if step == ITEMS:
        return _changed_items(rule, node, rest) if isinstance(node, list) else node
    if not isinstance(node, dict):
        return node
    if not rest:
        return _renamed(rule, node, step) if rule.action == "rename_parameter" else _changed_key(rule, node, step)
    inner = _changed(rule, node[step], rest) if step in node else None
    return node if step not in node or inner is node[step] else {**node, step: inner}


def _changed_items(rule: ToolRule, items: list[Json], rest: tuple[str, ...]) -> list[Json]:
    changed: list[Json] = []
    for item in items:
        changed += [_changed(rule, item, rest)] if rest else _after(rule, (item,))
    kept = len(changed) == len(items) and all(new is old for new, old in zip(changed, items, strict=True))
    return items if kept else changed


def _changed_key(rule: ToolRule, node: JsonObject, key: str) -> JsonObject:
    found: _Found = (node[key],) if key in node else ()
    after = _after(rule, found)
    if after is found:
        return node
    return {**node, key: after[0]} if after else {name: item for name, item in node.items() if name != key}


def _renamed(rule: ToolRule, node: JsonObject, key: str) -> JsonObject:
    """The object with the key called otherwise, in its place."""
    if key not in node or rule.to in node or not _holds(rule, (node[key],)):
        return node
    return {rule.to if name == key else name: item for name, item in node.items()}


def _after(rule: ToolRule, found: _Found) -> _Found:
    """What stands at a place after the rule; the same object if nothing changes."""
    if not _holds(rule, found):
        return found
    if rule.action == "set_default":
        return found if found and same(found[0], rule.default[0]) else (deepcopy(rule.default[0]),)
    if not found:
        return found
    if rule.action == "remove_parameter":
        return ()
    changed = _CHANGES[rule.action](rule, found[0])
    return found if changed is found[0] else (changed,)


def _parse_array(rule: ToolRule, here: Json) -> Json:
    return _parsed(rule, here, list)


def _parse_object(rule: ToolRule, here: Json) -> Json:
    return _parsed(rule, here, dict)


def _parsed(rule: ToolRule, here: Json, kind: type) -> Json:
    # The fallback may itself be a text.
    if not isinstance(here, str) or here in rule.fallback:
        return here
    read = _read(here)
    if isinstance(read, kind):
        return read
    return deepcopy(rule.fallback[0]) if rule.fallback else here


def _read(text: str) -> Json:
    """The value that a text stands for, in JSON or nearly so; None if for none, or if it is nested too deep."""
    for read in (load_json, read_literal):
        try:
            found = read(text)
        except ValueError:
            continue
        return None if is_deep(found) else found
    return None


def _to_boolean(_: ToolRule, here: Json) -> Json:
    return _TRUTHS.get(here.lower(), here) if isinstance(here, str) else here


def _wrap(_: ToolRule, here: Json) -> Json:
    return here if isinstance(here, list) else [here]


def _to_string(_: ToolRule, here: Json) -> Json:
    if isinstance(here, VerbatimNumber):
        return here.text
    return here if isinstance(here, str) or is_deep(here) else dump(here)


def _strip_markup(_: ToolRule, here: Json) -> Json:
    """Remove tags of calls, and the blanks outside of them, from both ends of a string."""
    if not isinstance(here, str):
        return here
    start, end = 0, len(here)
    while (after := _tag_end(here, start)) > start:
        start = after
    while (before := _tag_start(here, start, end)) < end:
        end = before
    return here if (start, end) == (0, len(here)) else here[start:end]


def _tag_end(text: str, start: int) -> int:
    """Where the tag ends that the text begins with from `start` on; `start` if there is none."""
    at = start
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    found = _TAG.match(text, at)
    return found.end() if found else start


def _tag_start(text: str, start: int, end: int) -> int:
    """Where the tag begins that the text ends with before `end`; `end` if there is none."""
    at = end
    while at > start and text[at - 1] in _BLANKS:
        at -= 1
    opener = text.rfind("<", max(start, at - _MAX_TAG), at)
    return opener if opener >= 0 and _TAG.fullmatch(text, opener, at) else end


def _unescape_html(_: ToolRule, here: Json) -> Json:
    """Decode entities, if none are left then: `&amp;lt;` may be meant so, and stays."""
    if not isinstance(here, str):
        return here
    once = _decoded(here)
    return once if once != here and _decoded(once) == once else here


def _decoded(text: str) -> str:
    # `unescape` alone would decode `&copy=1` too.
    return _ENTITY.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    entity = found.group()
    return unescape(entity) if entity[1] == "#" or entity[1:] in html5 else entity


_CHANGES: Mapping[Action, Callable[[ToolRule, Json], Json]] = {
    "parse_json_array": _parse_array,
    "parse_json_object": _parse_object,
    "convert_string_to_boolean": _to_boolean,
    "wrap_in_array": _wrap,
    "to_string": _to_string,
    "strip_markup": _strip_markup,
    "unescape_html": _unescape_html,
}
