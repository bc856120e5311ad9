"""What servers say when a request does not fit into the model's context (F85, F95)."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Nobody explains it at greater length.
_LONGEST = 4096
_LIMIT = re.compile(
    r"maximum context length (?:is|of) (\d{1,9}) tokens|context length is only (\d{1,9})"
    r"|context size \((\d{1,9}) tokens\)|context length \((\d{1,9}) tokens\)|\"n_ctx\":\s?(\d{1,9})"
)
# vLLM's and OpenAI's words for the prompt's length, then llama.cpp's and SGLang's.
_PROMPT = re.compile(
    r"request has (\d{1,9}) input tokens|prompt contains at least (\d{1,9}) input tokens|\((\d{1,9}) in the messages"
    r"|passed (\d{1,9}) input tokens|messages resulted in (\d{1,9}) tokens"
    r"|request \((\d{1,9}) tokens\) exceeds|\"n_prompt_tokens\":\s?(\d{1,9})"
    r"|The input \((\d{1,9}) tokens\)|(\d{1,9}) tokens from the input messages"
)
_ASKED = re.compile(
    r"requested (\d{1,9}) output tokens|is too large: (\d{1,9})|(\d{1,9}) in the completion"
    r"|(\d{1,9}) tokens for the completion"
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """Tokens: the context's `limit`, the `prompt`, and what was `asked` for besides (None if that is not said, or 0).

    `least`: vLLM stopped counting the prompt where it was too long, so it has so many tokens or more.
    """

    limit: int
    prompt: int
    asked: int | None
    least: bool = False


def read_overflow(message: str, body: bytes | None = None) -> Overflow | None:
    """The numbers that a refusal names, in its words or in its JSON body (llama.cpp); None if it is about others."""
    text = message[:_LONGEST]
    found = _numbers(text)
    if found is None and body is not None:
        found = _numbers(f"{text} {body[:_LONGEST].decode('utf-8', 'replace')}")
    return found


def _numbers(text: str) -> Overflow | None:
    limit, prompt, asked = (_first(pattern, text) for pattern in (_LIMIT, _PROMPT, _ASKED))
    if not limit or prompt is None:
        return None
    return Overflow(limit, prompt, asked or None, "contains at least" in text)


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(next(group for group in found.groups() if group)) if found else None
