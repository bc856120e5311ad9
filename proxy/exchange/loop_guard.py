"""The loop guard of the OpenClaw proxy's users: a conversation with too many tool results is ended (A1).

It counts the tool results of the whole history, as theirs did, so it is off unless `max_tool_calls` is set. The answer
comes in the client's own mode: as a stream if it asked for one.
"""

from __future__ import annotations

from proxy.codec.json_text import JsonObject, dump_json
from proxy.dialects.base import Dialect
from proxy.dialects.chat.request import ChatRequest, count_tool_results
from proxy.exchange.reply_stream import answer_as_answer, answer_as_stream, unrepaired


def limit_answer(request: ChatRequest, limit: int) -> JsonObject | None:
    """The whole answer that ends the conversation, or None if it may go on; `limit` 0 is off."""
    if not limit:
        return None
    if not request.body.get("tools"):
        return None
    count = count_tool_results(request.body.get("messages"))
    if count < limit:
        return None
    text = (
        f"Tool call safety limit reached ({count} tool results, the limit is {limit}). "
        "Please start a new conversation, or raise max_tool_calls in the proxy."
    )
    return {
        "id": "chatcmpl-loop-abort",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def render_limit_answer(answer: JsonObject, dialect: Dialect, *, stream: bool) -> bytes:
    """The guard's answer in the client's dialect, as the stream that it asked for, or whole."""
    if stream:
        return answer_as_stream(answer, unrepaired(), dialect.writer(expand=True))
    return answer_as_answer(dump_json(answer), answer, unrepaired(), dialect)
