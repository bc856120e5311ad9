"""Access to the messages of a request without changing them. Unchanged parts keep their identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TypeAlias

from proxy.json import Json, JsonObject, as_list, as_object, as_text, objects_in

Messages = Sequence[JsonObject]
Change: TypeAlias = Callable[[JsonObject], JsonObject]


def user_message(content: Json) -> JsonObject:
    """Return a message of the user."""
    return {"role": "user", "content": content}


def role_of(message: JsonObject) -> str:
    """Return the role of a message, or ""."""
    return as_text(message.get("role"))


def calls_of(message: JsonObject) -> list[JsonObject]:
    """Return the calls of an assistant's message."""
    if role_of(message) != "assistant":
        return []
    return objects_in(message.get("tool_calls"))


def function_of(call: JsonObject) -> JsonObject:
    """Return the object `function` of a call."""
    return as_object(call.get("function"))


def with_function(entry: JsonObject, change: Change) -> JsonObject:
    """Return a call, a tool or a tool choice with its function changed."""
    function = function_of(entry)
    new = change(function) if function else function
    return entry if new is function else {**entry, "function": new}


def with_value(entry: JsonObject, key: str, value: Json) -> JsonObject:
    """Return an object with this value under a key."""
    return entry if entry.get(key) == value else {**entry, key: value}


def all_the_same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Return whether two sequences hold the same objects."""
    return len(new) == len(old) and all(map(is_, new, old))


def replaced(body: JsonObject, key: str, value: Sequence[Json]) -> JsonObject:
    """Return an object with another list under a key; the same object if the list holds the same objects."""
    if all_the_same(value, as_list(body.get(key))):
        return body
    return {**body, key: [*value]}


def messages_of(body: JsonObject) -> list[JsonObject]:
    """Return the messages of a body; none if one of them is not an object."""
    messages = objects_in(body.get("messages"))
    return messages if len(messages) == len(as_list(body.get("messages"))) else []


def on_messages(change: Callable[[Messages], Messages]) -> Change:
    """Turn a change of all messages into a change of the body. A body with a message that is not an object stays
    unchanged.
    """

    def changed(body: JsonObject) -> JsonObject:
        messages = messages_of(body)
        return replaced(body, "messages", [*change(messages)]) if messages else body

    return changed


def on_each(change: Change) -> Change:
    """Turn a change of one message into a change of the body."""
    return on_messages(lambda messages: [*map(change, messages)])


def on_calls(change: Change) -> Change:
    """Turn a change of one call into a change of the body."""

    def message_of(message: JsonObject) -> JsonObject:
        if not calls_of(message):
            return message
        calls = as_list(message.get("tool_calls"))
        return replaced(message, "tool_calls", [change(call) if isinstance(call, dict) else call for call in calls])

    return on_each(message_of)


def on_functions(change: Change) -> Change:
    """Turn a change of one call's function into a change of the body."""
    return on_calls(lambda call: with_function(call, change))


def text_part(text: str) -> JsonObject:
    """Return a content part of text."""
    return {"type": "text", "text": text}


def is_text_part(part: Json) -> bool:
    """Return whether a content part is text and nothing else."""
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def text_of(content: Json) -> str | None:
    """Return the text of a content; None if it holds more than text."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list) or not all(map(is_text_part, content)):
        return None
    return "\n".join(str(part["text"]) for part in objects_in(content))


def joined(*contents: Json) -> Json:
    """Join several contents: into one text if all are texts, else into a list of parts."""
    texts = [text for text in map(text_of, contents) if text is not None]
    if len(texts) == len(contents):
        return "\n\n".join(filter(None, texts))
    parts: list[Json] = []
    for content in contents:
        parts += [text_part(content)] if isinstance(content, str) and content else as_list(content)
    return parts


class Talk:
    """A conversation that is rebuilt, message by message."""

    def __init__(self) -> None:
        self._turns: list[tuple[JsonObject, list[Json]]] = []

    @property
    def last(self) -> str:
        """The role of the last message, or ""."""
        return role_of(self._turns[-1][0]) if self._turns else ""

    def say(self, message: JsonObject) -> None:
        """Append a message."""
        self._turns.append((message, []))

    def add(self, content: Json) -> None:
        """Append content to the last message."""
        self._turns[-1][1].append(content)

    def messages(self) -> list[JsonObject]:
        """Return the messages. The contents of each are joined once, however many were added."""
        return [
            {**message, "content": joined(message.get("content"), *more)} if more else message
            for message, more in self._turns
        ]


@dataclass(slots=True)
class Block:
    """A message with its calls and, if it has any, everything up to the next message of the assistant."""

    first: JsonObject
    calls: list[JsonObject]
    rest: list[JsonObject] = field(default_factory=list)

    @property
    def messages(self) -> list[JsonObject]:
        """All messages."""
        return [self.first, *self.rest]


def blocks_of(messages: Messages) -> list[Block]:
    """Return the conversation in blocks: single messages, and each turn of calls with its results."""
    blocks: list[Block] = []
    for message in messages:
        if role_of(message) != "assistant" and blocks and blocks[-1].calls:
            blocks[-1].rest.append(message)
        else:
            blocks.append(Block(message, calls_of(message)))
    return blocks


def on_blocks(change: Callable[[Block], Sequence[JsonObject]]) -> Change:
    """Turn a change of each block into a change of the body."""
    return on_messages(lambda messages: [each for block in blocks_of(messages) for each in change(block)])
