"""What is read of a chat request, and what whoever made it knows already."""

from __future__ import annotations

import pytest

from proxy.codec.json_text import JsonObject
from proxy.dialects.chat.request import KnownFields, read_chat

CALL: JsonObject = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
BODY: JsonObject = {
    "model": "tiny",
    "response_format": {"type": "json_object"},
    "messages": [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
    ],
}


def test_what_nobody_knows_is_read() -> None:
    wanted = read_chat(b"", {**BODY})
    assert (wanted.results, wanted.ids, wanted.json_reply) == (("noon",), frozenset({"call_1"}), True)


def test_what_is_known_is_not_looked_for() -> None:
    known = KnownFields(results=(), ids=frozenset(), json_reply=False)
    wanted = read_chat(b"", {**BODY}, known)
    assert (wanted.results, wanted.ids, wanted.json_reply) == ((), frozenset(), False)


@pytest.mark.parametrize("name", ["results", "ids", "json_reply"])
def test_each_field_may_be_known_alone(name: str) -> None:
    read = read_chat(b"", {**BODY})
    known = KnownFields(**{name: getattr(read, name)})
    assert read_chat(b"", {**BODY}, known) == read
