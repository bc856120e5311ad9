"""A call's name and arguments as they must have been meant: the readers, the rules and the fixes in their order.

The text is read (`arguments`); the rules of the user's own file change what is there; the schema's fixes follow;
then those rules have the last word, now also on what is missing. At last the built-in rules are tried where the schema
still finds something wrong. The text of a call that needs nothing of it stays what it is, byte for byte (contract C1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from proxy.audit_record import Repair
from proxy.codec.json_text import JsonObject, dump
from proxy.repair.arguments import ReadArguments, read_call
from proxy.repair.name_inference import inferred
from proxy.repair.policy import Condition, Policy, ToolRule
from proxy.repair.rule_actions import apply_rule, rules_for
from proxy.repair.schema_fixes import FIXES, Step, apply_fixes
from proxy.tools.toolset import Tool, ToolSet
from proxy.tools.validator import same, violations

_ALL_CONDITIONS: tuple[Condition, ...] = get_args(Condition)
_OF_WHAT_IS_THERE = tuple(each for each in _ALL_CONDITIONS if not each.startswith("missing"))


@dataclass(frozen=True, slots=True)
class Repaired:
    """A call that can be executed: `arguments` is the text of the object `values`. `tool` is None if none is offered
    by that name; `violations` counts what the schema still finds wrong.
    """

    name: str
    tool: Tool | None
    arguments: str
    values: JsonObject
    fixes: tuple[Repair, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Repairer:
    """Repairs the calls of one reply, whose request offers `tools`, as `policy` says."""

    tools: ToolSet
    policy: Policy

    def repair(self, name: str, text: str, *, stopped: bool) -> Repaired | None:
        """The call of this name with these arguments; None if it is none: no object, or no name that can be told.

        `name` is empty where the server gave none. `stopped` if the model ended by itself.
        """
        written = name
        name, reading = read_call(name, text, self.tools, stopped=stopped)
        if reading is None:
            return None
        try:
            return self._repaired(name, text if name == written else written + text, reading)
        except ValueError:  # nested too deeply to be written anew
            return None

    def rules(self, name: str) -> tuple[ToolRule, ...]:
        """The rules of the user's file for the calls of a tool."""
        return rules_for(self.policy.rules, name, case_sensitive=self.policy.case_sensitive)

    def fallback_rules(self, name: str) -> tuple[ToolRule, ...]:
        """The built-in rules for the calls of a tool."""
        return rules_for(self.policy.fallback_rules, name, case_sensitive=self.policy.case_sensitive)

    def _repaired(self, name: str, text: str, reading: ReadArguments) -> Repaired | None:
        call = self._as_read(name, reading)
        if call is None:
            return None
        tool = call.tool
        call = self._by_rules(call, _OF_WHAT_IS_THERE)
        call = self._apply_fixes(call)
        call = self._by_rules(call, _ALL_CONDITIONS)
        wrong = call.violations
        if wrong:
            call, wrong = self._by_fallback_rules(call, wrong)
        if wrong and reading.told:
            return None
        unchanged = same(call.values, reading.values)
        arguments = reading.text
        if not unchanged:
            arguments = dump(call.values)
        done: Iterable[Repair] = dict.fromkeys(call.fixes)
        if unchanged and tool is call.tool:
            done = ()
        fixes = (*_read(reading, text, arguments, call.name), *_named(name, call), *done)
        return Repaired(call.name, call.tool, arguments, call.values, fixes, wrong)

    def _as_read(self, name: str, reading: ReadArguments) -> _Call | None:
        """The call before anything is put right; None if its tool is not offered and had to be known."""
        tool = self._tool_of(name, reading.values)
        if tool is not None:
            return _Call(tool.name, tool, reading.values)
        if not name:
            return None
        if reading.told:
            return None
        return _Call(name, None, reading.values)

    def _tool_of(self, name: str, values: JsonObject) -> Tool | None:
        if name:
            return self.tools.resolve(name)
        return self._inferred(values)

    def _inferred(self, values: JsonObject) -> Tool | None:
        return inferred(values, self.tools, by_table=self.policy.infer_from_legacy_table)

    def _apply_fixes(self, call: _Call) -> _Call:
        if call.tool is None:
            return call
        values, steps = apply_fixes(call.values, call.tool.compiled, FIXES)
        if not isinstance(values, dict) or not steps:
            return call
        return _Call(call.name, call.tool, values, (*call.fixes, *_repairs(steps, call.name)))

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
            if after.tool is None:
                continue
            left = after.violations
            if left >= wrong:
                continue
            # Another tool is meant only if it accepts the arguments.
            if left and after.name != call.name:
                continue
            call, wrong = after, left
        return call, wrong

    def _applied(self, rule: ToolRule, call: _Call) -> _Call:
        name, values = apply_rule(rule, call.name, call.values, self.tools)
        if name != call.name:
            repair = Repair(f"rule:{rule.name}", call.name, name, _why(rule), call.name)
            return _Call(name, self.tools.resolve(name), values, (*call.fixes, repair))
        if values is call.values:
            return call
        repair = Repair(f"rule:{rule.name}", dump(call.values), dump(values), _why(rule), call.name)
        return _Call(name, call.tool, values, (*call.fixes, repair))


def _why(rule: ToolRule) -> str:
    """The reason for a rule in its author's words, else its action and its place."""
    if rule.description:
        return rule.description
    where = ".".join(rule.parameter) or rule.tool
    return f"a rule for {where}: {rule.action}"


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    tool: Tool | None
    values: JsonObject
    fixes: tuple[Repair, ...] = ()

    @property
    def violations(self) -> int:
        """The number of violations of the schema; 0 where no tool is known."""
        if self.tool is None:
            return 0
        return violations(self.values, self.tool.compiled)


def _read(reading: ReadArguments, before: str, after: str, name: str) -> Iterator[Repair]:
    for form in reading.forms:
        yield Repair(form.id, before, after, form.why, name)


def _named(name: str, call: _Call) -> Iterator[Repair]:
    if not name:
        yield Repair("inferred_name", "", call.name, "of the offered tools its arguments tell this one", call.name)


def _repairs(steps: Iterable[Step], name: str) -> Iterator[Repair]:
    for step in steps:
        why = step.fix.why
        if step.path:
            why += f" (at {step.path})"
        yield Repair(step.fix.id, dump(step.before), dump(step.after), why, name)
