"""Fields of a server's first choice that the engine does not read, for the dialects that have one choice.

Source: OpenAI's API reference, "Chat Completions": `choices`, `refusal`.
"""

from __future__ import annotations

from proxy.codec.json_access import as_object, objects_in
from proxy.codec.json_text import JsonObject
from proxy.engine.events import choice_number


def first_choice(body: JsonObject) -> JsonObject:
    """The delta, or the message, of the first choice; an empty one if it says nothing here.

    A server may give more than one, in any order: those of a chunk have numbers, those of a whole answer are counted by
    their place.
    """
    for place, entry in enumerate(objects_in(body.get("choices"))):
        number = place
        if "delta" in entry:
            number = choice_number(entry.get("index"))
        if number == 0:
            return as_object(entry.get("delta")) or as_object(entry.get("message"))
    return {}
