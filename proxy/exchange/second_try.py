"""One more try for a reply that says nothing: when, how, and how the two become one (F63, F72).

Quiet: the client sees one reply. Only where the model ended by itself, tools are offered, the answer was not begun by
the client, and one answer is asked for. Nothing is decided by what words mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from proxy.audit_record import Repair
from proxy.codec import sse
from proxy.codec.json_access import as_list, as_object, objects_in
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.dialects.chat.request import ChatRequest
from proxy.engine.events import Chunk, Event, Reasoning, Rest, Text, Unchanged
from proxy.exchange.reply_content import ContentLevel, ReplyContent

# The id of its record.
FIX = "second_try"


class Why(Enum):
    """Why a request went up once more."""

    EMPTY = "the reply was empty"
    THOUGHT = "the reply was only thought"
    SWALLOWED = "the reply used tokens and said nothing: the server's parser may have swallowed a call"
    BROKEN = "the reply ended with a call that cannot be read"


# Those of replies that say nothing.
SILENT = frozenset((Why.EMPTY, Why.THOUGHT, Why.SWALLOWED))


def reasons_to_ask_again(request: ChatRequest) -> frozenset[Why]:
    """Return the reasons for which this request is retried: a reply that says nothing, and, unless the client wants
    JSON, a call that cannot be read.
    """
    if request.tools is None or request.body.get("n") not in (None, 1) or _is_prefilled(request.body):
        return frozenset()
    return SILENT if request.json_reply else SILENT | {Why.BROKEN}


def _is_prefilled(body: JsonObject) -> bool:
    """True if the client wrote the beginning of the answer."""
    if body.get("continue_final_message") or body.get("add_generation_prompt") is False:
        return True
    messages = as_list(body.get("messages"))
    return bool(messages) and as_object(messages[-1]).get("role") == "assistant"


def why_again(
    content: ReplyContent, tokens: int, broken: Text | None = None, *, in_thought: bool = False
) -> Why | None:
    """Return why a reply that has ended is worth one more try, or None.

    `broken` is the unreadable call with which the reply ended, and `in_thought` says that it ended in reasoning that
    the engine separated from the text. Reasoning that is never closed may contain the answer, so it is sent once.
    """
    if broken is not None:
        return Why.BROKEN if content.ended_by_itself() else None
    if not content.ended_without_answer():
        return None
    if content.level is ContentLevel.THOUGHT:
        return None if in_thought or content.open_thought else Why.THOUGHT
    if content.used_without_a_word(tokens):
        return Why.SWALLOWED
    return Why.EMPTY


def record(why: Why | None, broken: Text | None = None, arguments: str = "") -> tuple[Repair, ...]:
    """The audit record of one more try, if there was one: also the `broken` call, and the arguments of the other."""
    if why is None:
        return ()
    words = f"{why.value}; the request went up once more"
    if broken is None:
        return (Repair(FIX, "", "", words),)
    return (Repair(FIX, broken.text, arguments, words, broken.broken),)


@dataclass(frozen=True, slots=True)
class EarlierTry:
    """The facts of the first reply for the second one: its token counts, and, if something of it has left, the
    `envelope` of its chunks (id, time, model), for both are one reply. `thought`: its reasoning has been sent, so that
    of the second one is not, as it may be the same.
    """

    usage: JsonObject = field(default_factory=dict)
    envelope: JsonObject = field(default_factory=dict)
    thought: bool = False

    @property
    def tokens(self) -> int:
        """The tokens that the model used, as far as the server says it."""
        used = self.usage.get("completion_tokens")
        return used if isinstance(used, int) else 0

    def joined(self, body: JsonObject) -> JsonObject | None:
        """A chunk, or the whole, of the second reply as one of the one reply; None where it stays as it is."""
        changed: JsonObject = {**body, **{key: value for key, value in self.envelope.items() if key in body}}
        if isinstance(body.get("usage"), dict):
            changed["usage"] = summed(self.usage, as_object(body["usage"]))
        if self.envelope and "choices" in body:
            changed["choices"] = [_without_role(entry) for entry in objects_in(body["choices"])]
        return None if changed == body else changed

    def unsaid(self, event: Event) -> tuple[Event, ...]:
        """Return the event of the second reply, without reasoning if the client has received some already."""
        if not self.thought:
            return (event,)
        if isinstance(event, Reasoning):
            return () if event.source is None else (Rest(event.choice, event.source),)
        if isinstance(event, Unchanged) and any(isinstance(said, Reasoning) for said in event.events):
            return tuple(said for said in event.events if not isinstance(said, Reasoning))
        return (event,)

    def joined_chunk(self, chunk: Chunk) -> Chunk:
        """A chunk of the second reply as one of the one reply."""
        body = self.joined(chunk.body)
        if body is None:
            return chunk
        return Chunk(body, sse.encode(dump_json(body)), chunk.sequence)


def envelope_of(body: JsonObject) -> JsonObject:
    """The members that all chunks of a reply have alike."""
    return {key: body[key] for key in ("id", "created", "model", "system_fingerprint") if key in body}


def _without_role(entry: JsonObject) -> JsonObject:
    """An entry of a chunk whose role the client knows already."""
    delta = as_object(entry.get("delta"))
    if "role" not in delta:
        return entry
    return {**entry, "delta": {key: value for key, value in delta.items() if key != "role"}}


def summed(one: Mapping[str, Json], other: Mapping[str, Json]) -> JsonObject:
    """Token counts of two tries: the sum of each number, also of those inside."""
    total: JsonObject = {**one, **other}
    for key in one.keys() & other.keys():
        total[key] = _sum(one[key], other[key])
    return total


def _sum(one: Json, other: Json) -> Json:
    if isinstance(one, dict) and isinstance(other, dict):
        return summed(one, other)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one + other
    return other if other is not None else one
