"""A request's body healed: which healings are in force, what they make of it, and what is told of that."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from proxy.audit_record import Repair
from proxy.codec.json_access import as_list
from proxy.codec.json_text import Json, JsonObject, dump
from proxy.healing.conversation import on_messages, traits_of
from proxy.healing.parameters import OfferedTools, Sampling, offer, sample
from proxy.healing.repeats import tell_repeats
from proxy.healing.table import HEALINGS, Level

# The word that stands for all healings in `off`.
ALL = "all"
# What is said to the model of calls that it repeats (`repeats.py`); it is off by this word.
REPEATS = "repeated_calls"
# What the records are called of what a rule for the model changed.
RULE_TOOLS = "rule_tools"
RULE_SAMPLING = "rule_sampling"
IDS = (*(healing.id for healing in HEALINGS), REPEATS)


@dataclass(frozen=True, slots=True)
class Healed:
    """A body as it goes up, and a record for each healing."""

    body: JsonObject
    repairs: tuple[Repair, ...] = ()

    @property
    def changed(self) -> bool:
        """True if it is another body than came: whatever is healed is told of."""
        return bool(self.repairs)


@dataclass(frozen=True, slots=True)
class HealPlan:
    """The plan of healing for a model's requests: the healings that are `on` beside those that always are, without
    those that are `off`, and what a rule says of its parameters and tools.
    """

    on: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    sampling: Sampling = field(default_factory=Sampling)
    tools: OfferedTools = field(default_factory=OfferedTools)

    @property
    def ids(self) -> frozenset[str]:
        """The healings in force."""
        return _in_force(self.on, self.off)

    def learnt(self, ids: Collection[str]) -> HealPlan:
        """The plan with more healings; one that is off stays so."""
        if not ids:
            return self
        return replace(self, on=self.on | {*ids})


# A plan by which a request goes up as it came.
NO_HEALING = HealPlan(off=frozenset((ALL,)))


def in_force(on: Collection[str], off: Collection[str]) -> frozenset[str]:
    """The ids of the healings in force: those that always are and those that are `on`, without those that are `off`."""
    return _in_force(frozenset(on), frozenset(off))


@lru_cache(maxsize=64)
def _in_force(on: frozenset[str], off: frozenset[str]) -> frozenset[str]:
    if ALL in off:
        return frozenset()
    always = {healing.id for healing in HEALINGS if healing.level is Level.ALWAYS}
    return frozenset((always | {REPEATS} | on) - off)


def heal_request(body: JsonObject, plan: HealPlan) -> Healed:
    """The body as the plan wants it: the rules' tools and parameters, then the healings."""
    offered = offer(body, plan.tools)
    sampled = sample(offered, plan.sampling)
    repairs: list[Repair] = []
    if offered is not body:
        repairs.append(_by_rule(RULE_TOOLS, body, offered))
    if sampled is not offered:
        repairs.append(_by_rule(RULE_SAMPLING, offered, sampled))
    ids = plan.ids
    healed, traits = _healed(sampled, ids)
    repairs += healed.repairs
    if REPEATS not in ids or "tool" not in traits:
        return Healed(healed.body, tuple(repairs))
    noted = on_messages(lambda messages: tell_repeats(messages, plan.tools.polls))(healed.body)
    if noted is not healed.body:
        repairs.append(_repair(REPEATS, "messages", "the model is told what it repeats", (healed.body, noted)))
    return Healed(noted, tuple(repairs))


def _by_rule(fix: str, before: JsonObject, after: JsonObject) -> Repair:
    """The record of a rule's changes: the fields that differ, without the conversation and the tools."""
    others = {**before, **after}.keys() - {"messages", "tools"}
    names = sorted(key for key in others if before.get(key) != after.get(key))
    old: JsonObject = {key: before[key] for key in names if key in before}
    new: JsonObject = {key: after[key] for key in names if key in after}
    old["tools"], new["tools"] = len(as_list(before.get("tools"))), len(as_list(after.get("tools")))
    return Repair(fix, dump(old), dump(new), "a rule for the model says so")


def heal(body: JsonObject, ids: Collection[str]) -> Healed:
    """The body after the healings of these ids, in the table's order."""
    return _healed(body, ids)[0]


def _healed(body: JsonObject, ids: Collection[str]) -> tuple[Healed, set[str]]:
    """The same, and the traits of its messages."""
    repairs: list[Repair] = []
    there = traits_of(body)
    for healing in HEALINGS:
        if healing.id not in ids:
            continue
        if healing.needs.isdisjoint(there):
            continue
        try:
            new = healing.apply(body)
        except (ValueError, RecursionError):  # nested too deeply to be written anew
            continue
        if new is not body:
            repairs.append(_repair(healing.id, healing.key, healing.why, (body, new)))
            body = new
            there = traits_of(body)
    return Healed(body, tuple(repairs)), there


def record_id(healing: str) -> str:
    """The id of a healing's records."""
    return f"heal_{healing}"


def _repair(name: str, key: str, why: str, bodies: tuple[JsonObject, JsonObject]) -> Repair:
    """The record of a healing: the first place where it changed something, before and after."""
    old, new = (as_list(body.get(key)) for body in bodies)
    at = next(_changed(old, new), 0)
    return Repair(record_id(name), _shown(old, at), _shown(new, at), why)


def _changed(old: list[Json], new: list[Json]) -> Iterator[int]:
    """The places where two lists differ."""
    for index, (one, other) in enumerate(zip(old, new, strict=False)):
        if one is not other:
            yield index
    if len(old) != len(new):
        yield min(len(old), len(new))


def _shown(items: list[Json], at: int) -> str:
    if at >= len(items):
        return ""
    return dump(items[at])
