r"""What decides how much of a call's arguments may leave while they are still being written (contract C2).

    {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "write_file", "arguments": "{\"path\": \"a.p"}}]}
    {"tool_calls": [{"index": 0, "function": {"arguments": "y\", \"lines\": \"10"}}]}

The tool's `path` is a string: what has come of it leaves at once. Its `lines` are a number, so that `"10"` will become
`10`: nothing of them leaves before the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.codec.json_text import Json
from proxy.repair.repairer import Repairer
from proxy.repair.rule_actions import apply_rule, renames, touched
from proxy.tools.schema import Schema
from proxy.tools.toolset import Tool
from proxy.tools.validator import children


def _accepts_all(_: str) -> bool:
    return True


def _keeps_all(_: str, __: Json) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ReleasePolicy:
    """What may leave of a call: all that no repair can change.

    `tool` is None where the name is of no offered tool: then every key is taken and every string goes on. `rule_keys`
    are keys whose values a rule may change, and `keeps` says of one value whether no rule does. `accepts` says of the
    whole text whether it needs no repair. `hold_all`: nothing leaves before the end.
    """

    tool: Tool | None
    rule_keys: frozenset[str] = frozenset()
    keeps: Callable[[str, Json], bool] = _keeps_all
    accepts: Callable[[str], bool] = _accepts_all
    hold_all: bool = False
    _parts: list[tuple[Schema, ...]] = field(default_factory=list, repr=False)

    @property
    def parts(self) -> tuple[Schema, ...]:
        """All that the schema may say of the arguments."""
        if not self._parts:
            self._parts.append(self.tool.compiled.all_parts() if self.tool else ())
        return self._parts[0]

    def schemas(self, key: str) -> tuple[Schema, ...]:
        """All that the schema says of a key's value; nothing of it may need a repair."""
        return children(key, self.parts)

    def knows(self, key: str) -> bool:
        """True if the tool has this parameter, or says nothing of its parameters."""
        if any(key in part.properties for part in self.parts):
            return True
        return not any(part.properties for part in self.parts)


def release_policy(repairer: Repairer, written: str, *, hold_all: bool) -> ReleasePolicy:
    """The policy of a call of which the name is known, as the server wrote it.

    `hold_all` if nothing of it may leave early whatever the rules say.
    """
    tool = repairer.tools.resolve(written)
    name = tool.name if tool else written
    rules = repairer.rules(name)

    def keeps(key: str, value: Json) -> bool:
        own = (rule for rule in rules if rule.parameter[:1] == (key,))
        return all(apply_rule(rule, name, {key: value}, repairer.tools)[1].get(key) is value for rule in own)

    def accepts(text: str) -> bool:
        return _needs_no_repair(repairer, name, text)

    renamed = renames((*rules, *repairer.fallback_rules(name)))
    return ReleasePolicy(tool, touched(rules), keeps, accepts, hold_all or renamed)


def _needs_no_repair(repairer: Repairer, name: str, text: str) -> bool:
    """True if a call is right as it is written."""
    repaired = repairer.repair(name, text, stopped=True)
    if repaired is None or repaired.fixes:
        return False
    if repaired.values:
        return True
    if repaired.tool is None:
        return True
    # Of a call without arguments, these may still come (F25).
    return not repaired.tool.properties
