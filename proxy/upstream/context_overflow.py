"""Servers' refusals of a request that does not fit into the model's context, to numbers (F85, F95)."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Nobody explains it at greater length.
_LONGEST = 4096
# Each server's words. What they leave out is not known.
_WORDS = tuple(
    re.compile(re.sub("LIMIT|PROMPT|REQUESTED", lambda name: rf"(?P<{name[0].lower()}>\d{{1,9}})", words), re.DOTALL)
    for words in (
        # vLLM, newest first, and OpenAI.
        r"max_tokens=REQUESTED ?cannot be greater than max_model_len=(?:max_total_tokens=)?LIMIT",
        r"passed (?:PROMPT input tokens|\d{1,9} input characters) and requested REQUESTED output tokens.{0,99}"
        r"context length is only LIMIT",
        r"is too large: REQUESTED\..{0,99}context length is LIMIT tokens.{0,99}request has PROMPT input tokens",
        r"context length is LIMIT tokens.{0,99}request has PROMPT input tokens",
        r"context length is LIMIT tokens\. However, your prompt contains (?P<least>at least )?PROMPT input tokens",
        r"context length is LIMIT tokens.{0,99}requested REQUESTED output tokens and your prompt contains "
        r"(?:(?P<least>at least )?PROMPT input tokens|(?:at least )?\d{1,9} characters)",
        r"context length is LIMIT tokens.{0,99}\(PROMPT in the messages, REQUESTED in the completion\)",
        r"context length is LIMIT tokens.{0,99}messages resulted in PROMPT tokens",
        r"prompt \(length PROMPT\) is longer than the maximum model length of LIMIT",
        # SGLang.
        r"The input \(PROMPT tokens\) is longer than the model's context length \(LIMIT tokens",
        r"Input length \(PROMPT tokens\) exceeds the maximum allowed length \(LIMIT tokens",
        r"context length of LIMIT tokens.{0,99}: PROMPT tokens from the input messages and REQUESTED tokens for the",
        # llama.cpp, which also says the numbers beside the words.
        r"request \(PROMPT tokens\) exceeds the available context size \(LIMIT tokens",
        r"\"n_prompt_tokens\": ?PROMPT.{0,99}\"n_ctx\": ?LIMIT",
        r"\"n_ctx\": ?LIMIT.{0,99}\"n_prompt_tokens\": ?PROMPT",
    )
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """Tokens: the context's `limit`, the `prompt`, and what was `requested` for besides; None where it is not said.

    `least`: vLLM stopped counting the prompt where it was too long, so it has so many tokens or more.
    """

    limit: int
    prompt: int | None
    requested: int | None
    least: bool = False


def read_overflow(message: str, body: bytes | None = None) -> Overflow | None:
    """The numbers that a refusal names, in its words or in its JSON body (llama.cpp); None if it is about others."""
    overflow = _numbers(message[:_LONGEST])
    if overflow is not None:
        return overflow
    if body is None:
        return None
    return _numbers(body[:_LONGEST].decode("utf-8", "replace"))


def _numbers(text: str) -> Overflow | None:
    match = next((match for words in _WORDS if (match := words.search(text))), None)
    if match is None:
        return None
    numbers = match.groupdict()
    requested, prompt = (int(numbers[name]) if numbers.get(name) else None for name in ("requested", "prompt"))
    return Overflow(int(numbers["limit"]), prompt, requested or None, bool(numbers.get("least")))
