"""What the tests of Responses requests share: small requests, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import dump_request
from proxy.dialects.model_options import ModelOptions
from proxy.dialects.responses.request import Translation, translate
from proxy.errors import BadRequest

Item = dict[str, Any]
MODEL = "served/model"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
SCHEMA: Item = {"type": "object", "properties": {"x": {"type": "integer"}}}
TOOL: Item = {"type": "function", "name": "run", "parameters": SCHEMA}
FUNCTION: Item = {"type": "function", "function": {"name": "run", "parameters": SCHEMA}}
CUSTOM: Item = {"type": "custom", "name": "apply_patch", "description": "Patches."}
CLOSE: Item = {**TOOL, "name": "close"}
SPACE: Item = {"type": "namespace", "name": "agents", "description": "For agents.", "tools": [CLOSE]}


def ask(*items: Any, **fields: Any) -> dict[str, Any]:
    """A request with these items, or with one that greets."""
    return {"model": "asked", "input": [*items] or [user("hi")], **fields}


def user(*parts: Any, **fields: Any) -> Item:
    """A user's message: of one text, or of these parts."""
    return {"type": "message", "role": "user", "content": _content(parts), **fields}


def assistant(text: str, **fields: Any) -> Item:
    part = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "content": [part], **fields}


def developer(*parts: Any, role: str = "developer", **fields: Any) -> Item:
    return {"type": "message", "role": role, "content": _content(parts), **fields}


def _content(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else [*parts]


def text(said: str) -> Item:
    return {"type": "input_text", "text": said}


def call(id_: str = "c1", name: str = "run", arguments: str = '{"x":1}', **fields: Any) -> Item:
    return {"type": "function_call", "call_id": id_, "name": name, "arguments": arguments, **fields}


def output(said: Any = "done", id_: str = "c1", **fields: Any) -> Item:
    return {"type": "function_call_output", "call_id": id_, "output": said, **fields}


def sent(body: dict[str, Any], **options: Any) -> Any:
    """The translation, which must be JSON with the messages last (C8); its body is looked into at any depth."""
    translation = translate(body, ModelOptions(**{"model": MODEL, **options}))
    assert [*translation.body][-1] == "messages"
    dump_request(translation.body)
    return translation


def messages(*items: Any, **options: Any) -> list[Any]:
    """The chat messages for these items."""
    found = sent(ask(*items), **options).body["messages"]
    assert isinstance(found, list)
    return found


def lost(translation: Translation) -> dict[str, int]:
    """How many of each kind of field were dropped."""
    assert {repair.id for repair in translation.dropped} <= {"dropped_field"}
    pairs = [repair.before.rsplit(": ", 1) for repair in translation.dropped]
    assert len({kind for kind, _ in pairs}) == len(pairs), "one record for each kind"
    return {kind: int(count) for kind, count in pairs}


def refusal(body: dict[str, Any], **options: Any) -> str:
    """What the client is told about a request that cannot be used: one line, and not too long (400)."""
    with pytest.raises(BadRequest) as caught:
        sent(body, **options)
    assert caught.value.status == 400
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300
    return caught.value.message
