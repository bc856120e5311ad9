"""Messages for the client: streams, whole messages and errors.

Source: the Anthropic API reference, "Create a Message", "Streaming messages", "Errors".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from proxy.dialects.messages.blocks import Blocks, ReplyOptions
from proxy.engine.events import Event
from proxy.errors import ProxyError, UpstreamRefused
from proxy.json import Json, JsonObject, dump_strict, load_json
from proxy.upstream.context_overflow import read_overflow

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# Status codes of this API and of gateways in front of it. Others become 400 or 500. An overloaded server sends 503,
# which this API calls 529.
_STATUSES = frozenset((*_KINDS, 405, 500, 502, 508))
_NO_ROOM, _OVERLOADED = 503, 529


@dataclass(frozen=True, slots=True)
class MessagesDialect:
    """Messages for one request."""

    options: ReplyOptions
    verbatim: ClassVar[bool] = False
    keeps: ClassVar[bool] = False

    def writer(self, *, expand: bool) -> MessagesWriter:
        """Return a writer for one stream. `expand` has no effect: every event is encoded anyway."""
        return MessagesWriter(self.options)

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """Return a whole answer as a message. Raises the error of a `Failed` event."""
        written = MessagesWriter(self.options).whole(answer, events)
        return dump_strict(assemble(written, self.options.prefill))


class MessagesWriter(Blocks):
    """Encodes internal events as the bytes of a Messages stream."""

    def error(self, error: ProxyError) -> bytes:
        """Return the end of the open block and the error. No `message_stop` follows, because it would mean success."""
        return self.encode([*self.fail(), error_object(error)])

    def heartbeat(self) -> bytes:
        """Return a ping, which clients accept as a sign of life (F75)."""
        return _PING


def assemble(events: Iterable[JsonObject], prefill: str = "") -> JsonObject:
    """Build the message from a stream's events, without the start of the answer that the server repeats (`prefill`).

    A call with incomplete arguments (`max_tokens`) cannot be a block, so it becomes text (C4).
    """
    message: JsonObject = {}
    content: list[JsonObject] = []
    pieces: list[str] = []
    for event in events:
        match event:
            case {"message": dict(start)}:
                message = start
            case {"content_block": dict(block)}:
                content.append({**block})
                pieces = []
            case {"type": "content_block_delta", "delta": {"signature": signature}}:
                content[-1]["signature"] = signature
            case {"type": "content_block_delta", "delta": dict(delta)}:
                pieces += [str(text) for name, text in delta.items() if name != "type"]
            case {"type": "content_block_stop"}:
                block, text = content[-1], "".join(pieces)
                if block["type"] != "tool_use":
                    block[str(block["type"])] = text
                elif isinstance(arguments := _parsed(text), dict):
                    block["input"] = arguments
                else:
                    content[-1] = {"type": "text", "text": f"{block['name']}{text}"}
            case {"type": "message_delta", "delta": dict(delta), "usage": usage}:
                message = {**message, **delta, "usage": usage}
    first = next((block for block in content if block["type"] == "text"), {})
    if prefill and str(first.get("text", "")).startswith(prefill):
        first["text"] = str(first["text"]).removeprefix(prefill)
        content = [block for block in content if block.get("text") != ""]
    return {**message, "content": [*content]} if message else {}


def _parsed(text: str) -> Json:
    try:
        return load_json(text)
    except ValueError:
        return None


def error_status(error: ProxyError) -> int:
    """Return the HTTP status of an error in this dialect."""
    if error.status == _NO_ROOM:
        return _OVERLOADED
    return error.status if error.status in _STATUSES else 400 if error.status < 500 else 500


def error_object(error: ProxyError) -> JsonObject:
    """Return the error object of this dialect."""
    status = error_status(error)
    other = "invalid_request_error" if status < 500 else "api_error"
    body: JsonObject = {"type": _KINDS.get(status, other), "message": _words(error)}
    if error.code:
        body["details"] = {"error_code": error.code}
    return {"type": "error", "error": body}


def error_body(error: ProxyError) -> bytes:
    """Return the body of an error."""
    return dump_strict(error_object(error))


def _words(error: ProxyError) -> str:
    """Return the message. For a full context, it has the wording that makes clients compact (F95)."""
    overflow = read_overflow(error.message, error.body) if isinstance(error, UpstreamRefused) else None
    if overflow is None or overflow.prompt is None:
        return error.message
    if overflow.prompt >= overflow.limit:
        return f"prompt is too long: {max(overflow.prompt, overflow.limit + 1)} tokens > {overflow.limit} maximum"
    if overflow.requested is None:
        return error.message
    return (
        "input length and `max_tokens` exceed context limit: "
        f"{overflow.prompt} + {overflow.requested} > {overflow.limit}, "
        "decrease input length or `max_tokens` and try again"
    )
