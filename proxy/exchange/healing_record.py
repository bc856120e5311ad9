"""What was healed in a request, apart from its secrets, as a capture has it; and what of it is something else now.

The ids of the healings are recorded in any case, the request and what became of it only where values may be. Of ids
alone it can be told that a healing is no longer in force; with the request it is healed again, and what comes out is
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_access import as_list, as_object
from proxy.codec.json_text import Json, JsonObject, dump
from proxy.exchange.reply_record import Difference, differing
from proxy.healing.heal import RULE_SAMPLING, RULE_TOOLS, HealPlan, heal_request, record_id
from proxy.healing.parameters import OfferedTools, Sampling

# What of the record says something of the conversation.
_VALUES = ("request", "healed")


@dataclass(frozen=True, slots=True)
class Healing:
    """What was done to one request: its `body` as it was before, the plan, what of that was learnt from refusals, and
    what was done.
    """

    body: JsonObject
    plan: HealPlan
    learnt: frozenset[str]
    repairs: tuple[Repair, ...]

    def as_record(self, *, values: bool) -> JsonObject:
        """The record as JSON. What was healed is made anew, by the same plan."""
        done: list[Json] = [repair.id for repair in self.repairs]
        known: list[Json] = [*sorted(self.learnt)]
        record: JsonObject = {"done": done, "learnt": known}
        if not (values and self.repairs):
            return record
        healed = heal_request(self.body, self.plan).body
        return {**record, "request": self.body, "healed": _changed(self.body, healed)}


def without_values(record: JsonObject) -> JsonObject:
    """The record with nothing of the conversation."""
    return {name: value for name, value in record.items() if name not in _VALUES}


def healing_differences(record: JsonObject, plan: HealPlan) -> Iterator[Difference]:
    """What of a recorded healing is something else by the rules' plan of now."""
    plan = plan.learnt(_words(record.get("learnt")))
    done, request = _words(record.get("done")), record.get("request")
    if not isinstance(request, dict):
        yield from (Difference(_healing(id_), "healed", "") for id_ in done if not _is_in_force(id_, plan))
        return
    healed = heal_request(request, plan)
    recorded = as_object(record.get("healed"))
    names = [*dict.fromkeys((*recorded, *_changed(request, healed.body)))]
    before = {_healing(id_): "healed" for id_ in done} | _facts({**request, **recorded}, names)
    now = {_healing(repair.id): "healed" for repair in healed.repairs} | _facts(healed.body, names)
    yield from differing(before, now)


def _changed(before: JsonObject, after: JsonObject) -> JsonObject:
    """The fields that are others; null is one that is gone."""
    names = [name for name in {**before, **after} if before.get(name) is not after.get(name)]
    return {name: after.get(name) for name in names}


def _facts(body: JsonObject, names: Iterable[str]) -> dict[str, str]:
    """What these fields say, piece by piece: each message and each tool under its number."""
    facts: dict[str, str] = {}
    for name in names:
        value = body.get(name)
        if isinstance(value, list):
            facts |= {f"request, {name} {at}": dump(item) for at, item in enumerate(value)}
        elif value is not None:
            facts[f"request, {name}"] = dump(value)
    return facts


def _is_in_force(id_: str, plan: HealPlan) -> bool:
    """Whether a healing of this name may still be done; what a rule did, if a rule of that kind is there."""
    if id_ == RULE_TOOLS:
        return plan.tools != OfferedTools()
    if id_ == RULE_SAMPLING:
        return plan.sampling != Sampling()
    return id_ in {record_id(name) for name in plan.ids}


def _healing(id_: str) -> str:
    return f"healing {id_}"


def _words(listed: Json) -> list[str]:
    return [word for word in as_list(listed) if isinstance(word, str)]
