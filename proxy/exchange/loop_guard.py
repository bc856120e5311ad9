"""The loop guard of the OpenClaw proxy's users: a conversation with too many tool results is ended (A1).

It counts the tool results of the whole history, as theirs did, so it is off unless `max_tool_calls` is set. The answer
comes in the client's own mode: as a stream if it asked for one.
"""

from __future__ import annotations

from proxy.codec.json_text import JsonObject, dump_json
from proxy.dialects.base import Dialect
from proxy.dialects.chat.request import ChatRequest, count_tool_results
from proxy.exchange.whole_answer import answer_as_answer, answer_as_stream, unrepaired


def limit_answer(
    request: ChatRequest, limit: int, repeat: tuple[str, int] = ("", 0), most: int = 0
) -> JsonObject | None:
    """The whole answer that ends the conversation, or None if it may go on: more than the `limit` of results, or a call
    (its tool's name, and how often it was made with this result) that repeats too often. 0 is off.
    """
    text = _too_many(request, limit) or _too_often(repeat, most)
    if not text:
        return None
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


def _too_many(request: ChatRequest, limit: int) -> str:
    if not limit or not request.body.get("tools"):
        return ""
    count = count_tool_results(request.body.get("messages"))
    if count < limit:
        return ""
    return (
        f"Tool call safety limit reached ({count} tool results, the limit is {limit}). "
        "Please start a new conversation, or raise max_tool_calls in the proxy."
    )


def _too_often(repeat: tuple[str, int], most: int) -> str:
    """The error message for a call that repeats (F92)."""
    name, count = repeat
    if not most or count < most:
        return ""
    return f"The call of {name} was made {count} times with the same arguments and the same result."


def render_limit_answer(answer: JsonObject, dialect: Dialect, *, stream: bool) -> bytes:
    """The guard's answer in the client's dialect, as the stream that it asked for, or whole."""
    if stream:
        return answer_as_stream(answer, unrepaired(), dialect.writer(expand=True))
    return answer_as_answer(dump_json(answer), answer, unrepaired(), dialect)
