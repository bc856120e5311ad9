"""The blocks of a message's content, as parts of a chat message: text, pictures, documents, results of tools.

Source: the Anthropic API reference, "Create a Message": `messages.content`; OpenAI's, "Chat Completions": content
parts. What only text is becomes one string, because many chat templates take nothing else (F83).
"""

from __future__ import annotations

import re
from types import MappingProxyType

from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.chat_turns import is_text, joined, text_part
from proxy.dialects.messages.tool_ids import server_id
from proxy.dialects.validation import (
    CACHE,
    DroppedFields,
    FieldPath,
    entry,
    flag,
    listing,
    mapping,
    nonempty_string,
    optional,
    shown,
    string,
)
from proxy.errors import BadRequest

# The fields of each block: "" for those that are carried, else the reason why not.
_CITED = "a chat server cites nothing"
_BLOCK = {"type": "", "cache_control": CACHE}
FIELDS = MappingProxyType(
    {
        "text": {**_BLOCK, "text": "", "citations": _CITED},
        "image": {**_BLOCK, "source": "", "transformations": "the model server scales pictures by its own rules"},
        "document": {**_BLOCK, "source": "", "title": "", "context": "", "citations": _CITED},
        "search_result": {**_BLOCK, "content": "", "source": "", "title": "", "citations": _CITED},
        "tool_reference": {**_BLOCK, "tool_name": ""},
        "tool_result": {
            **_BLOCK,
            **dict.fromkeys(("tool_use_id", "content", "is_error"), ""),
            "toolset_name": "the tool's name says it",
        },
    }
)
_SOURCES: dict[str, dict[str, str]] = {
    "base64": {"type": "", "media_type": "", "data": ""},
    "text": {"type": "", "media_type": "", "data": ""},
    "url": {"type": "", "url": ""},
    "content": {"type": "", "content": ""},
}
# Blocks that only Anthropic's servers write or read.
SERVER_BLOCKS = frozenset(
    (
        *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "advisor_tool_result"),
        *("code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
        *("tool_search_tool_result", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "container_upload"),
        *("compaction", "tool_addition", "tool_removal", "browser_state"),
    )
)
_NO_FILES = "this server keeps no files (there is no Files API); send the data itself, as base64"
# How a text begins that says by itself that something failed.
_FAILED = re.compile(r"\s*(?:error(?:[:\s]|\Z)|<tool_use_error>)", re.IGNORECASE)


def blocks(value: Json, path: FieldPath) -> list[tuple[JsonObject, FieldPath]]:
    """The blocks of a content, each with its place. A string is one block of text; a block's type is a string."""
    if isinstance(value, str):
        return [({"type": "text", "text": value}, path)]
    if not isinstance(value, list):
        raise path.bad("Field required" if value is None else "must be a string or a list of blocks")
    places = [path.at(index) for index in range(len(value))]
    entries = [entry(block, where) for block, where in zip(value, places, strict=True)]
    for block, where in zip(entries, places, strict=True):
        nonempty_string(block, "type", where)
    return [*zip(entries, places, strict=True)]


def skip_block(block: JsonObject, path: FieldPath, losses: DroppedFields) -> bool:
    """True for a block that is no content for any model: left out. BadRequest for those of Anthropic's own servers,
    unless the rules let them go.
    """
    kind = str(block["type"])
    if kind == "fallback":
        losses.lost(f"{path.kind} of type fallback", "it is not part of the prompt")
        return True
    if kind in SERVER_BLOCKS:
        losses.server_only(path, f"a block of type {kind}", f"{path.kind} of type {kind}")
        return True
    return False


def unknown(block: JsonObject, path: FieldPath, takes: str) -> BadRequest:
    """The error for a block of a type that may not stand here; `takes` names those that may."""
    return path.field("type").bad(f"{shown(str(block['type']))} cannot stand here; this takes {takes}")


def block_text(block: JsonObject, path: FieldPath, losses: DroppedFields) -> str:
    """The text of a text block."""
    losses.leave(block, FIELDS["text"], path)
    return string(block, "text", path)


def parts_of(block: JsonObject, path: FieldPath, losses: DroppedFields) -> list[JsonObject]:
    """A block that a user or a tool can say, as content parts. Empty texts are none (no chat server needs them)."""
    match block["type"]:
        case "text":
            text = block_text(block, path, losses)
            return [text_part(text)] if text else []
        case "image":
            return [_image(block, path, losses)]
        case "document":
            return _document(block, path, losses)
        case "search_result":
            return [_search_result(block, path, losses)]
    if skip_block(block, path, losses):
        return []
    raise unknown(block, path, "text, image, document and search_result")


def tool_result(block: JsonObject, path: FieldPath, losses: DroppedFields) -> tuple[JsonObject, list[JsonObject]]:
    """A tool's result as a tool message, and the pictures and files in it, which a tool message cannot hold (F94).

    An error says so in its text, because a tool message has no other place for it.
    """
    losses.leave(block, FIELDS["tool_result"], path)
    call = server_id(nonempty_string(block, "tool_use_id", path))
    inner = path.field("content")
    content = block.get("content")
    parts = [
        part
        for inner_block, where in ([] if content is None else blocks(content, inner))
        for part in _result_parts(inner_block, where, losses)
    ]
    text = joined(parts)
    if flag(block, "is_error", path) and not _FAILED.match(text):
        text = f"Error: {text}" if text else "Error"
    return {"role": "tool", "tool_call_id": call, "content": text}, [part for part in parts if not is_text(part)]


def _result_parts(block: JsonObject, path: FieldPath, losses: DroppedFields) -> list[JsonObject]:
    if block["type"] != "tool_reference":
        return parts_of(block, path, losses)
    losses.leave(block, FIELDS["tool_reference"], path)
    return [text_part(f"The tool {nonempty_string(block, 'tool_name', path)} is available.")]


def _source(block: JsonObject, path: FieldPath, losses: DroppedFields) -> tuple[str, JsonObject, FieldPath]:
    """The kind of a block's source, the source and its place."""
    losses.leave(block, FIELDS[str(block["type"])], path)
    here = path.field("source")
    source = mapping(block, "source", path)
    kind = nonempty_string(source, "type", here)
    if kind == "file":
        raise here.bad(_NO_FILES)
    losses.leave(source, _SOURCES.get(kind, {"type": ""}), here)
    return kind, source, here


def _image(block: JsonObject, path: FieldPath, losses: DroppedFields) -> JsonObject:
    kind, source, here = _source(block, path, losses)
    match kind:
        case "base64":
            url = _data_url(source, here, "image/")
        case "url":
            url = nonempty_string(source, "url", here)
            if not url.lower().startswith(("http://", "https://")):
                raise here.field("url").bad("must begin with http:// or https://; send other pictures as base64")
        case _:
            raise here.field("type").bad(f"{shown(kind)} is none of base64, url")
    return {"type": "image_url", "image_url": {"url": url}}


def _data_url(source: JsonObject, path: FieldPath, expected: str) -> str:
    media = nonempty_string(source, "media_type", path)
    if not media.startswith(expected):
        raise path.field("media_type").bad(f"{shown(media)} is not {expected}")
    return f"data:{media};base64,{nonempty_string(source, 'data', path)}"


def _document(block: JsonObject, path: FieldPath, losses: DroppedFields) -> list[JsonObject]:
    """A document: its title and context as text, then its own content."""
    kind, source, here = _source(block, path, losses)
    title = optional(block, "title", path)
    context = optional(block, "context", path)
    head = [f"{name}: {text}" for name, text in (("Title", title), ("Context", context)) if text]
    parts = [text_part("\n".join(head))] if head else []
    match kind:
        case "text":
            parts.append(text_part(nonempty_string(source, "data", here)))
        case "content":
            parts += _inner(source.get("content"), here.field("content"), losses)
        case "base64":
            data = _data_url(source, here, "application/pdf")
            parts.append({"type": "file", "file": {"filename": title or "document.pdf", "file_data": data}})
        case "url":
            raise here.bad("no chat server reads a document from a URL; send the PDF itself, as base64")
        case _:
            raise here.field("type").bad(f"{shown(kind)} is none of base64, text, content")
    return parts


def _inner(value: Json, path: FieldPath, losses: DroppedFields) -> list[JsonObject]:
    """The blocks in a document: text and pictures."""
    parts: list[JsonObject] = []
    for block, where in blocks(value, path):
        if block["type"] not in ("text", "image"):
            raise unknown(block, where, "text and image")
        parts += parts_of(block, where, losses)
    return parts


def _search_result(block: JsonObject, path: FieldPath, losses: DroppedFields) -> JsonObject:
    losses.leave(block, FIELDS["search_result"], path)
    head = [string(block, name, path) for name in ("title", "source")]
    here = path.field("content")
    texts = [
        block_text(inner, where, losses) if inner["type"] == "text" else _refuse(inner, where)
        for inner, where in blocks(listing(block, "content", path), here)
    ]
    return text_part("\n\n".join(("\n".join(head), *texts)))


def _refuse(block: JsonObject, path: FieldPath) -> str:
    raise unknown(block, path, "text")
