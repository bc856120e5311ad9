"""Requests over the context, in each server's own words (F85, F95)."""

from __future__ import annotations

import json

import pytest

from proxy.upstream.context_overflow import Overflow, read_overflow

VLLM = (
    "This model's maximum context length is 65536 tokens. However, you requested 32000 output tokens and your prompt "
    "contains at least 33537 input tokens, for a total of at least 65537 tokens. Please reduce the length of the input "
    "prompt or the number of requested output tokens."
)

WORDS = {
    VLLM: Overflow(65536, 33537, 32000, least=True),
    # The prompt alone is too long: vLLM counts until there.
    VLLM.replace("32000 output", "0 output").replace("33537", "65537"): Overflow(65536, 65537, None, least=True),
    "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.": (
        Overflow(8192, 9000, None)
    ),
    "This model's maximum context length is 32768 tokens. However, your prompt contains at least 32769 input tokens, "
    "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.": (
        Overflow(32768, 32769, None, least=True)
    ),
    "You passed 9001 input tokens and requested 1000 output tokens. However, the model's context length is only 8192 "
    "tokens, resulting in a maximum input length of 7192 tokens.": Overflow(8192, 9001, 1000),
    "This model's maximum context length is 8192 tokens. However, you requested 9224 tokens (1224 in the messages, "
    "8000 in the completion). Please reduce the length of the messages or completion.": Overflow(8192, 1224, 8000),
    "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it": (
        Overflow(4096, 9000, None)
    ),
    "The input (516368 tokens) is longer than the model's context length (262144 tokens).": (
        Overflow(262144, 516368, None)
    ),
    "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 "
    "tokens: 8000 tokens from the input messages and 32000 tokens for the completion. Please reduce the number of "
    "tokens in the input messages or the completion to fit within the limit.": Overflow(32768, 8000, 32000),
}

# What Claude Code, which asks for 32,000 tokens, is told where that alone is too much, or the prompt was not counted.
WORDS |= {
    "max_tokens=32000cannot be greater than max_model_len=max_total_tokens=16384. Please request fewer output tokens. "
    "(parameter=max_tokens, value=32000)": Overflow(16384, None, 32000),
    "max_tokens=32000 cannot be greater than max_model_len=16384.": Overflow(16384, None, 32000),
    VLLM.replace("at least 33537 input tokens", "33537 input tokens"): Overflow(65536, 33537, 32000),
    VLLM.replace(
        "at least 33537 input tokens",
        "120000 characters (more than 98304 characters, which is the upper bound for 768 input tokens)",
    ): Overflow(65536, None, 32000),
    "You passed 120000 input characters and requested 32000 output tokens. However, the model's context length is only "
    "32768 tokens.": Overflow(32768, None, 32000),
    "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens "
    "and your request has 100 input tokens (32000 > 8192 - 100).": Overflow(8192, 100, 32000),
    "The decoder prompt (length 100001) is longer than the maximum model length of 100000.": (
        Overflow(100000, 100001, None)
    ),
    "Input length (100500 tokens) exceeds the maximum allowed length (99999 tokens).": Overflow(99999, 100500, None),
}


@pytest.mark.parametrize("message", WORDS)
def test_each_servers_words_are_read(message: str) -> None:
    assert read_overflow(message) == WORDS[message]


def test_llama_cpp_says_the_numbers_beside_the_words() -> None:
    error = {"code": 400, "message": "the request exceeds the available context size, try increasing it"}
    body = json.dumps({"error": {**error, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096}})
    assert read_overflow(error["message"], body.encode()) == Overflow(4096, 9000, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    ["", "no such model", "maximum context length is 8192 tokens", "request has 12 input tokens", "x" * 9000],
)
def test_other_words_are_not_taken_for_it(message: str) -> None:
    assert read_overflow(message) is None
    assert read_overflow(message, b'{"error": {"message": "no"}}') is None
