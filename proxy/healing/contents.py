"""Healing of message contents: text, parts, pictures, or nothing (F83)."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.healing.conversation import (
    Block,
    Messages,
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
    without,
)
from proxy.healing.reasoning import thought_of
from proxy.json import Json, JsonObject, as_list, as_text, dump

# Names of text parts in other dialects.
_TEXTS = frozenset(("input_text", "output_text", "summary_text"))
_PICTURES = {
    **dict.fromkeys(("image_url", "input_image", "image"), "picture"),
    **dict.fromkeys(("input_audio", "audio_url"), "recording"),
    **dict.fromkeys(("file", "input_file"), "file"),
    "video_url": "film",
}
EMPTY_ANSWER = "(no answer)"


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

    content = message.get("content")
    return replaced(message, "content", [*map(known, content)]) if isinstance(content, list) else message


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
        return [*block.messages()]
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


@on_messages
def text_calls(messages: Messages) -> Messages:
    """Write calls and results as text, for templates that support neither."""
    rewritten: list[JsonObject] = []
    for message in messages:
        content, calls = message.get("content"), calls_of(message)
        if calls:
            contents = [content]
            for call in calls:
                name, arguments = function_of(call).get("name"), function_of(call).get("arguments")
                told = f'{{"name": {dump(name)}, "arguments": {as_text(arguments) or "{}"}}}'
                contents.append(f"<tool_call>\n{told}\n</tool_call>")
            rewritten.append({**without(message, "tool_calls"), "content": joined(*contents)})
        elif role_of(message) == "tool":
            texts = [part for part in as_list(content) if is_text_part(part)]
            text = content if isinstance(content, str) else text_of(texts)
            others: Json = [part for part in as_list(content) if not is_text_part(part)]
            told = f"<tool_response>\n{text}\n</tool_response>"
            rewritten.append(user_message(joined(told, others)))
        else:
            rewritten.append(message)
    return rewritten
