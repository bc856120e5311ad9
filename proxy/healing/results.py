"""Calls and their results in a history, each behind its call and under its id (F48 to F50, F81).

What is decided of a turn depends on what stands before the next message of the assistant alone, so that the healed
conversation of the next turn begins with this one (contract C8).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

from proxy.codec.json_access import as_text
from proxy.codec.json_text import Json, JsonObject
from proxy.healing.conversation import (
    Block,
    Messages,
    blocks_of,
    calls_of,
    function_of,
    joined,
    on_blocks,
    on_messages,
    replaced,
    role_of,
)

NO_RESULT = "[There is no result of this call: it was interrupted.]"
ORPHAN = "[The result of a tool call that is not in this conversation:]"
_MISTRAL = re.compile(r"[A-Za-z0-9]{9}")
_KIMI = re.compile(r"functions\.[^:]+:[0-9]+")
_NO_LETTERS = re.compile(r"[^A-Za-z0-9]")


def _id(entry: JsonObject, key: str) -> str:
    """An id as text; some servers count in numbers (F44)."""
    value = entry.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_text(value)


def _pairs(block: Block, known: set[str]) -> dict[int, int]:
    """The index of the call for each result behind it: by id, by an id whose signs a client changed, by position.

    By position only if each call that is left has a result that is left, and none of these is another turn's.
    """
    pairing = _Pairing.of(block)
    pairing.by_key(_same)
    pairing.by_key(_squeezed)
    pairing.by_position(known)
    return pairing.pairs


@dataclass(slots=True)
class _Pairing:
    """The calls of a turn that are `free`, the `results` that have none, both with their ids, and the pairs so far."""

    free: dict[int, str]
    results: dict[int, str]
    pairs: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, block: Block) -> _Pairing:
        """Nothing is paired yet."""
        free = {number: _id(call, "id") for number, call in enumerate(block.calls)}
        tools = [(index, message) for index, message in enumerate(block.behind) if role_of(message) == "tool"]
        return cls(free, {index: _id(message, "tool_call_id") for index, message in tools})

    def by_key(self, key_of: Callable[[str], str]) -> None:
        """Pair what has the same key; of several calls with one key the first that is free."""
        waiting: dict[str, list[int]] = {}
        for number in reversed(self.free):
            waiting.setdefault(key_of(self.free[number]), []).append(number)
        waiting.pop("", None)
        for index, given in [*self.results.items()]:
            numbers = waiting.get(key_of(given))
            if numbers:
                self._pair(index, numbers.pop())

    def by_position(self, known: set[str]) -> None:
        """Pair all that is left, if that is one to one."""
        if len(self.results) != len(self.free) or known & {*self.results.values()}:
            return
        for index, number in zip([*self.results], [*self.free], strict=True):
            self._pair(index, number)

    def _pair(self, index: int, number: int) -> None:
        self.pairs[index] = number
        del self.results[index], self.free[number]


def _same(text: str) -> str:
    return text


def _squeezed(text: str) -> str:
    return _NO_LETTERS.sub("", text).lower()


@dataclass(slots=True)
class _Ids:
    """The ids of a conversation so far."""

    seen: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def unique(self, id_: str, others: Collection[str]) -> str:
        """The id if it is one and new, else one that is, and that no result of the turn could mean: `others`."""
        name = id_
        if not id_ or id_ in self.seen:
            name = self._new(id_ or "call", others)
        self.seen.add(name)
        return name

    def _new(self, base: str, others: Collection[str]) -> str:
        name = ""
        while not name or name in self.seen or _squeezed(name) in others:
            self.counts[base] += 1
            name = f"{base}_{self.counts[base]}"
        return name


def _identified(messages: Messages) -> Messages:
    ids = _Ids()
    changed: list[JsonObject] = []
    for block in blocks_of(messages):
        if not block.calls:
            changed.append(block.first)
            continue
        pairs = _pairs(block, ids.seen)
        others = {_squeezed(_id(message, "tool_call_id")) for message in block.behind if role_of(message) == "tool"}
        own = [ids.unique(_id(call, "id"), others) for call in block.calls]
        calls = [_with(call, "id", name) for call, name in zip(block.calls, own, strict=True)]
        changed.append(replaced(block.first, "tool_calls", calls))
        for index, message in enumerate(block.behind):
            changed.append(_with(message, "tool_call_id", own[pairs[index]]) if index in pairs else message)
    return changed


# Each call has an id that no other one has, and its result has the same.
identify_calls = on_messages(_identified)


def _with(entry: JsonObject, key: str, value: str) -> JsonObject:
    if entry.get(key) == value:
        return entry
    return {**entry, key: value}


def _results(block: Block) -> dict[str, JsonObject]:
    """The first result of each call."""
    results: dict[str, JsonObject] = {}
    wanted = {name for name in block.ids if name}
    for message in block.behind:
        name = as_text(message.get("tool_call_id"))
        if role_of(message) == "tool" and name in wanted:
            results.setdefault(name, message)
    return results


def _in_order(block: Block) -> Sequence[JsonObject]:
    results = _results(block)
    first = [results[name] for name in dict.fromkeys(block.ids) if name in results]
    taken = {id(message) for message in first}
    return [block.first, *first, *(message for message in block.behind if id(message) not in taken)]


# Results follow their calls at once, in the order of the calls.
order_results = on_blocks(_in_order)


def _complete(block: Block) -> Sequence[JsonObject]:
    results = _results(block)
    completed: list[JsonObject] = []
    for name in filter(None, dict.fromkeys(block.ids)):
        completed.append(results.get(name) or {"role": "tool", "tool_call_id": name, "content": NO_RESULT})
    taken = {id(message) for message in results.values()}
    return [block.first, *completed, *(message for message in block.behind if id(message) not in taken)]


# A call that was interrupted has a result that says so.
complete_results = on_blocks(_complete)


def _as_text(block: Block) -> Sequence[JsonObject]:
    own = {id(message) for message in _results(block).values()}
    return [message if id(message) in own else _as_user(message) for message in block.messages()]


def _as_user(message: JsonObject) -> JsonObject:
    if role_of(message) != "tool":
        return message
    return {"role": "user", "content": joined(ORPHAN, message.get("content"))}


# A result without a call is told by the user.
tell_orphans = on_blocks(_as_text)


def _one_by_one(block: Block) -> Sequence[JsonObject]:
    if len(block.calls) < 2:
        return [*block.messages()]
    results = _results(block)
    turns: list[JsonObject] = []
    turn = block.first
    for call in block.calls:
        turns.append({**turn, "tool_calls": [call]})
        result = results.get(as_text(call.get("id")))
        if result is not None:
            turns.append(result)
        turn = {"role": "assistant", "content": ""}
    taken = {id(message) for message in results.values()}
    return [*turns, *(message for message in block.behind if id(message) not in taken)]


# A turn of several calls as turns of one, for templates that know no other.
split_calls = on_blocks(_one_by_one)


def _mistral(name: str, id_: str, number: int) -> str:
    if _MISTRAL.fullmatch(id_):
        return id_
    return blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()[:9]


def _kimi(name: str, id_: str, number: int) -> str:
    if _KIMI.fullmatch(id_):
        return id_
    return f"functions.{name}:{number}"


_Style: TypeAlias = Callable[[str, str, int], str]


def _unused(style: _Style, name: str, id_: str, number: int, used: set[str]) -> str:
    """An id in this style that no call before has: one of the style itself may come behind one that was made so."""
    styled = style(name, id_, number)
    more = 0
    while styled in used:
        styled = style(name, f"{id_}_{more}", number + more)
        more += 1
    used.add(styled)
    return styled


def _styled(style: _Style) -> Callable[[JsonObject], JsonObject]:
    """Ids as a model's own template writes them, on both sides."""

    def changed(messages: Messages) -> Messages:
        number = -1
        names: dict[str, str] = {}
        used: set[str] = set()
        healed: list[JsonObject] = []
        for each in messages:
            message = each
            calls: list[Json] = []
            for call in calls_of(message):
                number += 1
                id_ = as_text(call.get("id"))
                names[id_] = _unused(style, as_text(function_of(call).get("name")), id_, number, used)
                calls.append(_with(call, "id", names[id_]))
            if calls:
                message = replaced(message, "tool_calls", calls)
            name = names.get(as_text(message.get("tool_call_id")))
            if role_of(message) == "tool" and name is not None:
                message = _with(message, "tool_call_id", name)
            healed.append(message)
        return healed

    return on_messages(changed)


mistral_ids = _styled(_mistral)
kimi_ids = _styled(_kimi)
