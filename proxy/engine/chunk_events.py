"""What a chunk says that passes unparsed, for the dialects that must say it in their own words."""

from __future__ import annotations

from proxy.codec.json_access import objects_in
from proxy.codec.json_text import JsonObject
from proxy.engine.call_delta import call_events
from proxy.engine.choice_delta import read_choice
from proxy.engine.events import Chunk, ContentEvent, Finished, Usage, choice_number


def events_of(chunk: Chunk) -> tuple[ContentEvent, ...]:
    """What a chunk says: its texts, its pieces of calls, its finish and its counts."""
    events: list[ContentEvent] = []
    choices = chunk.body.get("choices")
    for number, entry in enumerate(objects_in(choices)):
        events += _choice_events(entry, chunk, first=number == 0)
    usage = chunk.body.get("usage")
    if isinstance(usage, dict):
        events.append(Usage(usage))
    return tuple(events)


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
