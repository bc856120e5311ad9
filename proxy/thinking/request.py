"""A request on its way up, for a model that thinks: one step for all dialects."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_text import JsonObject
from proxy.notations.thoughts import Thoughts
from proxy.thinking.families import Family
from proxy.thinking.history import given_back
from proxy.thinking.splitting import thoughts_of
from proxy.thinking.switches import of_rules, switched


@dataclass(frozen=True, slots=True)
class ThinkingRules:
    """The facts of a model: its family, None if unknown; what the rules name as its switch; `suffix`:
    what the name that the client uses says of thinking.
    """

    family: Family | None
    switch: str = "none"
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingRequest:
    """A request in the words of the model's family, the records of what was done to it, and how the thoughts in the
    text of its reply would be told. `changed`: its body is another one than came.
    """

    body: JsonObject
    audit: tuple[Repair, ...]
    thoughts: Thoughts
    changed: bool


def think(body: JsonObject, rules: ThinkingRules) -> ThinkingRequest:
    """The request in the words of the model's family."""
    family = rules.family
    if family is None and rules.suffix:
        family = of_rules(rules.switch)
    told, switching = switched(body, family, rules.suffix)
    made, giving = given_back(told, rules.family)
    return ThinkingRequest(made, (*switching, *giving), thoughts_of(made, rules.family), made is not body)
