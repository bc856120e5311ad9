"""Token counts for `POST /v1/messages/count_tokens` and `/v1/responses/input_tokens` (F95: clients use them to
compact).

The first method that works is used: the server's `/tokenize` with the translated request (vLLM); its own
`/v1/messages/count_tokens` with the body of a Messages client (llama-server, newer vLLM); an estimate. The caller does
the I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from proxy.dialects.base import REASONING_FIELDS
from proxy.json import JsonObject, as_object, as_text, dump_json, dump_request, object_in, objects_in
from proxy.upstream.api import MESSAGES_COUNT_TOKENS, TOKENIZE

CountMethod = Literal["tokenize", "count_tokens", "estimate"]
# Sends a request upstream: takes path and body, returns status and body.
Post: TypeAlias = Callable[[str, bytes], tuple[int, bytes]]

# The header that names the counting method.
HEADER = "X-Tool-Proxy-Count"
IMAGE_TOKENS = 1600
MESSAGE_TOKENS = 4
# The fields of a chat request that determine the prompt.
_PROMPT = ("model", "messages", "tools", "chat_template_kwargs", "continue_final_message", "add_generation_prompt")
_MEDIA = frozenset(("image_url", "file", "input_audio", "video_url"))


def count(upstream_post: Post, chat_body: JsonObject, client_body: JsonObject | None = None) -> tuple[int, CountMethod]:
    """Return the number of input tokens and the counting method.

    `chat_body` is the translated request, `client_body` a Messages client's own. A method works if it answers 200 with
    a number. Errors of `upstream_post` (no connection, 401, 403) are raised.
    """
    # vLLM's TokenizeChatRequest. A prefill keeps its `add_generation_prompt: false`, which vLLM requires.
    prompt: JsonObject = {"add_generation_prompt": True, **{key: chat_body[key] for key in _PROMPT if key in chat_body}}
    number = _counted(upstream_post, TOKENIZE, prompt, "count")
    if number:
        return number, "tokenize"
    if client_body is not None:
        # A server with several models needs the model's name; the rest is the client's.
        named = {**client_body, "model": chat_body.get("model")}
        number = _counted(upstream_post, MESSAGES_COUNT_TOKENS, named, "input_tokens")
    return (number, "count_tokens") if number else (estimate(chat_body), "estimate")


def _counted(upstream_post: Post, path: str, body: JsonObject, field: str) -> int:
    """Return the number in `field` of the server's answer, or 0: llama-server's /tokenize answers `{"tokens": []}`."""
    status, data = upstream_post(path, dump_request(body))
    number = object_in(data).get(field) if status == 200 else 0
    return max(0, number) if type(number) is int else 0


def estimate(chat_body: JsonObject) -> int:
    """Estimate the tokens of a chat request.

    The UTF-8 bytes of all texts (content, reasoning, names and arguments of calls) and of the tools as compact JSON,
    divided by 3.5 and rounded up; 1,600 for each image or file; 4 for each message.
    """
    messages = objects_in(chat_body.get("messages"))
    size = len(dump_json(chat_body["tools"])) if chat_body.get("tools") else 0
    media = 0
    for message in messages:
        parts = objects_in(message.get("content"))
        texts = [message.get(name) for name in ("content", *REASONING_FIELDS)] + [part.get("text") for part in parts]
        for call in objects_in(message.get("tool_calls")):
            function = as_object(call.get("function"))
            texts += [function.get("name"), function.get("arguments")]
        size += sum(len(as_text(text).encode("utf-8", "surrogatepass")) for text in texts)
        media += sum(part.get("type") in _MEDIA for part in parts)
    return -(-size * 2 // 7) + media * IMAGE_TOKENS + len(messages) * MESSAGE_TOKENS
