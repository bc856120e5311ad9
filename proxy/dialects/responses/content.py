"""The contents of messages and outputs as parts of a chat message: text, pictures, files.

Source: OpenAI's API reference, "Create a model response": `input`; "Chat Completions": content parts.
"""

from __future__ import annotations

from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.chat_turns import is_text, joined, text_part
from proxy.dialects.responses.fields import PART_FIELDS
from proxy.dialects.validation import DroppedFields, FieldPath, entry, nonempty_string, optional, shown, string

_NO_FILES = "this server keeps no files (there is no Files API); send the data itself"
_DETAILS = ("low", "high", "auto")
_URLS = ("http://", "https://", "data:")
_TEXTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}


def parts_of(value: Json, path: FieldPath, losses: DroppedFields) -> list[JsonObject]:
    """A message's content, or an output, as content parts. Empty texts are none (no chat server needs them)."""
    if isinstance(value, str):
        return [text_part(value)] if value else []
    if not isinstance(value, list):
        raise path.bad("Field required" if value is None else "must be a string or a list of parts")
    parts: list[JsonObject] = []
    for index, raw_part in enumerate(value):
        here = path.at(index)
        part = _part(entry(raw_part, here), here, losses)
        if part is not None:
            parts.append(part)
    return parts


def _part(part: JsonObject, path: FieldPath, losses: DroppedFields) -> JsonObject | None:
    kind = nonempty_string(part, "type", path)
    if kind not in PART_FIELDS:
        raise path.field("type").bad(f"{shown(kind)} cannot stand here; this takes {', '.join(PART_FIELDS)}")
    losses.leave(part, PART_FIELDS[kind], path)
    if kind in _TEXTS:
        text = string(part, _TEXTS[kind], path)
        return text_part(text) if text else None
    if part.get("file_id") is not None:
        raise path.field("file_id").bad(_NO_FILES)
    if kind == "input_image":
        return _image(part, path, losses)
    return _file(part, path)


def _image(part: JsonObject, path: FieldPath, losses: DroppedFields) -> JsonObject:
    url = nonempty_string(part, "image_url", path)
    if not url.lower().startswith(_URLS):
        raise path.field("image_url").bad(f"must begin with {', '.join(_URLS)}")
    image: JsonObject = {"url": url}
    detail = optional(part, "detail", path)
    if detail in _DETAILS:
        image["detail"] = detail
    elif detail:
        losses.lost(path.field("detail").kind, "chat completions knows no such detail")
    return {"type": "image_url", "image_url": image}


def _file(part: JsonObject, path: FieldPath) -> JsonObject:
    if part.get("file_url") is not None:
        raise path.field("file_url").bad("no chat server reads a file from a URL; send the file itself, as file_data")
    data = nonempty_string(part, "file_data", path)
    return {"type": "file", "file": {"filename": optional(part, "filename", path) or "file", "file_data": data}}


def text_of(value: Json, path: FieldPath, losses: DroppedFields) -> str:
    """The text of a content that may hold nothing else."""
    parts = parts_of(value, path, losses)
    if not all(map(is_text, parts)):
        raise path.bad("takes text only")
    return joined(parts)
