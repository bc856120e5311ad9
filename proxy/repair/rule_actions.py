"""The rules for tools: what those of rules.yaml do to a call.

`apply_rule` is pure and idempotent: it never changes what it is given, gives back the very same objects where nothing
is to be done, and to apply a rule twice is to apply it once.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from html import unescape
from html.entities import html5
from itertools import islice
from typing import TypeAlias

from proxy.codec.json_text import Json, JsonObject, VerbatimNumber, dump, is_deep
from proxy.notations.literals import literal
from proxy.repair.policy import Action, Condition, ToolRule
from proxy.tools.schema import type_of
from proxy.tools.toolset import ToolSet
from proxy.tools.validator import same

# Places in one call that a path names: `todos[]` names each item. Where there are more, the rule does nothing.
MAX_PLACES = 1000

# The step of a path from a list to its items.
ITEMS = "[]"

_RENAMES_TOOL = frozenset(("rename_tool", "convert_tool_to_write"))
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_MAX_TAG = 256
_GLOB_MARK = re.compile(r"[*?\[]")
_BLANKS = " \t\r\n"
_TAG = re.compile(
    r"</?(?:[\w-]{1,32}:)?(?:parameter|function|function_calls?|invoke|tool_calls?|arg_key|arg_value|arguments)"
    r"(?:[=\s][^<>]{0,200})?/?>|<\|(?:tool|function)_\w{1,40}\|>",
    re.IGNORECASE,
)
_BLANKS_AND_TAG = re.compile(rf"[{_BLANKS}]*+(?:{_TAG.pattern})", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

# What stands at a place: nothing, or one value.
_Slot: TypeAlias = tuple[Json, ...]


def applies_to_model(rule: ToolRule, model: str) -> bool:
    """True if the rule is for `model`: it names none, or one of its globs matches."""
    if not rule.models:
        return True
    return any(fnmatchcase(model, glob) for glob in rule.models)


def rules_for(rules: Iterable[ToolRule], tool_name: str, *, case_sensitive: bool) -> tuple[ToolRule, ...]:
    """The rules for the calls of one tool, in their order."""
    if case_sensitive:
        return tuple(rule for rule in rules if _is_named(tool_name, rule.tool))
    folded = tool_name.casefold()
    return tuple(rule for rule in rules if _is_named(folded, rule.tool.casefold()))


def _is_named(name: str, glob: str) -> bool:
    if name == glob:
        return True
    if _GLOB_MARK.search(glob) is None:
        return False
    return fnmatchcase(name, glob)


def touched(rules: Iterable[ToolRule]) -> frozenset[str]:
    """The names of the arguments that the rules may change, add or remove, or rename to."""
    found: set[str] = set()
    for rule in rules:
        if rule.action in _RENAMES_TOOL:
            continue
        found.add(rule.parameter[0])
        # Deeper down it is no argument that is renamed.
        if rule.action == "rename_parameter" and len(rule.parameter) == 1:
            found.add(rule.to)
    return frozenset(found)


def renames(rules: Iterable[ToolRule]) -> bool:
    """True if one of the rules may change the tool's name."""
    return any(rule.action in _RENAMES_TOOL for rule in rules)


def apply_rule(rule: ToolRule, name: str, values: JsonObject, tools: ToolSet) -> tuple[str, JsonObject]:
    """The tool's name and the arguments of a call after the rule; the same objects where it does nothing.

    Whether the rule is for this tool and this model is asked before. It does nothing where its path names over
    `MAX_PLACES` places.
    """
    places = tuple(islice(_places(values, rule.parameter), MAX_PLACES + 1))
    if len(places) > MAX_PLACES or not any(_holds(rule, slot) for slot in places):
        return name, values
    if rule.action in _RENAMES_TOOL:
        return _new_name(rule, name, values, tools), values
    changed = _changed(rule, values, rule.parameter)
    assert isinstance(changed, dict)  # a path changes what is in an object, never the object to another kind
    return name, changed


def _new_name(rule: ToolRule, name: str, values: JsonObject, tools: ToolSet) -> str:
    wanted = rule.to
    if rule.action == "convert_tool_to_write":
        # An empty content would empty the file.
        if name.casefold() != "read" or not values.get("content"):
            return name
        wanted = "write"
    tool = tools.resolve(wanted)
    if tool is None:
        return name
    return tool.name


def _places(node: Json, path: tuple[str, ...]) -> Iterator[_Slot]:
    """The value at each place that the path names; none at a key that an object lacks.

    `("todos", "[]", "content")` names the content of each item of `{"todos": [{"content": "a"}, {}]}`: ("a",), ().
    """
    step, rest = path[0], path[1:]
    if step == ITEMS:
        if isinstance(node, list):
            yield from _places_of_items(node, rest)
        return
    if not isinstance(node, dict):
        return
    if not rest:
        yield _member(node, step)
    elif step in node:
        yield from _places(node[step], rest)


def _places_of_items(items: list[Json], rest: tuple[str, ...]) -> Iterator[_Slot]:
    for item in items:
        if rest:
            yield from _places(item, rest)
        else:
            yield (item,)


def _member(node: JsonObject, key: str) -> _Slot:
    if key in node:
        return (node[key],)
    return ()


def _holds(rule: ToolRule, slot: _Slot) -> bool:
    """True if the rule's condition holds for what stands at a place."""
    if slot:
        return _CONDITIONS[rule.condition](rule, slot[0])
    return rule.condition in ("missing", "missing_or_empty")


def _is_empty(_: ToolRule, here: Json) -> bool:
    if isinstance(here, str | list | dict):
        return not here
    return here is None


def _is_not_listed(rule: ToolRule, here: Json) -> bool:
    return not any(same(here, valid) for valid in rule.valid)


def _matches(rule: ToolRule, here: Json) -> bool:
    if not isinstance(here, str):
        return False
    return fnmatchcase(here, rule.pattern)


def _is_of_type(rule: ToolRule, here: Json) -> bool:
    if rule.type == "number":
        return type_of(here) in ("number", "integer")
    return type_of(here) == rule.type


# What a condition says of a value that is there.
_CONDITIONS: Mapping[Condition, Callable[[ToolRule, Json], bool]] = {
    "missing": lambda rule, here: False,
    "missing_or_empty": _is_empty,
    "exists": lambda rule, here: True,
    "is_string": lambda rule, here: isinstance(here, str),
    "invalid_enum": _is_not_listed,
    "matches": _matches,
    "is_type": _is_of_type,
}


def _changed(rule: ToolRule, node: Json, path: tuple[str, ...]) -> Json:
    """The node with the rule applied at each place that the path names: a copy, or itself if nothing changes."""
    step, rest = path[0], path[1:]
    if step == ITEMS:
        if isinstance(node, list):
            return _changed_items(rule, node, rest)
        return node
    if not isinstance(node, dict):
        return node
    if rest:
        return _changed_inside(rule, node, step, rest)
    if rule.action == "rename_parameter":
        return _renamed(rule, node, step)
    return _changed_key(rule, node, step)


def _changed_inside(rule: ToolRule, node: JsonObject, key: str, rest: tuple[str, ...]) -> JsonObject:
    if key not in node:
        return node
    inner = _changed(rule, node[key], rest)
    if inner is node[key]:
        return node
    return {**node, key: inner}


def _changed_items(rule: ToolRule, items: list[Json], rest: tuple[str, ...]) -> list[Json]:
    changed: list[Json] = []
    for item in items:
        if rest:
            changed.append(_changed(rule, item, rest))
        else:
            changed += _after(rule, (item,))
    if len(changed) == len(items) and all(map(operator.is_, changed, items)):
        return items
    return changed


def _changed_key(rule: ToolRule, node: JsonObject, key: str) -> JsonObject:
    slot = _member(node, key)
    after = _after(rule, slot)
    if after is slot:
        return node
    if after:
        return {**node, key: after[0]}
    return {name: item for name, item in node.items() if name != key}


def _renamed(rule: ToolRule, node: JsonObject, key: str) -> JsonObject:
    """The object with the key called otherwise, in its place."""
    if key not in node:
        return node
    if rule.to in node:
        return node
    if not _holds(rule, (node[key],)):
        return node
    names = {key: rule.to}
    return {names.get(name, name): item for name, item in node.items()}


def _after(rule: ToolRule, slot: _Slot) -> _Slot:
    """The value at a place after the rule; the same object if nothing changes."""
    if not _holds(rule, slot):
        return slot
    if rule.action == "set_default":
        return _defaulted(rule, slot)
    if not slot:
        return slot
    if rule.action == "remove_parameter":
        return ()
    changed = _CHANGES[rule.action](rule, slot[0])
    if changed is slot[0]:
        return slot
    return (changed,)


def _defaulted(rule: ToolRule, slot: _Slot) -> _Slot:
    if slot and same(slot[0], rule.default[0]):
        return slot
    return (deepcopy(rule.default[0]),)


def _parse_array(rule: ToolRule, here: Json) -> Json:
    return _parsed(rule, here, list)


def _parse_object(rule: ToolRule, here: Json) -> Json:
    return _parsed(rule, here, dict)


def _parsed(rule: ToolRule, here: Json, kind: type) -> Json:
    if not isinstance(here, str):
        return here
    # The fallback may itself be a text.
    if here in rule.fallback:
        return here
    read = literal(here)
    if isinstance(read, kind) and not is_deep(read):
        return read
    if rule.fallback:
        return deepcopy(rule.fallback[0])
    return here



def _to_boolean(_: ToolRule, here: Json) -> Json:
    if isinstance(here, str):
        return _TRUTHS.get(here.lower(), here)
    return here


def _wrap(_: ToolRule, here: Json) -> Json:
    if isinstance(here, list):
        return here
    return [here]


def _to_string(_: ToolRule, here: Json) -> Json:
    if isinstance(here, VerbatimNumber):
        return here.text
    if isinstance(here, str) or is_deep(here):
        return here
    return dump(here)


def _strip_markup(_: ToolRule, here: Json) -> Json:
    """Remove tags of calls, and the blanks outside of them, from both ends of a string."""
    if not isinstance(here, str):
        return here
    start, end = 0, len(here)
    while (after := _tag_end(here, start)) > start:
        start = after
    while (before := _tag_start(here, start, end)) < end:
        end = before
    if (start, end) == (0, len(here)):
        return here
    return here[start:end]


def _tag_end(text: str, start: int) -> int:
    """Where the tag ends that the text begins with from `start` on; `start` if there is none."""
    match = _BLANKS_AND_TAG.match(text, start)
    if match is None:
        return start
    return match.end()


def _tag_start(text: str, start: int, end: int) -> int:
    """Where the tag begins that the text ends with before `end`; `end` if there is none."""
    at = end
    while at > start and text[at - 1] in _BLANKS:
        at -= 1
    opener = text.rfind("<", max(start, at - _MAX_TAG), at)
    if opener < 0 or _TAG.fullmatch(text, opener, at) is None:
        return end
    return opener


def _unescape_html(_: ToolRule, here: Json) -> Json:
    """Decode entities, if none are left then: `&amp;lt;` may be meant so, and stays."""
    if not isinstance(here, str):
        return here
    once = _decoded(here)
    if once == here or _decoded(once) != once:
        return here
    return once


def _decoded(text: str) -> str:
    # `unescape` alone would decode `&copy=1` too.
    return _ENTITY.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    entity = found.group()
    if entity[1] == "#" or entity[1:] in html5:
        return unescape(entity)
    return entity


_CHANGES: Mapping[Action, Callable[[ToolRule, Json], Json]] = {
    "parse_json_array": _parse_array,
    "parse_json_object": _parse_object,
    "convert_string_to_boolean": _to_boolean,
    "wrap_in_array": _wrap,
    "to_string": _to_string,
    "strip_markup": _strip_markup,
    "unescape_html": _unescape_html,
}
