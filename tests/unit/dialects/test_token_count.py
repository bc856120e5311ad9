"""The tokens of a Messages request: counted by one of two endpoints of the server, or estimated (F95)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.token_count import count, estimate
from proxy.errors import UpstreamRefused
from proxy.upstream.api import MESSAGES_COUNT_TOKENS, TOKENIZE
from tests.support.scripted import WRITE_FILE

CHAT: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "tools": [WRITE_FILE],
    "chat_template_kwargs": {"enable_thinking": False},
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hallo, Wörld"}],
}
CLIENT: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Hallo, Wörld"}],
    "tools": [{"name": "write_file", "input_schema": {"type": "object"}}],
}
VLLM = b'{"count":74,"max_model_len":131072,"tokens":[1,2,3],"token_strs":null}'
LLAMA = b'{"input_tokens":82}'


class Server:
    """A model server with a fixed status and body per path that records its requests."""

    def __init__(self, **answers: tuple[int, bytes]) -> None:
        self.answers = {TOKENIZE: answers.get("tokenize"), MESSAGES_COUNT_TOKENS: answers.get("count_tokens")}
        self.asked: list[tuple[str, Any]] = []

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked.append((path, json.loads(body)))
        return self.answers[path] or (404, b'{"detail":"Not Found"}')


def test_a_prefilled_answer_is_counted_with_continue_final_message() -> None:
    """vLLM refuses continue_final_message together with add_generation_prompt."""
    server = Server(tokenize=(200, VLLM))
    prefill = {**CHAT, "continue_final_message": True, "add_generation_prompt": False}
    assert count(server.post, prefill, CLIENT) == (74, "tokenize")
    assert server.asked == [(TOKENIZE, prefill)]


UNUSABLE = [
    *((status, b'{"count":5,"input_tokens":5}') for status in (400, 404, 405, 422, 500, 501, 503, 204, 302)),
    *((200, body) for body in (b"", b"no JSON", b"[]", b"null", b'"5"', b"{}", b"\xff", b'{"tokens":[]}', b"<html>")),
    *((200, b'{"count":%b,"input_tokens":%b}' % (said, said)) for said in (b'"5"', b"null", b"true", b"5.5", b"-1")),
    *((200, b'{"count":%b,"input_tokens":%b}' % (said, said)) for said in (b"0", b"[5]", b"{}")),
]


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_an_answer_without_a_number_falls_back_to_the_next_endpoint(unusable: tuple[int, bytes]) -> None:
    server = Server(tokenize=unusable, count_tokens=(200, LLAMA))
    assert count(server.post, CHAT, CLIENT) == (82, "count_tokens")
    assert [path for path, _ in server.asked] == [TOKENIZE, MESSAGES_COUNT_TOKENS]


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_if_both_endpoints_fail_the_number_is_estimated(unusable: tuple[int, bytes]) -> None:
    server = Server(tokenize=unusable, count_tokens=unusable)
    assert count(server.post, CHAT, CLIENT) == (estimate(CHAT), "estimate")
    assert len(server.asked) == 2


@pytest.mark.parametrize("broken", [TOKENIZE, MESSAGES_COUNT_TOKENS])
def test_an_exception_of_the_caller_propagates(broken: str) -> None:
    server = Server()

    def post(path: str, body: bytes) -> tuple[int, bytes]:
        if path == broken:
            raise UpstreamRefused("the key is refused", status=401)
        return server.post(path, body)

    with pytest.raises(UpstreamRefused):
        count(post, CHAT, CLIENT)


# The estimate: 2 tokens for 7 bytes, rounded up.


def said(*messages: dict[str, Any], **more: Any) -> int:
    """Return the estimate without the cost of each message."""
    return estimate({"messages": list(messages), **more}) - 4 * len(messages)


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("a" * 7, 2),
        ("a" * 8, 3),
        ("ü" * 7, 4),
        ("語" * 7, 6),
        ("\ud83d" * 7, 6),
        (None, 0),
        ([], 0),
        ([{"type": "text", "text": "a" * 7}, {"type": "text", "text": "b" * 7}], 4),
        ([{"type": "text", "text": None}, {"type": "text"}, 5, "x"], 0),
    ],
)
def test_text_is_estimated_by_its_bytes(content: object, tokens: int) -> None:
    assert said({"role": "user", "content": content}) == tokens


def test_each_message_costs_four_tokens() -> None:
    assert estimate({"messages": [{"role": "user", "content": ""}] * 3}) == 12
    assert estimate({}) == estimate({"messages": 5}) == estimate({"messages": [5]}) == 0


@pytest.mark.parametrize("kind", ["image_url", "file"])
def test_an_image_or_file_has_a_fixed_cost(kind: str) -> None:
    """F95: a client compacts immediately if base64 counts as text."""
    data = "data:image/png;base64," + "A" * 1_000_000
    part = {"type": kind, "image_url": {"url": data}, "file": {"filename": "a.pdf", "file_data": data}}
    words = {"type": "text", "text": "a" * 7}
    assert said({"role": "user", "content": [words, part, part]}) == 2 + 2 * 1600


def test_calls_and_reasoning_count_as_text() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"a":"bb"}'}}
    assert said({"role": "assistant", "content": None, "tool_calls": [call]}) == 4
    for field in ("reasoning", "reasoning_content"):
        assert said({"role": "assistant", "content": "a" * 7, field: "b" * 7}) == 4
    for odd in (5, [5], [{"function": 5}], [{"function": {"name": None}}]):
        assert said({"role": "assistant", "content": "", "tool_calls": odd}) == 0


def test_tools_count_as_compact_utf_8_json() -> None:
    tools = [{"type": "function", "function": {"name": "bash", "description": "läuft"}}]
    size = len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
    assert said(tools=tools) == -(-size * 2 // 7)
    assert said(tools=[]) == said(tools=None) == 0
