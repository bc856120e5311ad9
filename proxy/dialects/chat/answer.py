"""Whole answers of Chat Completions, processed as a stream of one chunk and then rebuilt.

This way, streams and whole answers share one repair path. The message becomes a chunk, and the body changes only where
the engine's events differ from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.config.rules import ReasoningField, StripFields
from proxy.dialects.base import REASONING_FIELDS
from proxy.engine.events import (
    NO_FIELDS,
    CallArguments,
    CallFields,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
)
from proxy.engine.reading import choice_entries, other_fields, read_choice
from proxy.engine.whole_messages import delta_of, with_text
from proxy.errors import UpstreamBroken, refusal
from proxy.json import Json, JsonObject, as_list, as_object, as_text, dump_json, load_upstream, objects_in

# The name used if the server left the reasoning in the text.
APART = "reasoning_content"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """A client's requirements for its replies.

    `usage`: it requested the usage chunk (F61). `clean`: fields to remove for it. `heartbeat_chunk`: heartbeats must be
    chunks instead of comments (F76). `parsed`: the request offers tools. `reasoning`: the name of the reasoning field
    (F73). `calls_as_text`: it reads calls only in the text.
    """

    model: str
    usage: bool
    clean: StripFields
    heartbeat_chunk: bool = False
    parsed: bool = False
    reasoning: ReasoningField = "as_is"
    calls_as_text: bool = False


@dataclass(slots=True)
class _ChoiceContent:
    """The content of one choice according to the engine's events.

    `has_nameless`: a call has no name. Only an engine without tools, which changes no call, leaves such a call.
    """

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: dict[int, JsonObject] = field(default_factory=dict)
    has_nameless: bool = False
    finish: str = "stop"


def read_whole(body: bytes) -> JsonObject:
    """Parse the body of a whole answer. Raises the error it reports, or UpstreamBroken for other bodies."""
    return read_answer(body)[0]


def read_answer(body: bytes) -> tuple[JsonObject, bytes]:
    """Parse the body like `read_whole`, and return it with the bytes to forward if nothing else changes.

    These are its own bytes, unless a strict client could not read them: `{"choices": [...], "logprobs": NaN}` is
    encoded again. An answer of the legacy completions API (`{"choices": [{"text": "Hi"}]}`) is encoded as a chat
    completion.
    """
    try:
        answer, is_strict = load_upstream(body)
        if not is_strict:
            body = dump_json(answer)
    except (ValueError, RecursionError):
        raise UpstreamBroken("the model server's answer is not JSON") from None
    if not isinstance(answer, dict):
        raise UpstreamBroken("the model server's answer is not a JSON object")
    if answer.get("error"):
        raise refusal(answer["error"])
    if not isinstance(answer.get("choices"), list):
        raise UpstreamBroken("the model server's answer has no choices")
    choices = [*map(_with_message, as_list(answer["choices"]))]
    if choices != answer["choices"]:
        answer = {**answer, "object": "chat.completion", "choices": choices}
        body = dump_json(answer)
    if not all(isinstance(entry.get("message"), dict) for entry in choice_entries(answer)):
        raise UpstreamBroken("the model server's answer has a choice without a message")
    return answer, body


def _with_message(entry: Json) -> Json:
    """Return a choice with its text moved into a message."""
    if not isinstance(entry, dict) or "text" not in entry:
        return entry
    message = entry.get("message")
    if message is None and entry["text"] is not None:
        message = {"role": "assistant", "content": ""}
    if not isinstance(message, dict):
        return entry
    said = with_text(message, entry)
    if said == entry.get("message"):
        return entry
    return {**{name: value for name, value in entry.items() if name != "text"}, "message": said}


def as_chunk(answer: JsonObject) -> Chunk:
    """Return the answer as one chunk, without bytes.

    Choices are numbered by position; the answer keeps the server's `index`.
    """
    choices: list[Json] = []
    for number, entry in enumerate(entries(answer)):
        delta = delta_of(as_object(entry.get("message")))
        around = {name: value for name, value in entry.items() if name != "message"}
        choices.append({"finish_reason": None, **around, "index": number, "delta": delta})
    return Chunk({**answer, "choices": choices}, b"", streamed=False)


def rebuild(body: bytes, answer: JsonObject, events: Iterable[Event], options: ChatOptions) -> bytes:
    """Return the answer with the changes of the events, in the client's form; the bytes of `body` if nothing differs.

    Raises the error of a `Failed` event.
    """
    contents: defaultdict[int, _ChoiceContent] = defaultdict(_ChoiceContent)
    for event in events:
        for inner in event.events if isinstance(event, Unchanged) else (event,):
            _note(contents, inner)
    result = dict(answer)
    if options.parsed:
        result["choices"] = [_entry(entry, contents[number]) for number, entry in enumerate(entries(answer))]
    result = clean_body(result, options)
    return body if result == answer else dump_json(result)


def _note(contents: defaultdict[int, _ChoiceContent], event: Event) -> None:
    match event:
        case Failed():
            raise event.error
        case Text():
            contents[event.choice].text.append(event.text)
        case Reasoning():
            contents[event.choice].thoughts.append(event.text)
        case Finished():
            contents[event.choice].finish = event.reason
        case CallOpened():
            contents[event.choice].calls[event.index] = _call(event.id, event.name, "", NO_FIELDS)
        case CallArguments() if event.index not in contents[event.choice].calls:
            contents[event.choice].has_nameless = True
        case CallArguments():
            calls, fields = contents[event.choice].calls, event.fields or NO_FIELDS
            function = as_object(calls[event.index]["function"])
            arguments = f"{function['arguments']}{event.fragment}"
            function = {**function, "arguments": arguments, **fields.function}
            calls[event.index] = {**calls[event.index], "function": function, **fields.entry}


def _entry(entry: JsonObject, now: _ChoiceContent) -> JsonObject:
    """Return a choice with the differences from the events."""
    message = entry.get("message")
    if not isinstance(message, dict):
        return entry
    changed = dict(message)
    text, thoughts = "".join(now.text), "".join(now.thoughts)
    if text != read_choice({"delta": message}).text:
        # Blanks around a call are not content.
        changed["content"] = text if text.strip() else None
    if thoughts not in ("", read_choice({"delta": changed}).reasoning):
        changed[APART] = thoughts
    given: list[JsonObject] = []
    for call in objects_in(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            fields = other_fields(call, function) or NO_FIELDS
            given.append(_call(call.get("id"), function.get("name"), function.get("arguments"), fields))
    calls: list[Json] = [*now.calls.values()]
    if calls != given and not now.has_nameless:
        changed.pop("tool_calls", None)
        if calls:
            changed["tool_calls"] = calls
        if isinstance(message.get("function_call"), dict):
            changed["function_call"] = None  # it is one of the calls now
    return {**entry, "message": changed, "finish_reason": now.finish}


def _call(id_: Json, name: Json, arguments: Json, fields: CallFields) -> JsonObject:
    """Return a call with the server's additional fields for it."""
    function: JsonObject = {"name": name, "arguments": arguments, **fields.function}
    return {"id": id_, "type": "function", "function": function, **fields.entry}


def reasoning_names(reasoning: ReasoningField) -> tuple[str, ...]:
    """Return the names of the reasoning field for the client; none if it gets the server's."""
    return () if reasoning == "as_is" else REASONING_FIELDS if reasoning == "both" else (reasoning,)


def clean_body(body: JsonObject, options: ChatOptions) -> JsonObject:
    """Clean a chunk or an answer for the client.

    Fields that the client does not expect and empty call lists are removed (F64). Reasoning gets the name that the
    client reads (F73).
    """
    clean = options.clean
    result = {key: value for key, value in body.items() if key not in clean.top}
    usage = result.get("usage")
    if isinstance(usage, dict):
        result["usage"] = {key: value for key, value in usage.items() if key not in clean.usage}
    if isinstance(result.get("choices"), list):
        result["choices"] = [_clean_entry(entry, options) for entry in entries(body)]
    return result


def _clean_entry(entry: JsonObject, options: ChatOptions) -> JsonObject:
    clean, names = options.clean, reasoning_names(options.reasoning)
    result = {key: value for key, value in entry.items() if key not in clean.choice}
    for name in ("delta", "message"):
        content = result.get(name)
        if isinstance(content, dict):
            if names:
                content = _renamed(content, names)
            kept = {key: value for key, value in content.items() if key not in clean.message}
            if (options.parsed or clean) and kept.get("tool_calls") == []:
                del kept["tool_calls"]
            result[name] = kept
    return result


def _renamed(content: JsonObject, names: tuple[str, ...]) -> JsonObject:
    """Return a delta or message with its reasoning under these names, in the same place."""
    text = next(filter(None, (as_text(content.get(name)) for name in REASONING_FIELDS)), "")
    if not text:
        return content
    result: JsonObject = {}
    for key, value in content.items():
        result |= dict.fromkeys(names, text) if key in REASONING_FIELDS else {key: value}
    return result


def entries(body: JsonObject) -> list[JsonObject]:
    """Return the objects in the `choices` of a chunk or an answer."""
    return objects_in(body.get("choices"))
