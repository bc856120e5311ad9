"""Repair of a call's name and arguments: readers, rules and fixes, in order.

First the text is read (`arguments`). The rules of the user's file change the result, and the schema's fixes follow.
Then the user's rules run again, now also on missing values. Finally the built-in rules are tried on what still violates
the schema. The text of a call that needs no repair stays unchanged, byte for byte (contract C1).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from proxy.json import JsonObject, dump
from proxy.notations.toolset import Tool, ToolSet
from proxy.notations.validator import same, violations
from proxy.repair.arguments import ReadArguments, read_call
from proxy.repair.policy import Condition, Policy, ToolRule, apply_rule, rules_for
from proxy.repair.record import Repair
from proxy.repair.schema_fixes import FIXES, apply_fixes

_ALL_CONDITIONS: tuple[Condition, ...] = get_args(Condition)
_OF_WHAT_IS_THERE = tuple(each for each in _ALL_CONDITIONS if not each.startswith("missing"))


@dataclass(frozen=True, slots=True)
class Repaired:
    """An executable call. `arguments` is the text of the object `values`. `tool` is None if no offered tool has the
    name; `violations` is the number of remaining schema violations.
    """

    name: str
    tool: Tool | None
    arguments: str
    values: JsonObject
    fixes: tuple[Repair, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Repairer:
    """Repairs the calls of one reply. The request offers `tools`; `policy` holds the rules."""

    tools: ToolSet
    policy: Policy

    def repair(self, name: str, text: str, *, stopped: bool) -> Repaired | None:
        """Return the repaired call; None if the arguments are not an object or the tool cannot be identified.

        `name` is empty if the server sent none. `stopped`: the model stopped normally.
        """
        written = name
        name, reading = read_call(name, text, self.tools, stopped=stopped)
        if reading is None:
            return None
        try:
            return self._repaired(name, text if name == written else written + text, reading)
        except ValueError:  # nested too deeply to be encoded
            return None

    def rules(self, name: str) -> tuple[ToolRule, ...]:
        """Return the rules of the user's file for the calls of a tool."""
        return rules_for(self.policy.rules, name, case_sensitive=self.policy.case_sensitive)

    def fallback_rules(self, name: str) -> tuple[ToolRule, ...]:
        """Return the built-in rules for the calls of a tool."""
        return rules_for(self.policy.fallback_rules, name, case_sensitive=self.policy.case_sensitive)

    def _repaired(self, name: str, text: str, reading: ReadArguments) -> Repaired | None:
        if name:
            tool = self.tools.resolve(name)
        else:
            tool = inferred(reading.values, self.tools, by_table=self.policy.infer_from_legacy_table)
        if tool is None and (not name or reading.told):
            return None
        call = _Call(tool.name if tool else name, tool, reading.values)
        call = self._apply_fixes(self._by_rules(call, _OF_WHAT_IS_THERE))
        call = self._by_rules(call, _ALL_CONDITIONS)
        wrong = call.violations
        if wrong:
            call, wrong = self._by_fallback_rules(call, wrong)
        if wrong and reading.told:
            return None
        unchanged = same(call.values, reading.values)
        arguments = reading.text if unchanged else dump(call.values)
        fixes = [Repair(form.id, text, arguments, form.why, call.name) for form in reading.forms]
        if not name:
            why = "the arguments fit only one offered tool"
            fixes.append(Repair("inferred_name", "", call.name, why, call.name))
        if not unchanged or tool is not call.tool:
            fixes += dict.fromkeys(call.fixes)
        return Repaired(call.name, call.tool, arguments, call.values, tuple(fixes), wrong)

    def _apply_fixes(self, call: _Call) -> _Call:
        if call.tool is None:
            return call
        values, steps = apply_fixes(call.values, call.tool.compiled, FIXES)
        if not isinstance(values, dict) or not steps:
            return call
        places = (f" (at {step.path})" if step.path else "" for step in steps)
        done = (
            Repair(step.fix.id, dump(step.before), dump(step.after), step.fix.why + place, call.name)
            for step, place in zip(steps, places, strict=True)
        )
        return _Call(call.name, call.tool, values, (*call.fixes, *done))

    def _by_rules(self, call: _Call, conditions: Collection[Condition]) -> _Call:
        for rule in self.rules(call.name):
            if rule.condition in conditions:
                call = self._applied(rule, call)
        return call

    def _by_fallback_rules(self, call: _Call, wrong: int) -> tuple[_Call, int]:
        for rule in self.fallback_rules(call.name):
            after = self._applied(rule, call)
            if after is call:
                continue
            after = self._apply_fixes(after)
            left = after.violations
            # Use another tool only if it accepts the arguments.
            if after.tool is not None and left < wrong and not (left and after.name != call.name):
                call, wrong = after, left
        return call, wrong

    def _applied(self, rule: ToolRule, call: _Call) -> _Call:
        name, values = apply_rule(rule, call.name, call.values, self.tools)
        if name == call.name and values is call.values:
            return call
        where = ".".join(rule.parameter) or rule.tool
        why = rule.description or f"a rule for {where}: {rule.action}"
        if name != call.name:
            repair = Repair(f"rule:{rule.name}", call.name, name, why, call.name)
            return _Call(name, self.tools.resolve(name), values, (*call.fixes, repair))
        repair = Repair(f"rule:{rule.name}", dump(call.values), dump(values), why, call.name)
        return _Call(name, call.tool, values, (*call.fixes, repair))


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    tool: Tool | None
    values: JsonObject
    fixes: tuple[Repair, ...] = ()

    @property
    def violations(self) -> int:
        """Return the number of schema violations; 0 if the tool is unknown."""
        return violations(self.values, self.tool.compiled) if self.tool else 0


@dataclass(frozen=True, slots=True)
class _Row:
    """Keys that identify a tool: at least one of each group, and none of `without`."""

    tool: str
    groups: tuple[tuple[str, ...], ...]
    without: frozenset[str] = frozenset()


_FILE = ("file_path", "filePath")
# The table that users of qwen3-call-patch-proxy rely on, in its order.
_TABLE = (
    _Row("todowrite", (("todos",),)),
    _Row("bash", (("command",),), frozenset(("edits",))),
    _Row("multiedit", (("file_path",), ("edits",))),
    _Row("edit", (_FILE, ("oldString", "old_string"), ("newString", "new_string"))),
    _Row("grep", (("pattern",), ("output_mode",))),
    _Row("glob", (("pattern",),), frozenset(("output_mode",))),
    _Row("webfetch", (("url",), ("prompt",))),
    _Row("websearch", (("query",),)),
    _Row("write", (("content",), _FILE)),
    _Row("read", (_FILE,), frozenset(("content",))),
    _Row("task", (("description",), ("prompt",), ("subagent_type",))),
    _Row("notebookedit", (("notebook_path",), ("new_source",))),
    _Row("list", (("path",),)),
)


def inferred(keys: Collection[str], tools: ToolSet, *, by_table: bool) -> Tool | None:
    """Return the only offered tool that accepts these keys, or None.

    `by_table`: if the schemas accept no tool or several, use the table for the tools that declare every key.
    """
    if not keys:
        return None
    accepting = [tool for tool in tools if tool.accepts(keys)]
    if len(accepting) == 1:
        return accepting[0]
    given = frozenset(keys)
    for row in _TABLE if by_table else ():
        if given & row.without or not all(given.intersection(group) for group in row.groups):
            continue
        tool = tools.resolve(row.tool)
        if tool is not None and given <= tool.properties.keys():
            return tool
    return None
