"""The contents of messages: text, parts, pictures, or nothing (F83)."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.codec.json_access import as_list, as_text
from proxy.codec.json_text import Json, JsonObject, dump
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
)
from proxy.healing.reasoning import thought_of

# Other dialects' names for a part of text.
_TEXTS = frozenset(("input_text", "output_text", "summary_text"))
_PICTURES = {
    "image_url": "picture",
    "input_image": "picture",
    "image": "picture",
    "input_audio": "recording",
    "audio_url": "recording",
    "video_url": "film",
    "file": "file",
    "input_file": "file",
}
EMPTY_ANSWER = "(no answer)"


def _filled(message: JsonObject) -> JsonObject:
    if message.get("content") is not None or not role_of(message):
        return message
    return {**message, "content": ""}


def _filled_alone(message: JsonObject) -> JsonObject:
    if calls_of(message):
        return message
    return _filled(message)


def _filled_beside_calls(message: JsonObject) -> JsonObject:
    if not calls_of(message):
        return message
    return _filled(message)


# No content is an empty text; beside calls it is what the API itself gives, and nearly every server makes it one.
fill_content = on_each(_filled_alone)
fill_content_beside_calls = on_each(_filled_beside_calls)


def _as_text(message: JsonObject) -> JsonObject:
    content = message.get("content")
    if content is None or isinstance(content, str | list):
        return message
    return {**message, "content": dump(content)}


# An object or a number for a text, which is its JSON.
write_content = on_each(_as_text)


def _with_known_parts(message: JsonObject) -> JsonObject:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return replaced(message, "content", [_known_part(part) for part in content])


def _known_part(part: Json) -> Json:
    if isinstance(part, str):
        return text_part(part)
    if not isinstance(part, dict) or not isinstance(part.get("text"), str):
        return part
    if part.get("type") in _TEXTS or "type" not in part:
        return {**part, "type": "text"}
    return part


# `input_text` of the Responses API, and texts that say no type.
name_parts = on_each(_with_known_parts)


def _flat(message: JsonObject) -> JsonObject:
    content = message.get("content")
    text = text_of(content)
    if not isinstance(content, list) or text is None:
        return message
    return {**message, "content": text}


# Texts in a list as one text.
flatten_texts = on_each(_flat)


def _described(message: JsonObject) -> JsonObject:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = [_text_part(part) for part in content]
    if all(one is other for one, other in zip(parts, content, strict=True)):
        return message
    changed: JsonObject = {**message, "content": parts}
    return _flat(changed)


def _text_part(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    kind = _PICTURES.get(as_text(part.get("type")))
    if kind is None:
        return part
    return text_part(f"[Here was a {kind}, which this model cannot read.]")


# Pictures and files for a model that reads text alone.
tell_pictures = on_each(_described)


def _apart(block: Block) -> Sequence[JsonObject]:
    text = text_of(block.first.get("content"))
    if not block.calls or text == "":
        return [*block.messages()]
    text_message: JsonObject = {"role": "assistant", "content": block.first.get("content")}
    return [text_message, {**block.first, "content": ""}, *block.behind]


# A text beside calls as a turn of its own, for templates that leave it out.
part_text_from_calls = on_blocks(_apart)


def _with_reasoning(message: JsonObject) -> JsonObject:
    if not calls_of(message) or isinstance(message.get("reasoning_content"), str):
        return message
    return {**message, "reasoning_content": thought_of(message)}


# The reasoning before a call under the name that thinking models' servers insist on, also if nothing is known of it.
give_reasoning_back = on_each(_with_reasoning)


def _answered(message: JsonObject) -> JsonObject:
    if role_of(message) != "assistant" or calls_of(message):
        return message
    if text_of(message.get("content")) != "":
        return message
    return {**message, "content": EMPTY_ANSWER}


# An answer of nothing, which some templates refuse, and whose turn must stay.
fill_answers = on_each(_answered)


def _spelled_out(messages: Messages) -> Messages:
    rewritten: list[JsonObject] = []
    for message in messages:
        calls = calls_of(message)
        if calls:
            rewritten.append(_spelled(message, calls))
        elif role_of(message) == "tool":
            rewritten.append({"role": "user", "content": _response(message)})
        else:
            rewritten.append(message)
    return rewritten


def _response(message: JsonObject) -> Json:
    return joined(f"<tool_response>\n{_plain(message)}\n</tool_response>", _pictures(message))


def _spelled(message: JsonObject, calls: list[JsonObject]) -> JsonObject:
    parts = [message.get("content")]
    for call in calls:
        function = function_of(call)
        arguments = as_text(function.get("arguments")) or "{}"
        name = dump(function.get("name"))
        parts.append(f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>')
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": joined(*parts)}


def _plain(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in as_list(content) if isinstance(part, dict) and is_text_part(part))


def _pictures(message: JsonObject) -> Json:
    content = as_list(message.get("content"))
    return [part for part in content if not (isinstance(part, dict) and is_text_part(part))]


# Calls and results as text, for templates that know neither.
spell_out_calls = on_messages(_spelled_out)
