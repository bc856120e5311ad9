"""The deltas of a chunk that has a whole message, and the events of a chunk that is not parsed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import is_

from proxy.codec import sse
from proxy.codec.json_access import as_object, may_hold_text
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.engine.call_delta import call_events, delta_of
from proxy.engine.choice_delta import REASONING_FIELDS, answers, choice_entries, read_choice, reasons, with_text
from proxy.engine.events import Chunk, ContentEvent, Finished, Usage, choice_number
from proxy.errors import UnreadableReply


def events_of(chunk: Chunk) -> tuple[ContentEvent, ...]:
    """What a chunk says: its texts, its pieces of calls, its finish and its counts."""
    events: list[ContentEvent] = []
    for number, entry in enumerate(choice_entries(chunk.body)):
        events += _choice_events(entry, chunk, first=number == 0)
    usage = chunk.body.get("usage")
    if isinstance(usage, dict):
        events.append(Usage(usage))
    return tuple(events)


@dataclass(slots=True)
class WholeMessages:
    """Replaces whole messages and completion texts in a stream by deltas, choice by choice.

    A message is the delta of its choice until the choice has text or calls; later it repeats them. Reasoning that was
    sent is not sent again.

    {"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    """

    # Choices that have text, a refusal or calls, and choices that have reasoning.
    _answered: set[int] = field(default_factory=set)
    _reasoned: set[int] = field(default_factory=set)
    # The content of the messages that were taken as deltas.
    _taken: dict[int, Json] = field(default_factory=dict)

    def answered(self, choice: int) -> None:
        """Note that a choice has a call that is not in its deltas."""
        self._answered.add(choice)

    def with_deltas(self, chunk: Chunk, entries: list[JsonObject]) -> tuple[Chunk, list[JsonObject]]:
        """Return the chunk and its entries, rewritten if the text of an entry is not in its delta.

        Raise UnreadableReply if a choice has two messages of different content.
        """
        changed = [self._with_delta(entry) for entry in entries]
        for entry in changed:
            self._note(entry)
        if all(map(is_, changed, entries)):
            return chunk, entries
        body: JsonObject = {**chunk.body, "object": "chat.completion.chunk", "choices": [*changed]}
        return replace(chunk, body=body, raw=sse.encode(dump_json(body))), changed

    def _with_delta(self, entry: JsonObject) -> JsonObject:
        if "message" not in entry and "text" not in entry:
            return entry
        delta = entry.get("delta")
        if not isinstance(delta, dict):
            if may_hold_text(delta):
                return entry
            delta = {}
        message = self._new_in_message(entry, delta)
        said = {name: value for name, value in delta.items() if value} if message else delta
        new = with_text({**delta_of(message), **said}, entry)
        if new == delta and ("delta" in entry or "message" in entry):
            return entry
        around = {name: value for name, value in entry.items() if name != "text" and (name != "message" or not message)}
        return {**around, "delta": new}

    def _new_in_message(self, entry: JsonObject, delta: JsonObject) -> JsonObject:
        """Return the message of an entry without what its choice has sent; empty if nothing is left."""
        message = as_object(entry.get("message"))
        choice = choice_number(entry.get("index"))
        content = message.get("content")
        if choice in self._taken and content and content != self._taken[choice]:
            raise UnreadableReply("a second `message` with other content")
        if choice in self._answered or answers(delta):
            return {}
        if choice in self._reasoned or reasons(delta):
            message = {name: value for name, value in message.items() if name not in REASONING_FIELDS}
        if isinstance(entry.get("delta"), dict) and not answers(message) and not reasons(message):
            return {}
        if content:
            self._taken[choice] = content
        return message

    def _note(self, entry: JsonObject) -> None:
        delta = entry.get("delta")
        if isinstance(delta, dict):
            if answers(delta):
                self._answered.add(choice_number(entry.get("index")))
            elif reasons(delta):
                self._reasoned.add(choice_number(entry.get("index")))


def _choice_events(entry: JsonObject, chunk: Chunk, *, first: bool) -> list[ContentEvent]:
    """What one entry of a chunk's `choices` says."""
    delta = read_choice(entry)
    number = choice_number(entry.get("index"))
    events: list[ContentEvent] = [*delta.content(number)]
    for call in delta.calls:
        events += call_events(number, call)
    if delta.finish:
        events.append(Finished(number, delta.finish, chunk.part(entry, first=first)))
    return events
