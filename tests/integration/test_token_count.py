"""How many tokens a Messages request has: real servers are asked."""

from __future__ import annotations

from typing import Any

import requests

from proxy.dialects.token_count import count
from proxy.upstream.paths import MESSAGES_COUNT_TOKENS, TOKENIZE
from tests.support.scripted import PATIENCE, Upstream, answer
from tests.unit.dialects.test_token_count import CHAT, CLIENT


def over_http(url: str) -> Any:
    """The way to a real server."""

    def post(path: str, body: bytes) -> tuple[int, bytes]:
        found = requests.post(url + path, data=body, headers={"Content-Type": "application/json"}, timeout=PATIENCE)
        return found.status_code, found.content

    return post


def test_a_real_llama_server_counts_by_the_second_way(llama: str) -> None:
    """It has a /tokenize of its own, which answers 200 and no count."""
    asked: list[str] = []
    real = over_http(llama)

    def post(path: str, body: bytes) -> tuple[int, bytes]:
        asked.append(path)
        status, data = real(path, body)
        assert status == 200
        return int(status), bytes(data)

    number, way = count(post, CHAT, CLIENT)
    assert (way, asked) == ("count_tokens", [TOKENIZE, MESSAGES_COUNT_TOKENS])
    direct = requests.post(llama + MESSAGES_COUNT_TOKENS, json=CLIENT, timeout=PATIENCE).json()["input_tokens"]
    assert number == direct > 10
    longer = {**CLIENT, "messages": [{"role": "user", "content": "one two three " * 50}]}
    assert count(post, CHAT, longer)[0] > number


def test_a_server_that_answers_as_vllm_counts_by_the_first_way() -> None:
    tokens = list(range(100_000))
    with Upstream([answer({"count": 100_000, "max_model_len": 131072, "tokens": tokens})]) as server:
        assert count(over_http(server.url), CHAT, CLIENT) == (100_000, "tokenize")
        assert server.seen[0].json == {**CHAT, "add_generation_prompt": True}
