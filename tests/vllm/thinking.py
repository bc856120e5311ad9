"""Reasoning that a vLLM without a parser leaves in the text: it is separated, and is sent back in the next prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.reply import Call, Reply
from tests.vllm.ask import PATHS, Side, cell, session

# The model's reasoning, and its place in the chat template (tests/real/thinking.jinja).
THOUGHT = "I write it."
PLACE = f"<|im_start|>assistant\n<think>\n{THOUGHT}\n</think>\n\n"
_SECONDS = 60


def thinks(dialect: str, script: str, expected: Sequence[Call]) -> Callable[[Side], str]:
    """Return a row's `do` that requests reasoning and a call, streamed and whole, and sends the next turn.

    The cell is `thought+call` twice and `back`. Without the proxy, the next turn is not sent.
    """

    def do(side: Side) -> str:
        asked = side.body(dialect, script)
        replies = [side.post(dialect, {**asked, "stream": stream}) for stream in (True, False)]
        words = [_word(reply, expected) for reply in replies]
        if side.tap is None:
            return " ".join(words)
        side.post(dialect, _NEXT[dialect](asked, json.loads(replies[-1].data)))
        # Connections may not be in the order of the requests, so take the longest request.
        sent = [body for body in side.tap.bodies() if body["model"] == side.model]
        written = prompt(side, max(sent, key=lambda body: len(body["messages"])))
        return " ".join((*words, "back" if PLACE in written else f"lost in {written[-300:]!r}"))

    return do


def _word(reply: Reply, expected: Sequence[Call]) -> str:
    seen = reply.choice()
    if not seen.thinking:
        return cell(reply, expected)
    if seen.thinking != THOUGHT or "think>" in seen.text:
        return f"wrong thought {seen.thinking!r}"
    return f"thought+{cell(reply, expected)}"


def prompt(side: Side, body: dict[str, Any]) -> str:
    """Return vLLM's prompt for a request. `/tokenize` cannot be used, because it drops reasoning."""
    asked = {**body, "stream": False, "max_tokens": 1, "return_token_ids": True}
    asked.pop("stream_options", None)
    with session() as client:
        answer = client.post(f"{side.server.url}{PATHS['chat']}", json=asked, timeout=_SECONDS)
        tokens = {"model": body["model"], "tokens": answer.json()["prompt_token_ids"]}
        written = client.post(f"{side.server.url}/detokenize", json=tokens, timeout=_SECONDS)
    text: str = written.json()["prompt"]
    return text


def _after_chat(asked: dict[str, Any], answer: Any) -> dict[str, Any]:
    message = answer["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
    return {**asked, "messages": [*asked["messages"], message, result]}


def _after_messages(asked: dict[str, Any], answer: Any) -> dict[str, Any]:
    call = next(block for block in answer["content"] if block["type"] == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
    said = [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [result]}]
    return {**asked, "messages": [*asked["messages"], *said]}


def _after_responses(asked: dict[str, Any], answer: Any) -> dict[str, Any]:
    call = next(item for item in answer["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
    return {**asked, "input": [{"role": "user", "content": asked["input"]}, *answer["output"], result]}


_NEXT = {"chat": _after_chat, "messages": _after_messages, "responses": _after_responses}
