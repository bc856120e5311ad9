"""Healing of messages: their contents (F83), roles and order (F82).

Later messages are never moved to the front (contract C8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile, zip_longest

from proxy.healing.conversation import (
    Block,
    Messages,
    Talk,
    calls_of,
    function_of,
    is_text_part,
    joined,
    on_blocks,
    on_each,
    on_messages,
    replaced,
    role_of,
    text_of,
    text_part,
    user_message,
)
from proxy.healing.reasoning import thought_of
from proxy.json import Json, JsonObject, as_list, as_text, dump, without

# Names of text parts in other dialects.
_TEXTS = frozenset(("input_text", "output_text", "summary_text"))
_PICTURES = {
    "image_url": "picture",
    "input_image": "picture",
    "image": "picture",
    "input_audio": "recording",
    "audio_url": "recording",
    "file": "file",
    "input_file": "file",
    "video_url": "film",
}
# Placeholder texts for turns that a template requires.
CONTINUE = "Continue."
UNDERSTOOD = "Understood."
# Claude Code's count of the remaining tokens, which differs in each request.
TOKEN_COUNT = re.compile(r"\s*<total_tokens>[^<]{0,100}</total_tokens>\s*")
# The mark of text that a client adds to the user's.
REMINDER, REMINDED = "<system-reminder>", "</system-reminder>"
EMPTY_ANSWER = "(no answer)"


# Contents.


@on_each
def null_content(message: JsonObject) -> JsonObject:
    """Replace null content by an empty text, except next to calls, where the API itself sends null."""
    missing = message.get("content") is None and role_of(message) and not calls_of(message)
    return {**message, "content": ""} if missing else message


@on_each
def null_beside_calls(message: JsonObject) -> JsonObject:
    """Replace null next to calls by an empty text."""
    return {**message, "content": ""} if message.get("content") is None and calls_of(message) else message


@on_each
def content_text(message: JsonObject) -> JsonObject:
    """Replace an object or a number by its JSON text."""
    content = message.get("content")
    return message if content is None or isinstance(content, str | list) else {**message, "content": dump(content)}


@on_each
def part_types(message: JsonObject) -> JsonObject:
    """Give text parts the type `text`: the Responses API's `input_text`, parts without a type, bare strings."""

    def known(part: Json) -> Json:
        if isinstance(part, str):
            return text_part(part)
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            return part
        return {**part, "type": "text"} if part.get("type") in _TEXTS or "type" not in part else part

    return replaced(message, "content", [*map(known, as_list(message.get("content")))])


def _flat(message: JsonObject) -> JsonObject:
    content = message.get("content")
    text = text_of(content)
    return message if not isinstance(content, list) or text is None else {**message, "content": text}


# Join a list of text parts into one text.
flat_texts = on_each(_flat)


@on_each
def pictures(message: JsonObject) -> JsonObject:
    """Replace pictures and files by a sentence, for models that read only text."""

    def told(part: Json) -> Json:
        kind = _PICTURES.get(as_text(part.get("type"))) if isinstance(part, dict) else None
        return part if kind is None else text_part(f"[Here was a {kind}, which this model cannot read.]")

    changed = replaced(message, "content", [*map(told, as_list(message.get("content")))])
    return message if changed is message else _flat(changed)


@on_blocks
def call_text(block: Block) -> Sequence[JsonObject]:
    """Move text next to calls into a turn of its own, for templates that omit it."""
    content = block.first.get("content")
    if not block.calls or text_of(content) == "":
        return block.messages
    return [{"role": "assistant", "content": content}, {**block.first, "content": ""}, *block.rest]


@on_each
def reasoning_back(message: JsonObject) -> JsonObject:
    """Send the reasoning before a call in `reasoning_content`, even if empty: servers of thinking models require it."""
    if not calls_of(message) or isinstance(message.get("reasoning_content"), str):
        return message
    return {**message, "reasoning_content": thought_of(message)}


@on_each
def empty_answers(message: JsonObject) -> JsonObject:
    """Fill an empty answer, which some templates reject. The turn must stay."""
    empty = role_of(message) == "assistant" and not calls_of(message) and text_of(message.get("content")) == ""
    return {**message, "content": EMPTY_ANSWER} if empty else message


@on_each
def text_calls(message: JsonObject) -> JsonObject:
    """Write calls and results as text, for templates that support neither."""
    content, calls = message.get("content"), calls_of(message)
    if calls:
        contents = [content]
        for call in calls:
            name, arguments = function_of(call).get("name"), function_of(call).get("arguments")
            told = f'{{"name": {dump(name)}, "arguments": {as_text(arguments) or "{}"}}}'
            contents.append(f"<tool_call>\n{told}\n</tool_call>")
        return {**without(message, "tool_calls"), "content": joined(*contents)}
    if role_of(message) != "tool":
        return message
    texts = [part for part in as_list(content) if is_text_part(part)]
    text = content if isinstance(content, str) else text_of(texts)
    others: Json = [part for part in as_list(content) if not is_text_part(part)]
    return user_message(joined(f"<tool_response>\n{text}\n</tool_response>", others))


# Roles and order.


def reminder(text: str) -> str:
    """Mark a text as the client's instead of the user's."""
    return f"{REMINDER}\n{text}\n{REMINDED}"


def _leading(messages: Messages) -> list[JsonObject]:
    """Return the system messages at the start of a conversation."""
    return [*takewhile(lambda message: role_of(message) == "system", messages)]


@on_each
def developer(message: JsonObject) -> JsonObject:
    """Turn a developer message into a system message: most templates drop it."""
    return {**message, "role": "system"} if role_of(message) == "developer" else message


@on_messages
def token_counts(messages: Messages) -> Messages:
    """Drop system messages that only count tokens."""

    def counts(message: JsonObject) -> bool:
        return role_of(message) == "system" and bool(TOKEN_COUNT.fullmatch(text_of(message.get("content")) or ""))

    return [message for message in messages if not counts(message)] or messages


@on_messages
def one_system(messages: Messages) -> Messages:
    """Merge several system messages at the start."""
    leading = _leading(messages)
    if len(leading) < 2:
        return messages
    content = joined(*(each.get("content") for each in leading))
    return [{**leading[0], "content": content}, *messages[len(leading) :]]


@on_messages
def late_system(messages: Messages) -> Messages:
    """Turn later system messages into marked user text in their place, or append the text to a preceding result."""
    begin = len(_leading(messages))
    talk = Talk()
    for index, message in enumerate(messages):
        content = message.get("content")
        text = text_of(content)
        if text is not None:
            content = reminder(text)
        if index < begin or role_of(message) != "system":
            talk.say(message)
        elif talk.last == "tool":
            talk.add(content)
        else:
            talk.say(user_message(content))
    return talk.messages()


@on_messages
def no_system(messages: Messages) -> Messages:
    """Prepend the system message to the user's text, for templates without system messages."""
    leading = _leading(messages)
    if not leading:
        return messages
    first, others = user_message(""), messages[len(leading) :]
    if others and role_of(others[0]) == "user":
        first, *others = others
    contents = [message.get("content") for message in (*leading, first)]
    return [{**first, "content": joined(*contents)}, *others]


@on_messages
def user_first(messages: Messages) -> Messages:
    """Make the user speak first."""
    leading = _leading(messages)
    rest = messages[len(leading) :]
    return messages if rest and role_of(rest[0]) == "user" else [*leading, user_message(CONTINUE), *rest]


@on_messages
def user_after_result(messages: Messages) -> Messages:
    """Move the user's text after results into the last result."""
    talk = Talk()
    for message in messages:
        text = text_of(message.get("content"))
        if role_of(message) == "user" and talk.last == "tool" and text is not None:
            talk.add(text)
        else:
            talk.say(message)
    return talk.messages()


@on_messages
def alternate(messages: Messages) -> Messages:
    """Make user and assistant messages alternate."""
    talk = Talk()
    for message in messages:
        match talk.last, role_of(message):
            case "user", "user":
                talk.add(message.get("content"))
                continue
            case "tool", "user":
                talk.say({"role": "assistant", "content": UNDERSTOOD})
            case "assistant", "assistant":
                talk.say(user_message(CONTINUE))
        talk.say(message)
    return talk.messages()


@on_messages
def _continued(messages: Messages) -> Messages:
    healed: list[JsonObject] = []
    answer: JsonObject = {"role": "assistant"}
    for message, after in zip_longest(messages, messages[1:], fillvalue=answer):
        healed.append(message)
        # Also between two answers: the request for the second already had this text after the first (contract C8).
        if role_of(message) == role_of(after) == "assistant" and not calls_of(message):
            healed.append(user_message(CONTINUE))
    return healed


def assistant_last(body: JsonObject) -> JsonObject:
    """End with a user message, for servers that reject or continue an answer at the end.

    The body stays unchanged if the client asks to continue the answer.
    """
    wants = body.get("continue_final_message") or body.get("add_generation_prompt") is False
    return body if wants else _continued(body)
