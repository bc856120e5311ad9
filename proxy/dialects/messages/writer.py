"""Messages, to the client: the stream of events, whole messages, and errors.

Source: the Anthropic API reference, "Create a Message", "Streaming messages", "Errors".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from proxy.codec.json_access import objects_in
from proxy.codec.json_text import Json, JsonObject, dump_strict, load_json
from proxy.dialects.messages.blocks import Blocks, ReplyOptions
from proxy.dialects.reply_parts import TextKind, TranslatedWriter, may_hold_halves
from proxy.engine.events import CallArguments, Chunk, Event, Reasoning
from proxy.engine.fast_path import CallTemplate
from proxy.engine.lane import Lane
from proxy.errors import ProxyError, UpstreamRefused
from proxy.upstream.context_overflow import read_overflow

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
# Stands for a text where its place in an event is looked for.
_MARK = "@"
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
# The statuses that this API has, and those of a front before it; a server that has no room says so by 503, this API by
# 529. What is neither is a bad request, or a server that failed.
_STATUSES = frozenset((*_KINDS, 405, 408, 500, 502, 508))
_NO_ROOM, _OVERLOADED = 503, 529


@dataclass(frozen=True, slots=True)
class MessagesDialect:
    """Messages for one request."""

    options: ReplyOptions
    verbatim: ClassVar[bool] = False
    keeps: ClassVar[bool] = False

    def writer(self, *, expand: bool) -> MessagesWriter:
        """A writer for one stream; `expand` makes no difference, for everything is said anew."""
        return MessagesWriter(Blocks(self.options))

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """A whole answer as a message; raises the error of a `Failed` event."""
        blocks = Blocks(self.options)
        blocks.observe_body(answer)
        stream_events = [written for event in events for written in blocks.take(event)]
        return dump_strict(_continued(assemble([*stream_events, *blocks.end()]), self.options.prefill))


class MessagesWriter(TranslatedWriter):
    """Internal events to the bytes of a Messages stream."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def observe_chunk(self, chunk: Chunk) -> None:
        """Keep the newest token counts, and the reply's id."""
        self._blocks.observe_body(chunk.body)

    def teller(self, lane: Lane) -> BlockTeller | None:
        """Return the writer of a lane's texts, while they continue the open block."""
        template, blocks = lane.template, self._blocks
        if template.choice != 0:
            return None
        if isinstance(template, CallTemplate):
            is_open, event = blocks.continues_call(template.index), blocks.arguments_delta(_MARK)
        else:
            kind: TextKind = "thinking" if template.reasoning else "text"
            is_open, event = blocks.continues(kind), blocks.delta_of(kind, _MARK)
        return BlockTeller(event, blocks, is_call=isinstance(template, CallTemplate)) if is_open else None

    def write(self, event: Event) -> bytes:
        """Return one event of the engine as events of the stream."""
        return b"".join(map(encode, self._blocks.take(event)))

    def end(self) -> bytes:
        """Return the end of a finished message. Raises UpstreamBroken if it cannot be finished."""
        return b"".join(map(encode, self._blocks.end()))

    def error(self, error: ProxyError) -> bytes:
        """Return the end of the open block and the error; no `message_stop` follows, which would mean success."""
        return b"".join(map(encode, [*self._blocks.fail(), error_object(error)]))

    def heartbeat(self) -> bytes:
        """Return a ping, which clients count as a sign of life (F75)."""
        return _PING


class BlockTeller:
    """Texts of a lane as deltas of the open block, which differ only in their text; `event` is one of them."""

    def __init__(self, event: JsonObject, blocks: Blocks, *, is_call: bool) -> None:
        self._blocks = blocks
        self._is_call = is_call
        self._before, _, self._after = encode(event).partition(_MARK.encode())

    def tell(self, texts: Sequence[bytes]) -> bytes | None:
        """Return these texts, as they are in strings of JSON, as events.

        None if an escape in arguments may be half a character.
        """
        if self._is_call and may_hold_halves(texts):
            return None
        return self._before + (self._after + self._before).join(texts) + self._after

    def record(self, events: Iterable[Event]) -> None:
        """Keep what these texts say."""
        for event in events:
            if isinstance(event, CallArguments | Reasoning):
                self._blocks.keep(event)


def encode(event: JsonObject) -> bytes:
    """An event with its name, without which the SDKs pass it over."""
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), dump_strict(event))


def assemble(events: Iterable[JsonObject]) -> JsonObject:
    """The message that a stream of events builds.

    A call of which the arguments were cut (`max_tokens`) is no block that a client could take; it is text (C4).
    """
    message: JsonObject = {}
    content: list[Json] = []
    pieces: list[str] = []
    for event in events:
        match event:
            case {"type": "message_start", "message": dict(start)}:
                message = {**start, "content": content}
            case {"type": "content_block_start", "content_block": dict(block)}:
                content.append({**block})
                pieces = []
            case {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": str(signature)}}:
                _last(content)["signature"] = signature
            case {"type": "content_block_delta", "delta": {"type": _, **fields}}:
                pieces += [text for text in fields.values() if isinstance(text, str)]
            case {"type": "content_block_stop"}:
                content[-1] = _finished(_last(content), "".join(pieces))
            case {"type": "message_delta", "delta": dict(delta), "usage": usage}:
                message |= {**delta, "usage": usage}
            case _:
                pass
    return message


def _continued(message: JsonObject, prefill: str) -> JsonObject:
    """A message without the beginning that the client gave: a server that repeats it does so in its first text."""
    if not prefill:
        return message
    blocks = objects_in(message.get("content"))
    at = next((number for number, block in enumerate(blocks) if block.get("type") == "text"), None)
    if at is None:
        return message
    text = str(blocks[at]["text"])
    if not text.startswith(prefill):
        return message
    blocks[at] = {**blocks[at], "text": text.removeprefix(prefill)}
    return {**message, "content": [block for block in blocks if block.get("text") != ""]}


def _last(content: list[Json]) -> JsonObject:
    block = content[-1]
    assert isinstance(block, dict)
    return block


def _finished(block: JsonObject, text: str) -> JsonObject:
    """A block with all that was said in it."""
    if block["type"] != "tool_use":
        return {**block, str(block["type"]): text}
    try:
        arguments = load_json(text)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return {**block, "input": arguments}
    return {"type": "text", "text": f"{block['name']}{text}"}


def error_status(error: ProxyError) -> int:
    """The HTTP status of an error in this dialect."""
    if error.status == _NO_ROOM:
        return _OVERLOADED
    if error.status in _STATUSES:
        return error.status
    if error.status < 500:
        return 400
    return 500


def error_object(error: ProxyError) -> JsonObject:
    """The error object of this dialect."""
    status = error_status(error)
    other = "api_error"
    if status < 500:
        other = "invalid_request_error"
    body: JsonObject = {"type": _KINDS.get(status, other), "message": _words(error)}
    if error.code:
        body["details"] = {"error_code": error.code}
    return {"type": "error", "error": body}


def error_body(error: ProxyError) -> bytes:
    """The body of an answer that is an error."""
    return dump_strict(error_object(error))


def _words(error: ProxyError) -> str:
    """A context that is too small is told in the words by which clients know to compact (F95)."""
    if not isinstance(error, UpstreamRefused):
        return error.message
    overflow = read_overflow(error.message, error.body)
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

