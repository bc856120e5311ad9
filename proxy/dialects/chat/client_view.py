"""A client's view of a reply: texts, calls and the finish reason, read from its bytes.

It is as tolerant as a lenient client, so `parse --capture` can print every reply. Tests read replies with it, and check
strictness separately.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy import sse
from proxy.dialects.chat.answer import entries
from proxy.dialects.chat.writer import DONE
from proxy.json import Json, JsonObject, as_object, dump_json, object_in, objects_in


@dataclass(slots=True)
class CallView:
    """A call, as far as it was received."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ChoiceView:
    """A client's view of one choice. `tool_calls` are the calls by index."""

    text: str = ""
    reasoning: str = ""
    tool_calls: dict[int, CallView] = field(default_factory=dict)
    finish: str | None = None

    @property
    def ids(self) -> list[str]:
        """The calls' ids, in the order in which the calls started."""
        return [call.id for call in self.tool_calls.values()]

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The calls' names and arguments."""
        return [(call.name, call.arguments) for call in self.tool_calls.values()]

    def add(self, message: JsonObject) -> None:
        """Add the delta of a chunk, or the message of a whole answer.

        `{"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}` adds a fragment to the first call.
        """
        self.text += _text(message.get("content"))
        reasoning = message.get("reasoning") or message.get("reasoning_content") or message.get("thinking")
        self.reasoning += _text(reasoning)
        for number, call_entry in enumerate(objects_in(message.get("tool_calls"))):
            call = self.tool_calls.setdefault(_index(call_entry, number), CallView())
            call.id = _text(call_entry.get("id")) or call.id
            function = as_object(call_entry.get("function"))
            call.name += _text(function.get("name"))
            call.arguments += _text(function.get("arguments"))


@dataclass(slots=True)
class ReplyView:
    """A client's view of an answer.

    `error` is its error's message, or "". `chunks` are its JSON objects. `done`: the stream ended with `[DONE]`.
    """

    choices: dict[int, ChoiceView] = field(default_factory=dict)
    error: str = ""
    chunks: list[JsonObject] = field(default_factory=list)
    done: bool = False


def view_reply(data: bytes, *, streamed: bool) -> ReplyView:
    """Return a client's view of the bytes of a stream or a whole answer."""
    seen = ReplyView()
    if not streamed:
        _note(seen, data, "message")
        return seen
    decoder = sse.Decoder(len(data) + 2)
    for event in (*decoder.feed(data), *decoder.finish()):
        if event.data is not None and event.data.strip() == DONE:
            seen.done = True
        elif event.data is not None:
            _note(seen, event.data, "delta")
    return seen


def _note(seen: ReplyView, data: bytes, place: str) -> None:
    """Add one chunk or one answer; other data is ignored."""
    body = object_in(data)
    seen.chunks.append(body)
    if body.get("error"):
        error = body["error"]
        seen.error = _text(error.get("message") if isinstance(error, dict) else error)
    for number, entry in enumerate(entries(body)):
        choice = seen.choices.setdefault(_index(entry, number), ChoiceView())
        finish = entry.get("finish_reason")
        if isinstance(finish, str):
            choice.finish = finish
        choice.add(as_object(entry.get(place)))


def _index(entry: JsonObject, number: int) -> int:
    """Return the server's index, or the entry's position."""
    index = entry.get("index")
    if isinstance(index, int):
        return index
    return number


def _text(value: Json) -> str:
    """Return a string unchanged, and any other value as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return dump_json(value).decode("utf-8", "replace")
