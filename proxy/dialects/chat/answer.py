"""Chat Completions in one piece: a whole answer takes the way of a stream of one chunk, and comes back together.

There is no second code path that repairs: the message becomes a chunk, the engine says what it holds, and only what
it says differently is changed in the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from proxy.codec.json_access import as_list, as_object, objects_in
from proxy.codec.json_text import Json, JsonObject, dump_json, load_upstream
from proxy.config.rules import ReasoningField, StripFields
from proxy.dialects.chat.writer import (
    APART,
    ChatOptions,
    ChatWriter,
    clean_body,
    entries,
    new_writer,
    with_calls_as_text,
)
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

# The fields of a message that say something.
_SAYS = ("content", "tool_calls", "function_call", "reasoning", "reasoning_content", "thinking", "refusal")


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """Chat Completions for one request."""

    options: ChatOptions
    verbatim: ClassVar[bool] = True
    keeps: ClassVar[bool] = False

    def writer(self, *, expand: bool) -> ChatWriter:
        """A writer for one stream; `expand`: what passes is no chunk of a stream, so it is said anew."""
        return new_writer(self.options, expand=expand)

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """A whole answer as the events say it, the very bytes of `body` if that is the same."""
        options = self.options
        reply_events = tuple(events)
        # Where nothing is looked for the answer passes; else the engine says what it holds, which may be nothing.
        parsed = options.parsed or not any(isinstance(event, Unchanged) for event in reply_events)
        if options.calls_as_text:
            reply_events = tuple(part for event in reply_events for part in with_calls_as_text(event))
        return rebuild(body, answer, reply_events, options.clean, parsed=parsed, reasoning=options.reasoning)


@dataclass(slots=True)
class _ChoiceContent:
    """The engine's events of one choice, put together."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[JsonObject] = field(default_factory=list)
    finish: str = "stop"


def read_whole(body: bytes) -> JsonObject:
    """Parse the body of a whole answer. Raise the error that it reports, and UpstreamBroken if it is not an answer."""
    return read_answer(body)[0]


def read_answer(body: bytes) -> tuple[JsonObject, bytes]:
    """Return the parsed body as `read_whole` does, and the bytes that may pass for it.

    These are its own unless a strict client could not read them: `{"choices": [...], "logprobs": NaN}` is written
    again. So is an answer of the legacy completions API, as the chat completion that clients read:
    `{"choices": [{"text": "Hi"}]}`.
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
    changed = _with_messages(answer)
    if changed != answer:
        answer, body = changed, dump_json(changed)
    if not all(isinstance(entry.get("message"), dict) for entry in choice_entries(answer)):
        raise UpstreamBroken("the model server's answer has a choice without a message")
    return answer, body


def _with_messages(answer: JsonObject) -> JsonObject:
    """Return an answer whose texts are all in the messages of its choices."""
    given = as_list(answer["choices"])
    choices: list[Json] = [
        _with_message(entry) if isinstance(entry, dict) and "text" in entry else entry for entry in given
    ]
    return answer if choices == given else {**answer, "object": "chat.completion", "choices": choices}


def _with_message(entry: JsonObject) -> JsonObject:
    message = entry.get("message")
    if isinstance(message, dict):
        said = with_text(message, entry)
    elif message is None and entry["text"] is not None:
        said = with_text({"role": "assistant", "content": ""}, entry)
    else:
        return entry
    if said == message:
        return entry
    return {**{name: value for name, value in entry.items() if name != "text"}, "message": said}


def says_nothing(answer: JsonObject) -> bool:
    """True for an answer that used tokens and holds neither text nor call: a parser may have swallowed one."""
    tokens = as_object(answer.get("usage")).get("completion_tokens")
    if not isinstance(tokens, int) or tokens <= 1:
        return False
    messages = [as_object(entry.get("message")) for entry in entries(answer)]
    return not any(message.get(key) for message in messages for key in _SAYS)


def as_chunk(answer: JsonObject) -> Chunk:
    """The answer as the one chunk that says all of it; it has no bytes of its own.

    The choices are counted by their place: what a server wrote as `index` stays in the answer.
    """
    choices: list[Json] = []
    for number, entry in enumerate(entries(answer)):
        delta = delta_of(as_object(entry.get("message")))
        around = {name: value for name, value in entry.items() if name != "message"}
        choices.append({"finish_reason": None, **around, "index": number, "delta": delta})
    return Chunk({**answer, "choices": choices}, b"", streamed=False)


def rebuild(
    body: bytes,
    answer: JsonObject,
    events: Iterable[Event],
    clean: StripFields,
    *,
    parsed: bool,
    reasoning: ReasoningField = "as_is",
) -> bytes:
    """The answer as the engine says it and as the client wants it; the very bytes that came if that is the same.

    Raises the error of a `Failed` event.
    """
    contents: dict[int, _ChoiceContent] = {}
    for event in _flat(events):
        _note(contents, event)
    result = dict(answer)
    if parsed:
        result["choices"] = [_entry(entry, contents, number) for number, entry in enumerate(entries(answer))]
    result = clean_body(result, clean, drop_empty_calls=parsed or bool(clean), reasoning=reasoning)
    if result == answer:
        return body
    return dump_json(result)


def _entry(entry: JsonObject, contents: dict[int, _ChoiceContent], number: int) -> JsonObject:
    now = contents.get(number, _ChoiceContent())
    message = entry.get("message")
    if not isinstance(message, dict):
        return entry
    changed = dict(message)
    text, thoughts = "".join(now.text), "".join(now.thoughts)
    if text != read_choice({"delta": message}).text:
        # Blanks around a call are no content.
        changed["content"] = text if text.strip() else None
    if thoughts not in ("", read_choice({"delta": changed}).reasoning):
        changed[APART] = thoughts
    if now.calls != _calls_of_server(message.get("tool_calls")):
        changed.pop("tool_calls", None)
        if now.calls:
            changed["tool_calls"] = [*now.calls]
        if isinstance(message.get("function_call"), dict):
            changed["function_call"] = None  # it is among the calls now
    return {**entry, "message": changed, "finish_reason": now.finish}


def _calls_of_server(calls: Json) -> list[JsonObject]:
    """The server's own calls in the words in which `_note` says them, to see whether something changed."""
    rebuilt_calls: list[JsonObject] = []
    for call in objects_in(calls):
        function = call.get("function")
        if isinstance(function, dict):
            rebuilt = _call(call.get("id"), function.get("name"), function.get("arguments"))
            rebuilt_calls.append(_with_fields(rebuilt, other_fields(call, function)))
    return rebuilt_calls


def _call(id_: Json, name: Json, arguments: Json) -> JsonObject:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _with_fields(call: JsonObject, fields: CallFields | None) -> JsonObject:
    """A call with what else the server says of it."""
    fields = fields or NO_FIELDS
    return {**call, "function": {**as_object(call["function"]), **fields.function}, **fields.entry}


def _note(contents: dict[int, _ChoiceContent], event: Event) -> None:
    match event:
        case Failed():
            raise event.error
        case Text():
            contents.setdefault(event.choice, _ChoiceContent()).text.append(event.text)
        case Reasoning():
            contents.setdefault(event.choice, _ChoiceContent()).thoughts.append(event.text)
        case Finished():
            contents.setdefault(event.choice, _ChoiceContent()).finish = event.reason
        case CallOpened():
            contents.setdefault(event.choice, _ChoiceContent()).calls.append(_call(event.id, event.name, ""))
        case CallArguments():
            calls = contents[event.choice].calls
            function = calls[event.index]["function"]
            assert isinstance(function, dict)
            function["arguments"] = f"{function['arguments']}{event.fragment}"
            calls[event.index] = _with_fields(calls[event.index], event.fields)
        case _:
            pass


def _flat(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, Unchanged):
            yield from event.events
        else:
            yield event
