"""What the tests of Messages requests share: small requests, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import dump_request
from proxy.dialects.messages.request import Translation, translate
from proxy.dialects.model_options import ModelOptions
from proxy.errors import BadRequest

Block = dict[str, Any]
MODEL = "served/model"
PIXEL = "iVBORw0KGgo="
PICTURE: Block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
PICTURE_PART: Block = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
TOOL: Block = {"name": "run", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}
FUNCTION: Block = {"type": "function", "function": {"name": "run", "parameters": TOOL["input_schema"]}}


def ask(*messages: Any, **fields: Any) -> dict[str, Any]:
    """A request with these messages, or with one that greets."""
    return {"model": "asked", "max_tokens": 10, "messages": [*messages] or [user("hi")], **fields}


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def user(*blocks: Any, **fields: Any) -> dict[str, Any]:
    """A user's message: of one text, or of these blocks."""
    return {"role": "user", "content": blocks[0] if isinstance(blocks[0], str) else [*blocks], **fields}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {**user(*blocks), "role": "assistant"}


def system(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {**user(*blocks), "role": "system", **fields}


def call(id_: str = "toolu_1", name: str = "run", **fields: Any) -> Block:
    return {"type": "tool_use", "id": id_, "name": name, "input": {"x": 1}, **fields}


def result(content: Any = "done", id_: str = "toolu_1", **fields: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **fields}


def sent(body: dict[str, Any], **options: Any) -> Translation:
    """The translation, which must be JSON with the messages last (C8)."""
    translation = translate(body, ModelOptions(**{"model": MODEL, **options}))
    assert [*translation.body][-1] == "messages"
    dump_request(translation.body)
    return translation


def messages(*given: Any, **options: Any) -> list[Any]:
    """The chat messages for these Messages."""
    return messages_of(sent(ask(*given), **options))


def messages_of(translation: Translation) -> list[Any]:
    """The chat messages of a translated request."""
    found = translation.body["messages"]
    assert isinstance(found, list)
    return found


def lost(translation: Translation) -> dict[str, int]:
    """How many of each kind of field were dropped."""
    assert {repair.id for repair in translation.dropped} <= {"dropped_field"}
    pairs = [repair.before.rsplit(": ", 1) for repair in translation.dropped]
    assert len({kind for kind, _ in pairs}) == len(pairs), "one record for each kind"
    assert all(repair.why.startswith(f"{kind}: ") for repair, (kind, _) in zip(translation.dropped, pairs, strict=True))
    return {kind: int(count) for kind, count in pairs}


def refusal(body: dict[str, Any], **options: Any) -> str:
    """What the client is told about a request that cannot be used: one line, and not too long (400)."""
    with pytest.raises(BadRequest) as caught:
        sent(body, **options)
    assert caught.value.status == 400
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300
    return caught.value.message
