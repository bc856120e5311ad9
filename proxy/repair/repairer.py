"""A call's name and arguments as they must have been meant: the ladder, the rules and the fixes in their order.

The text is read (`ladder`); the rules of the user's own file change what is there; the schema's fixes follow; then
those rules have the last word, now also on what is missing. At last the built-in rules are tried where the schema still
finds something wrong. The text of a call that needs nothing of it stays what it is, byte for byte (contract C1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from proxy.audit_record import Repair
from proxy.codec.json_text import JsonObject
from proxy.codec.literals import dump
from proxy.repair.argument_readers import ReadArguments, read_arguments
from proxy.repair.name_inference import inferred
from proxy.repair.policy import Condition, Policy, ToolRule
from proxy.repair.rule_actions import apply_rule, rules_for
from proxy.repair.schema_fixes import FIXES, USUAL, Fix, Step, apply_fixes, ends_in_text
from proxy.tools.schema import same, violations
from proxy.tools.toolset import Tool, ToolSet

# Readings of one text that are compared by how well the schema accepts them.
_MAX_COMPARED = 6
_ALL_CONDITIONS: tuple[Condition, ...] = get_args(Condition)
_OF_WHAT_IS_THERE = tuple(each for each in _ALL_CONDITIONS if not each.startswith("missing"))


@dataclass(frozen=True, slots=True)
class Repaired:
    """A call that can be executed: `arguments` is the text of the object `values`. `tool` is None if none is offered
    by that name; `faults` counts what the schema still finds wrong.
    """

    name: str
    tool: Tool | None
    arguments: str
    values: JsonObject
    fixes: tuple[Repair, ...]
    faults: int


@dataclass(frozen=True, slots=True)
class Repairer:
    """Repairs the calls of one reply, whose request offers `tools`, as `policy` says."""

    tools: ToolSet
    policy: Policy

    def repair(self, name: str, text: str, *, stopped: bool) -> Repaired | None:
        """The call of this name with these arguments; None if it is none: no object, or no name that can be told.

        `name` is empty where the server gave none. `stopped` if the model ended by itself.
        """
        tool = self.tools.resolve(name)
        lists = [key for key in tool.properties if tool.is_list(key)] if tool else []
        best: Repaired | None = None
        shape = tool.shape if tool else None
        for climbed in islice(read_arguments(text, lists=lists, shape=shape, stopped=stopped), _MAX_COMPARED):
            try:
                found = self._repaired(name, text, climbed)
            except ValueError:  # nested too deeply to be written anew
                continue
            if found is not None and (best is None or found.faults < best.faults):
                best = found
            if best is not None and not best.faults:
                break
        return best

    def rules(self, name: str) -> tuple[ToolRule, ...]:
        """The rules of the user's file for the calls of a tool."""
        return rules_for(self.policy.rules, name, case_sensitive=self.policy.case_sensitive)

    def guarded(self, name: str) -> tuple[ToolRule, ...]:
        """The built-in rules for the calls of a tool."""
        return rules_for(self.policy.guarded, name, case_sensitive=self.policy.case_sensitive)

    def _repaired(self, name: str, text: str, climbed: ReadArguments) -> Repaired | None:
        tool = self.tools.resolve(name) if name else self._inferred(climbed.values)
        if tool is None and (not name or climbed.by_schema):
            return None
        call = _Call(tool.name if tool else name, tool, climbed.values)
        allowed = FIXES if self.policy.typos else USUAL
        if climbed.completed and tool is not None and ends_in_text(climbed.values, tool.shape, allowed):
            return None
        call = self._by_rules(self._mended(self._by_rules(call, _OF_WHAT_IS_THERE), allowed), _ALL_CONDITIONS)
        wrong = violations(call.values, call.tool.shape) if call.tool else 0
        if wrong:
            call, wrong = self._by_guarded_rules(call, wrong)
        if wrong and climbed.by_schema:
            return None
        unchanged = same(call.values, climbed.values)
        arguments = climbed.text if unchanged else dump(call.values)
        done = () if unchanged and tool is call.tool else dict.fromkeys(call.fixes)
        fixes = (*_read(climbed, text, arguments, call.name), *_named(name, call), *done)
        return Repaired(call.name, call.tool, arguments, call.values, fixes, wrong)

    def _inferred(self, values: JsonObject) -> Tool | None:
        return inferred(values, self.tools, by_table=self.policy.by_table)

    def _mended(self, call: _Call, fixes: tuple[Fix, ...] = USUAL) -> _Call:
        if call.tool is None:
            return call
        values, steps = apply_fixes(call.values, call.tool.shape, fixes)
        if not isinstance(values, dict) or not steps:
            return call
        return _Call(call.name, call.tool, values, (*call.fixes, *_told(steps, call.name)))

    def _by_rules(self, call: _Call, conditions: Collection[Condition]) -> _Call:
        now = call
        for rule in self.rules(call.name):
            now = self._applied(rule, now) if rule.condition in conditions else now
        return now

    def _by_guarded_rules(self, call: _Call, wrong: int) -> tuple[_Call, int]:
        for rule in self.guarded(call.name):
            after = self._applied(rule, call)
            if after is call:
                continue
            after = self._mended(after)
            left = violations(after.values, after.tool.shape) if after.tool else wrong
            renamed = after.name != call.name
            if left < wrong and not (renamed and left):
                call, wrong = after, left
        return call, wrong

    def _applied(self, rule: ToolRule, call: _Call) -> _Call:
        name, values = apply_rule(rule, call.name, call.values, self.tools)
        if name == call.name and values is call.values:
            return call
        before, after = (call.name, name) if name != call.name else (dump(call.values), dump(values))
        why = rule.description or f"a rule for {'.'.join(rule.parameter) or rule.tool}: {rule.action}"
        repair = Repair(f"rule:{rule.name}", before, after, why, call.name)
        tool = self.tools.resolve(name) if name != call.name else call.tool
        return _Call(name, tool, values, (*call.fixes, repair))


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    tool: Tool | None
    values: JsonObject
    fixes: tuple[Repair, ...] = ()


def _read(climbed: ReadArguments, before: str, after: str, name: str) -> Iterator[Repair]:
    for rung in climbed.rungs:
        yield Repair(rung.id, before, after, rung.why, name)


def _named(name: str, call: _Call) -> Iterator[Repair]:
    if not name:
        yield Repair("inferred_name", "", call.name, "of the offered tools its arguments tell this one", call.name)


def _told(steps: Iterable[Step], name: str) -> Iterator[Repair]:
    for step in steps:
        where = f" (at {step.place})" if step.place else ""
        yield Repair(step.fix.id, dump(step.before), dump(step.after), step.fix.why + where, name)
