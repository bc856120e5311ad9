"""One reply out of two tries: what the client reads is one envelope, one usage, and reasoning once (F63, F72).

A call that cannot be read is asked for again (`broken_calls`): every server that guides its decoding does so where a
tool is forced. Its call takes the place of the broken one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.codec import sse
from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.dialects.chat.answer import as_chunk
from proxy.engine.engine import Engine
from proxy.engine.events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Finished,
    Reasoning,
    Rest,
    Text,
    Unchanged,
    Usage,
)
from proxy.engine.reading import was_cut
from proxy.errors import UpstreamBroken


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


def guided_call(answer: JsonObject, engine: Engine, tool: str) -> Call:
    """The call of the second answer, of which the engine takes one; UpstreamBroken if it has another one, or none, or
    was cut off: half a call is not what the model meant (contract C4).
    """
    if any(was_cut(as_text(entry.get("finish_reason")) or None) for entry in objects_in(answer.get("choices"))):
        raise UpstreamBroken("the model server was made to call a tool, and was cut off")
    events = (*engine.feed(as_chunk(answer)), *engine.finish(done=True))
    calls = [event.call for event in events if isinstance(event, CallClosed)]
    if [call.name for call in calls] != [tool] or engine.empty_calls:
        raise UpstreamBroken("the model server was made to call a tool, and did not")
    return calls[0]


def events_instead(broken: Text, call: Call, usage: JsonObject) -> tuple[Event, ...]:
    """The end of a stream with the call in the place of the broken one."""
    choice = broken.choice
    events = (
        CallOpened(choice, 0, call.id, call.name),
        CallArguments(choice, 0, call.arguments),
        CallClosed(choice, 0, call, ()),
        Finished(choice, "tool_calls", None),
    )
    return (*events, Usage(usage)) if usage else events


def answer_instead(answer: JsonObject, broken: Text, call: Call, usage: JsonObject) -> JsonObject:
    """A whole answer with the call in the place of the broken one."""
    [entry, *_] = objects_in(answer.get("choices"))
    message = as_object(entry.get("message"))
    content = message.get("content")
    if isinstance(content, str) and broken.text in content:
        content = content[: content.rindex(broken.text)].rstrip() or None
    called: JsonObject = {"id": call.id, "type": "function"}
    called["function"] = {"name": call.name, "arguments": call.arguments}
    message = {**message, "content": content, "tool_calls": [called]}
    message.pop("function_call", None)
    changed: JsonObject = {**answer, "choices": [{**entry, "message": message, "finish_reason": "tool_calls"}]}
    if usage:
        changed["usage"] = usage
    return changed
