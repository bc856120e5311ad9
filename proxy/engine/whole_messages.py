"""Converts whole messages and completion texts in a stream to deltas, and unparsed chunks to events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import is_

from proxy import sse
from proxy.engine.events import Chunk, ContentEvent, Finished, Usage, choice_number
from proxy.engine.reading import ANSWER_FIELDS, REASONING_FIELDS, choice_entries, numbered, read_choice
from proxy.errors import UnreadableReply
from proxy.json import Json, JsonObject, as_object, dump_json, may_hold_text, without

# Fields that are an answer.
_ANSWER = (*ANSWER_FIELDS, "refusal")


def events_of(chunk: Chunk) -> tuple[ContentEvent, ...]:
    """Return the events of a chunk: text, reasoning, calls, finish and usage."""
    events: list[ContentEvent] = []
    for place, entry in enumerate(choice_entries(chunk.body)):
        delta, number = read_choice(entry), choice_number(entry.get("index"))
        events += delta.events(number)
        if delta.finish:
            events.append(Finished(number, delta.finish, chunk.part(entry, first=place == 0)))
    usage = chunk.body.get("usage")
    if isinstance(usage, dict):
        events.append(Usage(usage))
    return tuple(events)


def delta_of(message: JsonObject) -> JsonObject:
    """Return a whole message as one delta, with its calls numbered by position."""
    return {**message, "tool_calls": numbered(message["tool_calls"])} if message.get("tool_calls") else {**message}


def with_text(said: JsonObject, entry: JsonObject) -> JsonObject:
    """Return the delta or message of an entry, with the entry's `text` as its content if it has none.

    The legacy Completions API uses `text`. Together sends the text in both places.

    {"index": 0, "text": "Let me look.", "finish_reason": null}
    """
    text = entry.get("text")
    if not may_hold_text(text) or said.get("content") or text in [said.get(name) for name in REASONING_FIELDS]:
        return said
    return {**said, "content": text}


@dataclass(slots=True)
class WholeMessages:
    """Replaces whole messages and completion texts in a stream by deltas, choice by choice.

    A message becomes a delta if its choice has had no text or calls yet. A later message only repeats them. Reasoning
    is never sent twice.

    {"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    """

    # The choices that have sent an answer, and those that have sent reasoning.
    _answered: set[int] = field(default_factory=set)
    _reasoned: set[int] = field(default_factory=set)
    # The content of messages that became deltas.
    _taken: dict[int, Json] = field(default_factory=dict)

    def with_deltas(self, chunk: Chunk, entries: list[JsonObject]) -> tuple[Chunk, list[JsonObject]]:
        """Return the chunk and its entries, rewritten if the text of an entry is not in its delta.

        Raises UnreadableReply if a choice has two messages with different content.
        """
        changed = [self._with_delta(entry) for entry in entries]
        for entry in changed:
            self._note(choice_number(entry.get("index")), as_object(entry.get("delta")))
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
        return {**without(entry, "text", *(("message",) if message else ())), "delta": new}

    def _new_in_message(self, entry: JsonObject, delta: JsonObject) -> JsonObject:
        """Return the message of an entry without content that its choice has already sent; {} if nothing is left."""
        message = as_object(entry.get("message"))
        choice = choice_number(entry.get("index"))
        content = message.get("content")
        if choice in self._taken and content and content != self._taken[choice]:
            raise UnreadableReply("a second `message` with other content")
        self._note(choice, delta)
        if choice in self._answered:
            return {}
        if choice in self._reasoned:
            message = without(message, *REASONING_FIELDS)
        if isinstance(entry.get("delta"), dict) and not any(map(message.get, (*_ANSWER, *REASONING_FIELDS))):
            return {}
        if content:
            self._taken[choice] = content
        return message

    def _note(self, choice: int, delta: JsonObject) -> None:
        """Note that a choice has sent the content of a delta."""
        if any(map(delta.get, _ANSWER)):
            self._answered.add(choice)
        if any(map(delta.get, REASONING_FIELDS)):
            self._reasoned.add(choice)
