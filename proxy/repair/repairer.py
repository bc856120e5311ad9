"""Repair of a call's name and arguments: readers, rules and fixes, in order.

First the text is read (`arguments`). The rules of the user's file change the result, and the schema's fixes follow.
Then the user's rules run again, now also on missing values. Finally the built-in rules are tried on what still violates
the schema. The text of a call that needs no repair stays unchanged, byte for byte (contract C1).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from proxy.json import JsonObject, dump
from proxy.notations.toolset import Tool, ToolSet, fold
from proxy.notations.validator import same, violations
from proxy.repair.arguments import ReadArguments, read_call
from proxy.repair.policy import Policy, ToolRule, apply_rule, rules_for
from proxy.repair.record import Repair
from proxy.repair.schema_fixes import FIXES, apply_fixes


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

    def rules(self, name: str, *, fallback: bool = False) -> tuple[ToolRule, ...]:
        """Return the rules of the user's file for the calls of a tool; the built-in ones if `fallback`."""
        rules = self.policy.fallback_rules if fallback else self.policy.rules
        return rules_for(rules, name, case_sensitive=self.policy.case_sensitive)

    def _repaired(self, name: str, text: str, reading: ReadArguments) -> Repaired | None:
        if name:
            tool = self.tools.resolve(name)
        else:
            tool = inferred(reading.values, self.tools, by_table=self.policy.infer_from_legacy_table)
        if tool is None and (not name or reading.told):
            return None
        call = _Call(tool.name if tool else name, tool, reading.values)
        call = self._by_rules(self._apply_fixes(self._by_rules(call)), missing=True)
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
        fixes = [*call.fixes]
        for step in steps:
            why = f"{step.fix.why} (at {step.path})" if step.path else step.fix.why
            fixes.append(Repair(step.fix.id, dump(step.before), dump(step.after), why, call.name))
        return _Call(call.name, call.tool, values, tuple(fixes))

    def _by_rules(self, call: _Call, *, missing: bool = False) -> _Call:
        """Apply the rules of the user's file; those about missing values only if `missing`."""
        for rule in self.rules(call.name):
            if missing or not rule.condition.startswith("missing"):
                call = self._applied(rule, call)
        return call

    def _by_fallback_rules(self, call: _Call, wrong: int) -> tuple[_Call, int]:
        for rule in self.rules(call.name, fallback=True):
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
        tool, before, after = call.tool, dump(call.values), dump(values)
        if name != call.name:
            tool, before, after = self.tools.resolve(name), call.name, name
        return _Call(name, tool, values, (*call.fixes, Repair(f"rule:{rule.name}", before, after, why, call.name)))


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


# The table that users of qwen3-call-patch-proxy rely on, in its order: a tool, and the keys that identify it, in any
# spelling.
_TABLE = {
    "todowrite": "todos",
    "bash": "command",
    "multiedit": "filepath edits",
    "edit": "filepath oldstring newstring",
    "grep": "pattern outputmode",
    "glob": "pattern",
    "webfetch": "url prompt",
    "websearch": "query",
    "write": "content filepath",
    "read": "filepath",
    "task": "description prompt subagenttype",
    "notebookedit": "notebookpath newsource",
    "list": "path",
}
# A key that the call of a tool must not have.
_FOREIGN = {"bash": "edits", "glob": "outputmode", "read": "content"}


def inferred(keys: Collection[str], tools: ToolSet, *, by_table: bool) -> Tool | None:
    """Return the only offered tool that accepts these keys, or None.

    `by_table`: if the schemas accept no tool or several, use the table for the tools that declare every key.
    """
    if not keys:
        return None
    accepting = [tool for tool in tools if tool.accepts(keys)]
    if len(accepting) == 1:
        return accepting[0]
    given = set(map(fold, keys))
    for name, needed in _TABLE.items() if by_table else ():
        tool = tools.resolve(name)
        fits = given.issuperset(needed.split()) and _FOREIGN.get(name) not in given
        if tool and fits and tool.properties.keys() >= {*keys}:
            return tool
    return None
