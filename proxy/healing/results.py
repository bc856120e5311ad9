"""Healing of calls and their results: order and ids (F48 to F50, F81), and repeated results (F92).

A model may make the same call with the same result again and again. A sentence after the fifth and each later result
reports this, wherever it is in the history. It states only the repetition; the model decides whether it is in a loop.
Decisions about a turn depend only on the messages before the next assistant message, so the healed conversation of the
next turn starts with this one (contract C8).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import TypeAlias

from proxy.healing.conversation import (
    Block,
    Change,
    Messages,
    Talk,
    blocks_of,
    calls_of,
    function_of,
    joined,
    on_blocks,
    on_messages,
    replaced,
    role_of,
    text_of,
    user_message,
    with_value,
)
from proxy.json import Json, JsonObject, as_text

NO_RESULT = "[There is no result of this call: it was interrupted.]"
ORPHAN = "[The result of a tool call that is not in this conversation:]"
# The number of equal results that is logged, and the number at which the model is told.
TOLD_IN_THE_LOG = 3
TOLD_TO_THE_MODEL = 5
_BEGIN = "[This call of "
_SENTENCE = _BEGIN + "{name} with these arguments has now been made {count} times, each time with this result.]"
_MISTRAL = re.compile(r"[A-Za-z0-9]{9}")
_KIMI = re.compile(r"functions\.[^:]+:[0-9]+")
_NO_LETTERS = re.compile(r"[^A-Za-z0-9]")
# Takes the name of a call, its id and its number in the conversation, and returns its new id.
_Style: TypeAlias = Callable[[str, str, int], str]


def _id(entry: JsonObject, key: str) -> str:
    """Return an id as text; some servers send numbers (F44)."""
    value = entry.get(key)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else as_text(value)


def _squeezed(text: str) -> str:
    return _NO_LETTERS.sub("", text).lower()


def _pairs(block: Block, known: set[str]) -> dict[int, int]:
    """Return the index of the call for each result: by id, by the letters and digits of an id, or by position.

    Positions are used only if the remaining calls and results are equal in number, and no result belongs to another
    turn.
    """
    pairs: dict[int, int] = {}
    free = {number: _id(call, "id") for number, call in enumerate(block.calls)}
    results = {
        index: _id(message, "tool_call_id") for index, message in enumerate(block.rest) if role_of(message) == "tool"
    }

    def pair(index: int, number: int) -> None:
        pairs[index] = number
        del results[index], free[number]

    for key_of in (str, _squeezed):
        waiting: dict[str, list[int]] = {}
        for number in reversed(free):  # of several calls with one key, the first free one
            waiting.setdefault(key_of(free[number]), []).append(number)
        waiting.pop("", None)
        for index, given in [*results.items()]:
            if numbers := waiting.get(key_of(given)):
                pair(index, numbers.pop())
    if len(results) == len(free) and known.isdisjoint(results.values()):
        for index, number in zip([*results], [*free], strict=True):
            pair(index, number)
    return pairs


@on_messages
def call_ids(messages: Messages) -> Messages:
    """Give each call a unique id, and its result the same id."""
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    changed: list[JsonObject] = []
    for block in blocks_of(messages):
        pairs = _pairs(block, seen)
        # A new id must differ from every id that a result of the turn could refer to.
        taken = {_squeezed(_id(message, "tool_call_id")) for message in block.rest if role_of(message) == "tool"}
        names: list[str] = []
        for call in block.calls:
            name = _id(call, "id")
            base = name or "call"
            while not name or name in seen or (name != base and _squeezed(name) in taken):
                counts[base] += 1
                name = f"{base}_{counts[base]}"
            seen.add(name)
            names.append(name)
        calls = [with_value(call, "id", name) for call, name in zip(block.calls, names, strict=True)]
        changed.append(replaced(block.first, "tool_calls", calls) if calls else block.first)
        for index, message in enumerate(block.rest):
            changed.append(with_value(message, "tool_call_id", names[pairs[index]]) if index in pairs else message)
    return changed


def _split(block: Block) -> tuple[dict[str, JsonObject | None], list[JsonObject]]:
    """Return the first result of each call by the call's id, in the order of the calls, and the remaining messages."""
    results: dict[str, JsonObject | None] = {as_text(call.get("id")): None for call in block.calls}
    results.pop("", None)
    others: list[JsonObject] = []
    for message in block.rest:
        name = as_text(message.get("tool_call_id"))
        if role_of(message) == "tool" and results.get(name, message) is None:
            results[name] = message
        else:
            others.append(message)
    return results, others


@on_blocks
def call_results(block: Block) -> Sequence[JsonObject]:
    """Put results directly after their calls, in the order of the calls, and add one to each interrupted call."""
    results, others = _split(block)
    made: list[JsonObject] = [
        result or {"role": "tool", "tool_call_id": name, "content": NO_RESULT} for name, result in results.items()
    ]
    return [block.first, *made, *others]


@on_blocks
def orphan_results(block: Block) -> Sequence[JsonObject]:
    """Turn a result without a call into text of the user."""
    own = {id(message) for message in _split(block)[0].values()}
    return [
        user_message(joined(ORPHAN, message.get("content")))
        if role_of(message) == "tool" and id(message) not in own
        else message
        for message in block.messages
    ]


@on_blocks
def one_call(block: Block) -> Sequence[JsonObject]:
    """Split a turn of several calls into turns of one, for templates that support only one."""
    if len(block.calls) < 2:
        return block.messages
    results, others = _split(block)
    turns: list[JsonObject] = []
    turn = block.first
    for call in block.calls:
        turns.append({**turn, "tool_calls": [call]})
        result = results.get(as_text(call.get("id")))
        if result is not None:
            turns.append(result)
        turn = {"role": "assistant", "content": ""}
    return [*turns, *others]


def _mistral(_name: str, id_: str, _number: int) -> str:
    if _MISTRAL.fullmatch(id_):
        return id_
    return blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()[:9]


def _kimi(name: str, id_: str, number: int) -> str:
    return id_ if _KIMI.fullmatch(id_) else f"functions.{name}:{number}"


def _styled(style: _Style) -> Change:
    """Return the healing that rewrites ids in calls and results in the style of a model's own template."""

    def changed(messages: Messages) -> Messages:
        number = -1
        names: dict[str, str] = {}
        used: set[str] = set()
        healed: list[JsonObject] = []
        for message in messages:
            calls: list[Json] = []
            for call in calls_of(message):
                number += 1
                name, id_ = as_text(function_of(call).get("name")), as_text(call.get("id"))
                new, more = style(name, id_, number), 0
                while new in used:  # an id already in this style may equal a rewritten one
                    new, more = style(name, f"{id_}_{more}", number + more), more + 1
                used.add(new)
                names[id_] = new
                calls.append(with_value(call, "id", new))
            own = names.get(as_text(message.get("tool_call_id")))
            if calls:
                healed.append(replaced(message, "tool_calls", calls))
            elif role_of(message) == "tool" and own is not None:
                healed.append(with_value(message, "tool_call_id", own))
            else:
                healed.append(message)
        return healed

    return on_messages(changed)


mistral_ids = _styled(_mistral)
kimi_ids = _styled(_kimi)


def _repeats(messages: Messages, exempt: Collection[str]) -> dict[int, tuple[str, int]]:
    """Return the tool's name and the number of occurrences so far of each result, by index.

    A result that is not text, of an unknown call or of an exempt tool has no name and occurs once.
    """
    calls: dict[str, tuple[str, str]] = {}
    times: Counter[tuple[str, str, str]] = Counter()
    repeats: dict[int, tuple[str, int]] = {}
    for index, message in enumerate(messages):
        for call in calls_of(message):
            function = function_of(call)
            calls[as_text(call.get("id"))] = (as_text(function.get("name")), as_text(function.get("arguments")))
        if role_of(message) != "tool":
            continue
        repeats[index] = "", 1
        text = text_of(message.get("content"))
        made = calls.get(as_text(message.get("tool_call_id")))
        if text is None or made is None or any(fnmatchcase(made[0], glob) for glob in exempt):
            continue
        key = (*made, text.partition(f"\n\n{_BEGIN}")[0])
        times[key] += 1
        repeats[index] = made[0], times[key]
    return repeats


def newest_repeat(messages: Messages, exempt: Collection[str]) -> tuple[str, int]:
    """Return the tool of the last result, and how often it has returned that result, at least 1."""
    return next(reversed(_repeats(messages, exempt).values()), ("", 1))


def tell_repeats(messages: Messages, exempt: Collection[str]) -> Messages:
    """Return the conversation with the sentence after each result that was repeated too often."""
    talk, repeats = Talk(), _repeats(messages, exempt)
    for index, message in enumerate(messages):
        talk.say(message)
        name, count = repeats.get(index, ("", 1))
        if count >= TOLD_TO_THE_MODEL and f"\n\n{_BEGIN}" not in (text_of(message.get("content")) or ""):
            talk.add(_SENTENCE.format(name=name, count=count))
    return talk.messages()
