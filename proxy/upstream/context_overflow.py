"""Parses the errors of servers whose context is too small for a request (F85, F95)."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The number of characters of an error that are searched.
_LONGEST = 4096
# Patterns of each server's errors. Some errors lack a number.
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
        # llama.cpp, which also reports the numbers in separate fields.
        r"request \(PROMPT tokens\) exceeds the available context size \(LIMIT tokens",
        r"\"n_prompt_tokens\": ?PROMPT.{0,99}\"n_ctx\": ?LIMIT",
        r"\"n_ctx\": ?LIMIT.{0,99}\"n_prompt_tokens\": ?PROMPT",
    )
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """Token counts: the context's `limit`, the `prompt` and the `requested` output. None if not reported.

    `least`: the prompt has at least this number of tokens, because vLLM stopped counting at the limit.
    """

    limit: int
    prompt: int | None
    requested: int | None
    least: bool = False


def read_overflow(message: str, body: bytes | None = None) -> Overflow | None:
    """Return the token counts in an error's message or JSON body (llama.cpp), or None for another error."""
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
