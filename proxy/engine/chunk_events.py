"""The events of a chunk that passes unparsed, for the dialects that write everything in their own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proxy.codec import sse
from proxy.codec.json_access import as_object
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.engine.call_delta import call_events, delta_of
from proxy.engine.choice_delta import choice_entries, read_choice
from proxy.engine.events import Chunk, ContentEvent, Finished, Usage, choice_number


def events_of(chunk: Chunk) -> tuple[ContentEvent, ...]:
    """What a chunk says: its texts, its pieces of calls, its finish and its counts."""
    events: list[ContentEvent] = []
    for number, entry in enumerate(choice_entries(chunk.body)):
        events += _choice_events(entry, chunk, first=number == 0)
    usage = chunk.body.get("usage")
    if isinstance(usage, dict):
        events.append(Usage(usage))
    return tuple(events)


def with_deltas(chunk: Chunk, entries: Sequence[JsonObject]) -> Chunk:
    """Return a chunk with a delta for each whole message: some servers send all of a stream in one event.

    Only for the first chunk that says something; in later ones a message repeats what was said.

    {"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    """
    if not any(map(_is_whole, entries)):
        return chunk
    choices: list[Json] = [_with_delta(entry) if _is_whole(entry) else entry for entry in entries]
    body: JsonObject = {**chunk.body, "object": "chat.completion.chunk", "choices": choices}
    return replace(chunk, body=body, raw=sse.encode(dump_json(body)))


def _is_whole(entry: JsonObject) -> bool:
    return not entry.get("delta") and isinstance(entry.get("message"), dict)


def _with_delta(entry: JsonObject) -> JsonObject:
    around = {name: value for name, value in entry.items() if name != "message"}
    return {**around, "delta": delta_of(as_object(entry["message"]))}


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
