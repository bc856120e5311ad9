"""The record of a reply, apart from how it was cut into events: texts, calls, ends, repairs, and what was no call.

A capture holds it (`exchange/capture.py`), and `replay` compares with it what becomes of the same answer now. Ids of
calls are no part of it: those of calls that are found in text are made anew each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from proxy.audit_record import Repair
from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.engine.engine import Engine
from proxy.engine.events import (
    CallClosed,
    CallOpened,
    Event,
    Finished,
    Reasoning,
    Text,
    Unchanged,
)
from proxy.exchange.outcome import Outcome
from proxy.limits import MAX_CAPTURE

# Replaces each byte of a secret in the first line of a capture.
_STAR = "*"


@dataclass(slots=True)
class _Call:
    """A call; `arguments` is None if it never was whole."""

    name: str
    arguments: str | None = None


@dataclass(slots=True)
class _Choice:
    """The text, the reasoning, the calls and the finish reason of one choice."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)
    finish: str = ""


class ReplyRecord:
    """Listens to the events of one reply, for `most` characters: of an answer that is longer no capture is whole.

    `is_whole` is False once something happened to the reply that a replay cannot do again: a time that was over, a
    defect.
    """

    def __init__(self, most: int = MAX_CAPTURE) -> None:
        self._choices: dict[int, _Choice] = {}
        self._room = most
        self.is_whole = True

    def give_up(self) -> None:
        """The reply goes on in a way that no replay can go."""
        self.is_whole = False
        self._choices.clear()

    def observe(self, events: Iterable[Event]) -> None:
        """Listen to what the engine says."""
        if not self.is_whole:
            return
        for event in events:
            if isinstance(event, Unchanged):
                self.observe(event.events)
            else:
                self._observe(event)

    def _observe(self, event: Event) -> None:
        match event:
            case Text():
                self._choice(event.choice).text.append(event.text)
                self._take(event.text)
            case Reasoning():
                self._choice(event.choice).reasoning.append(event.text)
                self._take(event.text)
            case CallOpened():
                self._choice(event.choice).calls[event.index] = _Call(event.name)
            case CallClosed():
                self._choice(event.choice).calls[event.index] = _Call(event.call.name, event.call.arguments)
                self._take(event.call.arguments)
            case Finished():
                self._choice(event.choice).finish = event.reason

    def _take(self, text: str) -> None:
        self._room -= len(text)
        if self._room < 0:
            self.give_up()

    def _choice(self, number: int) -> _Choice:
        return self._choices.setdefault(number, _Choice())

    def as_json(self, repairs: Sequence[Repair], refusals: Mapping[str, int]) -> JsonObject:
        """The record as JSON, with what was repaired and what was no call."""
        choices: list[Json] = [_choice_json(number, choice) for number, choice in sorted(self._choices.items())]
        fixes: list[Json] = [{"fix": repair.id, "tool": repair.tool} for repair in repairs]
        counts: JsonObject = {reason: count for reason, count in sorted(refusals.items()) if count}
        return {"choices": choices, "repairs": fixes, "refusals": counts}


def _choice_json(number: int, choice: _Choice) -> JsonObject:
    calls: list[Json] = [{"name": call.name, "arguments": call.arguments} for _, call in sorted(choice.calls.items())]
    texts: JsonObject = {"text": "".join(choice.text), "reasoning": "".join(choice.reasoning)}
    return {"index": number, **texts, "calls": calls, "finish": choice.finish}


def recorded(record: ReplyRecord | None, engine: Engine, outcome: Outcome) -> JsonObject | None:
    """The record of an answer as JSON; None unless all of it is in the record of its one try, and the client waited for
    it.
    """
    if record is None or not record.is_whole:
        return None
    if outcome.gone or outcome.again is not None:
        return None
    return record.as_json(engine.audit, engine.refusals)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was recorded; `before` or `now` is "" where there was, or is, no such thing."""

    what: str
    before: str
    now: str


def differences(recorded: JsonObject, now: JsonObject) -> Iterator[Difference]:
    """The differences between what was recorded and what is so now, in the order of the facts."""
    yield from differing(_facts(recorded), _facts(now))


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    """The facts that are others, each under its name."""
    for what in dict.fromkeys((*before, *after)):
        was, is_ = before.get(what, ""), after.get(what, "")
        if not _same(was, is_):
            yield Difference(what, was, is_)


def _facts(record: JsonObject) -> dict[str, str]:
    """The pieces of a record, each under its name: `{"call 0": 'bash {"command": "ls"}'}`."""
    facts: dict[str, str] = {}
    choices = objects_in(record.get("choices"))
    for number, choice in enumerate(choices):
        start = f"choice {number}, " if len(choices) > 1 else ""
        for name in ("text", "reasoning", "finish"):
            facts[f"{start}{name}"] = as_text(choice.get(name))
        for at, call in enumerate(objects_in(choice.get("calls"))):
            arguments = call.get("arguments")
            end = " (never whole)" if arguments is None else f" {as_text(arguments)}"
            facts[f"{start}call {at}"] = as_text(call.get("name")) + end
    for at, repair in enumerate(objects_in(record.get("repairs"))):
        facts[f"repair {at + 1}"] = f"{as_text(repair.get('fix'))} {as_text(repair.get('tool'))}".strip()
    for reason, count in as_object(record.get("refusals")).items():
        facts[f"refused, {reason}"] = dump_json(count).decode()
    return facts


def _same(before: str, now: str) -> bool:
    """Return whether the texts are equal. A star matches any character: the proxy masks secrets in the record, and
    people mask words in the record or the answer.
    """
    if before == now:
        return True
    if len(before) != len(now) or _STAR not in before + now:
        return False
    return all(one == other or _STAR in (one, other) for one, other in zip(before, now, strict=True))
