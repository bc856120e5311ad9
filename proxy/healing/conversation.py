"""The messages of a request, gone through without changing them: what stays the same stays the very same object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import is_

from proxy.codec.json_access import as_list, as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject

Messages = Sequence[JsonObject]


def role_of(message: JsonObject) -> str:
    """The role that a message says; "" if none."""
    role = message.get("role")
    return role if isinstance(role, str) else ""


def calls_of(message: JsonObject) -> list[JsonObject]:
    """The calls of an assistant's message."""
    if role_of(message) != "assistant":
        return []
    return objects_in(message.get("tool_calls"))


def function_of(call: JsonObject) -> JsonObject:
    """The object `function` of a call."""
    return as_object(call.get("function"))


def all_the_same(new: Sequence[object], old: Sequence[object]) -> bool:
    """True if two sequences hold the very same objects."""
    if len(new) != len(old):
        return False
    return all(map(is_, new, old))


def replaced(body: JsonObject, key: str, value: Sequence[Json]) -> JsonObject:
    """The body with another list under a key; the very same body if the list holds the same objects."""
    if all_the_same(value, as_list(body.get(key))):
        return body
    return {**body, key: [*value]}


def on_messages(change: Callable[[Messages], Messages]) -> Callable[[JsonObject], JsonObject]:
    """A change of all messages as one of the body. A body whose messages are no objects stays as it is."""

    def changed(body: JsonObject) -> JsonObject:
        messages = as_list(body.get("messages"))
        # Each healing comes by here, however long the conversation is.
        if {*map(type, messages)} != {dict}:
            return body
        new: list[Json] = [*change(objects_in(messages))]
        return body if all_the_same(new, messages) else {**body, "messages": new}

    return changed


# A body of any kind has it.
ANY = "any"


def traits_of(body: JsonObject) -> set[str]:
    """The traits of the messages, so that what mends something else need not look at them: the keys, the roles, and
    the types of the contents (`str`, `list`, `NoneType`). One that means another of them only leads to a look too many.
    """
    messages = objects_in(body.get("messages"))
    traits = {ANY, *chain.from_iterable(messages)}
    for message in messages:
        traits.add(role_of(message))
        traits.add(type(message.get("content")).__name__)
    return traits


def on_each(change: Callable[[JsonObject], JsonObject]) -> Callable[[JsonObject], JsonObject]:
    """A change of one message as one of the body."""
    return on_messages(lambda messages: [change(message) for message in messages])


def on_calls(
    change_in: Callable[[JsonObject], Callable[[JsonObject], JsonObject]],
) -> Callable[[JsonObject], JsonObject]:
    """A change of one call as one of the body; it is made once for each body."""

    def changed(body: JsonObject) -> JsonObject:
        change = change_in(body)

        def message_of(message: JsonObject) -> JsonObject:
            if not calls_of(message):
                return message
            calls = as_list(message.get("tool_calls"))
            changed_calls = [change(call) if isinstance(call, dict) else call for call in calls]
            return replaced(message, "tool_calls", changed_calls)

        return on_each(message_of)(body)

    return changed


def text_part(text: str) -> JsonObject:
    """A part of a content that is text."""
    return {"type": "text", "text": text}


def is_text_part(part: JsonObject) -> bool:
    """True for a part that is text and nothing else."""
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def parts_of(content: Json) -> list[Json]:
    """A content as a list of parts."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return as_list(content)


def text_of(content: Json) -> str | None:
    """The text of a content; None if there is more in it than text."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    parts = objects_in(content)
    if not isinstance(content, list) or len(parts) < len(content) or not all(map(is_text_part, parts)):
        return None
    return "\n".join(str(part["text"]) for part in parts)


def joined(*contents: Json) -> Json:
    """Several contents as one: a text if all are, else a list of parts."""
    texts = [text for text in map(text_of, contents) if text is not None]
    if len(texts) < len(contents):
        return [part for content in contents for part in parts_of(content)]
    return "\n\n".join(filter(None, texts))


class Talk:
    """A conversation that is said anew, message by message."""

    def __init__(self) -> None:
        self._turns: list[tuple[JsonObject, list[Json]]] = []

    @property
    def last(self) -> str:
        """The role of the last message; "" if there is none."""
        if not self._turns:
            return ""
        return role_of(self._turns[-1][0])

    def say(self, message: JsonObject) -> None:
        """Another message."""
        self._turns.append((message, []))

    def add(self, content: Json) -> None:
        """More in the last message."""
        self._turns[-1][1].append(content)

    def messages(self) -> list[JsonObject]:
        """All of them; each is written once, however much was added."""
        return [_with_more(message, more) for message, more in self._turns]


def _with_more(message: JsonObject, more: list[Json]) -> JsonObject:
    if not more:
        return message
    return {**message, "content": joined(message.get("content"), *more)}


@dataclass(slots=True)
class Block:
    """A message, its calls, and, if it has any, all that follows it up to the next message of the assistant."""

    first: JsonObject
    calls: list[JsonObject]
    behind: list[JsonObject] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        """The ids of the calls; "" for one that has none."""
        return [as_text(call.get("id")) for call in self.calls]

    def messages(self) -> Iterator[JsonObject]:
        """All of them."""
        yield self.first
        yield from self.behind


def blocks_of(messages: Messages) -> list[Block]:
    """The conversation in blocks: what was said, and each turn of calls with its results."""
    blocks: list[Block] = []
    for message in messages:
        if role_of(message) != "assistant" and blocks and blocks[-1].calls:
            blocks[-1].behind.append(message)
        else:
            blocks.append(Block(message, calls_of(message)))
    return blocks


def on_blocks(change: Callable[[Block], Sequence[JsonObject]]) -> Callable[[JsonObject], JsonObject]:
    """A change of each block as one of the body."""
    return on_messages(lambda messages: [each for block in blocks_of(messages) for each in change(block)])
