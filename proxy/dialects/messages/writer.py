"""Messages for the client: streams, whole messages and errors.

Source: the Anthropic API reference, "Create a Message", "Streaming messages", "Errors".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proxy.dialects.base import REASONING_FIELDS, LaneEncoder
from proxy.dialects.messages.ids import client_id, signature
from proxy.dialects.reply_parts import Content, OpenCall, TextKind, TranslatedWriter, object_in_text, token_counts
from proxy.engine.events import CallArguments, CallOpened, Event, Reasoning, Text, choice_number
from proxy.engine.lane import Lane
from proxy.errors import LimitExceeded, ProxyError, UpstreamRefused
from proxy.json import Json, JsonObject, as_text, dump_strict, objects_in
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
# Maximum number of calls that wait for an incomplete one. The engine has a limit too, but only if it repairs.
_MAX_WAITING = 1024
# The fields in which vLLM and SGLang report the stop sequence that ended the reply.
_MATCHED = ("stop_reason", "matched_stop")


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """Options that a reply takes from its request.

    `model`: the client's name for the model. `stops`: its stop sequences. `id`: for messages without an id from the
    server. `prefill`: the client's start of the answer, if the server repeats it. `leave_open`: do not end the open
    block on an error (`MessagesWriter.error`).
    """

    model: str
    stops: frozenset[str] = frozenset()
    id: str = "0"
    prefill: str = ""
    leave_open: bool = False


class MessagesWriter(TranslatedWriter):
    """Encodes internal events as a Messages stream: blocks in order, one open at a time (F53, F93).

    A block of text or reasoning opens with its first non-blank character, so no block is empty. Content after an open
    call waits for its end. A call that the engine did not repair, and so does not close, ends once it is an object and
    content waits.
    """

    def __init__(self, options: ReplyOptions) -> None:
        super().__init__()
        self._options = options
        self._has_started = False
        self._next = 0
        # The server's reasoning field.
        self._field = ""
        # The blocks that wait for the open call, and those of them that are calls, by number.
        self._waiting: deque[list[Content]] = deque()
        self._waiting_calls: dict[int, list[Content]] = {}
        self._has_calls = False
        self._id = ""

    def observe_body(self, body: JsonObject) -> JsonObject:
        """Keep the token counts, the refusal, the id of the first body, and the name of the reasoning field."""
        choice = super().observe_body(body)
        self._field = next((name for name in REASONING_FIELDS if as_text(choice.get(name))), self._field)
        if not self._id:
            self._id = _letters(as_text(body.get("id")).removeprefix("chatcmpl-"))
        return choice

    def last_events(self) -> list[JsonObject]:
        """Return the end of a finished reply. Raises UpstreamBroken if a call is incomplete."""
        waiting = (
            "".join(event.fragment for event in events if isinstance(event, CallArguments))
            for events in self._waiting_calls.values()
        )
        reason, cut = self.finish_reason([*(call.arguments for call in self._calls.values()), *waiting])
        events: list[JsonObject] = []
        while self._calls:
            [(number, call)] = self._calls.items()
            if not cut and not call.deltas:
                events.append(self.arguments_delta(call, "{}"))
            events += [*self.close_call(number), *self._flow()]
        events += [*self.say("text", "".join(self._refusal)), *self._begin_block()]
        matched = self._matched_stop()
        if reason == "content_filter" or (self._refusal and not cut):
            stop = "refusal"
        elif cut:
            stop = "max_tokens"
        else:
            stop = "tool_use" if self._has_calls else "end_turn" if matched is None else "stop_sequence"
        delta: JsonObject = {"stop_reason": stop, "stop_sequence": matched if stop == "stop_sequence" else None}
        last: JsonObject = {"type": "message_delta", "delta": delta, "usage": usage(self._counts)}
        return [*events, last, {"type": "message_stop"}]

    def _matched_stop(self) -> str | None:
        """Return the client's stop sequence that ended the reply, if the server reports it."""
        source = None if self._finished is None else self._finished.source
        for entry in objects_in(source.body.get("choices")) if source else ():
            if choice_number(entry.get("index")) == 0:
                words = (as_text(entry.get(name)) for name in _MATCHED)
                return next((word for word in words if word in self._options.stops), None)
        return None

    def error(self, error: ProxyError) -> bytes:
        """Return the end of the open block and the error. No `message_stop` follows, because it would mean success.

        Claude Code keeps every block that has ended: half a call stays in its history, and after half a text it gives
        up. If the block is still open, it discards the message and retries.
        """
        ended = [] if self._options.leave_open else self._end_block()
        return self.encode([*ended, error_object(error)])

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """Return a whole answer as a message."""
        return dump_strict(assemble(self.whole(answer, events), self._options.prefill))

    def heartbeat(self) -> bytes:
        """Return a ping, which clients accept as a sign of life (F75)."""
        return _PING

    def lane_encoder(self, lane: Lane) -> LaneEncoder | None:
        """Return the encoder of a lane's texts; None while content waits, which leaves with the last of them."""
        return None if self._waiting else super().lane_encoder(lane)

    # Content.

    def content(self, event: Content) -> list[JsonObject]:
        """Return the events for content; none if it waits for the end of the open call."""
        number = -1 if isinstance(event, Text | Reasoning) else event.index
        if self._calls and number not in self._calls:
            if isinstance(event, CallOpened) and number not in self._waiting_calls:
                if len(self._waiting_calls) >= _MAX_WAITING:
                    raise LimitExceeded("max_calls", _MAX_WAITING)
                self._waiting_calls[number] = []
                self._waiting.append(self._waiting_calls[number])
            if number in self._waiting_calls:
                self._waiting_calls[number].append(event)
            else:
                self._waiting.append([event])
            return self._flow()
        return [*super().content(event), *self._flow()]

    def _flow(self) -> list[JsonObject]:
        """Return the events for the content that waited for calls that have ended."""
        events: list[JsonObject] = []
        while self._waiting:
            for number, call in [*self._calls.items()]:
                if not call.has_ended():
                    return events
                events += self.close_call(number)
            first, *others = self._waiting.popleft()
            if isinstance(first, CallOpened):
                del self._waiting_calls[first.index]
            for event in (first, *others):
                events += super().content(event)
        return events

    def continue_call(self, call: OpenCall, text: str) -> list[JsonObject]:
        """Return the event for a call's next arguments, without blanks before them.

        The SDKs parse the arguments after each delta and raise on blanks; servers may send `" "` first.
        """
        return [] if text.isspace() and not call.deltas else super().continue_call(call, text)

    def open_call(self, event: CallOpened) -> list[JsonObject]:
        """Return the start of a call's block."""
        before = self._begin_block()
        self._has_calls = True
        self._calls[event.index] = OpenCall(index=self._next)
        id_ = client_id(self.own_id(event.id, f"{self._name}_{self._next}"))
        return [*before, self._start({"type": "tool_use", "id": id_, "name": event.name, "input": {}})]

    def close_call(self, number: int) -> list[JsonObject]:
        """Return the end of the open call's block."""
        call = self._calls.pop(number)
        return [*self.continue_call(call, call.escapes.finish()), self._stop()]

    def begin_text(self, kind: TextKind) -> list[JsonObject]:
        """Return the start of a block of text or reasoning."""
        before = self._begin_block()
        self._open = kind
        more: JsonObject = {"signature": ""} if kind == "thinking" else {}
        return [*before, self._start({"type": kind, kind: "", **more})]

    def text_delta(self, text: str) -> JsonObject:
        """Return the event that continues the open block."""
        return self._delta({"type": f"{self._open}_delta", str(self._open): text})

    def arguments_delta(self, call: OpenCall, text: str) -> JsonObject:
        """Return the event that continues the open call."""
        return self._delta({"type": "input_json_delta", "partial_json": text})

    # Blocks.

    @property
    def _name(self) -> str:
        return self._id or _letters(self._options.id)

    def _start(self, block: JsonObject) -> JsonObject:
        self._next += 1
        return {"type": "content_block_start", "index": self._next - 1, "content_block": block}

    def _delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._next - 1, "delta": delta}

    def _stop(self) -> JsonObject:
        return {"type": "content_block_stop", "index": self._next - 1}

    def _end_block(self) -> list[JsonObject]:
        """Return the end of the open block, if there is one; a reasoning block is signed."""
        if self._open is None:
            return [self._stop()] if self._calls else []
        rest = self.deltas(self._characters.finish())
        if self._open == "thinking":
            rest.append(self._delta({"type": "signature_delta", "signature": signature(self._field)}))
        self._open = None
        return [*rest, self._stop()]

    def _begin_block(self) -> list[JsonObject]:
        """Return the end of the open block, and the start of the message if it has not started."""
        ended = self._end_block()
        if self._has_started:
            return ended
        self._has_started = True
        message: JsonObject = {
            "id": f"msg_{self._name}",
            "type": "message",
            "role": "assistant",
            "model": self._options.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(self._counts),
        }
        return [{"type": "message_start", "message": message}]


def _letters(text: str) -> str:
    """Return the characters of a server's id that this dialect's ids may have."""
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())[:64]


def usage(counts: Mapping[str, Json]) -> JsonObject:
    """Return the server's token counts in this API's fields; cached tokens are not counted twice (F62)."""
    prompt, cached, written, thought = token_counts(counts)
    usage: JsonObject = {
        "input_tokens": max(0, prompt - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }
    return {**usage, "output_tokens_details": {"thinking_tokens": thought}} if thought else usage


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
                elif (arguments := object_in_text(text)) is not None:
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
