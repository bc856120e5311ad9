"""A strict reader of a Messages server's output: raw event streams, whole answers, errors.

A broken rule raises an AssertionError that names the place. The rules are those of the Anthropic API reference ("Create
a Message", "Streaming Messages", "Errors"), of the pinned SDK's types, and of inputs that crashed clients (F93). The
reader uses only the bytes, and no code of the proxy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn, get_args

import anthropic.types as api
from anthropic.types.shared import ErrorResponse
from jiter import from_json
from pydantic import BaseModel, TypeAdapter, ValidationError

# The `error.type` for each status; the last four statuses are those of proxies and of overload.
ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    504: "timeout_error",
    508: "api_error",
    529: "overloaded_error",
}
STOP_REASONS = frozenset(get_args(api.StopReason))
MESSAGE_ID = re.compile(r"msg_[A-Za-z0-9_-]+")
TOOL_ID = re.compile(r"toolu_[A-Za-z0-9_-]+")
# Stop reasons with which a message may have calls, which may be cut off.
CUT_CALLS = ("max_tokens", "refusal")


_EVENTS: Mapping[str, type[BaseModel]] = {
    "message_start": api.RawMessageStartEvent,
    "content_block_start": api.RawContentBlockStartEvent,
    "content_block_delta": api.RawContentBlockDeltaEvent,
    "content_block_stop": api.RawContentBlockStopEvent,
    "message_delta": api.RawMessageDeltaEvent,
    "message_stop": api.RawMessageStopEvent,
}
# Kind of block -> the fields of its start, except `type`, `id` and `name`.
_STARTS: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
# Kind of delta -> the kind of its block, and the key of its value.
_DELTAS: Mapping[str, tuple[str, str]] = {
    "text_delta": ("text", "text"),
    "input_json_delta": ("tool_use", "partial_json"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
}


def check_stream(data: bytes, *, left_open: bool = False) -> dict[str, Any]:
    """Return the message of a stream's events, or its error body. Raises AssertionError for a broken rule.

    `left_open`: an error may leave its block open, as Claude Code prefers.
    """
    return StreamReading(left_open=left_open).read(data)


def check_message(body: bytes | Mapping[str, Any]) -> dict[str, Any]:
    """Parse a whole answer. Raises AssertionError for a broken rule."""
    return Reading().read_message(body)


def check_error(body: bytes | Mapping[str, Any], status: int) -> dict[str, Any]:
    """Parse an error body. Raises AssertionError for a broken rule."""
    return Reading().read_error(body, status)


def need(holds: object, what: str) -> None:
    """Raise AssertionError unless `holds` is true, even if Python's asserts are disabled."""
    if not holds:
        raise AssertionError(what)


def is_count(value: object) -> bool:
    """Return whether a value is a number of tokens: an int of at least 0, and not a bool."""
    return type(value) is int and value >= 0


@dataclass
class Block:
    """A block of a stream so far. `said` is the text, the thinking or the JSON of the input."""

    start: dict[str, Any]
    said: str = ""
    signature: str = ""

    @property
    def kind(self) -> str:
        return str(self.start["type"])

    def content(self) -> dict[str, Any]:
        """Return the block as in a whole answer; of a truncated input, the part that can be read."""
        if self.kind == "tool_use":
            given = _beginning(self.said) if self.said else {}
            return {**self.start, "input": given}
        signature = {"signature": self.signature} if self.kind == "thinking" else {}
        return {**self.start, self.kind: self.said, **signature}


@dataclass
class Reading:
    """The rules that streams and whole answers share."""

    ids: list[str] = field(default_factory=list)

    def read_message(self, body: bytes | Mapping[str, Any]) -> dict[str, Any]:
        message = _load(body) if isinstance(body, bytes) else dict(body)
        need("stop_sequence" in message, "the whole answer lacks `stop_sequence`")
        self.envelope(message)
        for block in message["content"]:
            self.block(block)
        self.reason(
            message.get("stop_reason"), message.get("stop_sequence"), [block["type"] for block in message["content"]]
        )
        _validate(api.Message, message)
        return message

    def read_error(self, body: bytes | Mapping[str, Any], status: int | None) -> dict[str, Any]:
        """Parse an error body; without a status, that of an event."""
        error = _load(body) if isinstance(body, bytes) else dict(body)
        need(error.get("type") == "error", f"the type of an error body is {error.get('type')!r}")
        inner = object_of(error.get("error"), "error")
        self._error_type(inner, status)
        need(isinstance(inner["message"], str) and inner["message"], "the error has no message")
        _validate_error(error)
        return error

    def _error_type(self, inner: dict[str, Any], status: int | None) -> None:
        need({"type", "message"} <= inner.keys(), "the error lacks `type` or `message`")
        need(status is None or status in ERROR_TYPES, f"the API has no status {status}")
        kind = inner["type"]
        need(isinstance(kind, str), f"the type of an error is {kind!r}")
        need(kind in ERROR_TYPES.values() or kind in _error_types(), f"the API has no error of the type {kind!r}")
        if status is not None:
            need(kind == ERROR_TYPES[status], f"status {status} needs the type {ERROR_TYPES[status]}, not {kind}")

    def envelope(self, message: dict[str, Any]) -> None:
        """Check the fields that the start of a stream and a whole answer share."""
        for name, value in (("type", "message"), ("role", "assistant")):
            need(message.get(name) == value, f"`{name}` of the message is {message.get(name)!r}")
        need(isinstance(message.get("id"), str) and message["id"], "the message has no id")
        need(MESSAGE_ID.fullmatch(message["id"]), "the message's id does not begin with `msg_`")
        need(isinstance(message.get("model"), str) and message["model"].strip(), "a message without a model")
        need(isinstance(message.get("content"), list), "the content is not a list")
        self.usage(message.get("usage"), ("input_tokens", "output_tokens"))

    def usage(self, usage: object, needed: tuple[str, ...]) -> None:
        """Check that the counts are whole numbers, and that the `needed` ones are present."""
        usage = object_of(usage, "usage")
        for name in needed:
            need(is_count(usage.get(name)), f"usage.{name} is {usage.get(name)!r}")
        for name, value in usage.items():
            need(not name.endswith("_tokens") or value is None or is_count(value), f"usage.{name} is {value!r}")

    def block(self, block: object) -> None:
        """Check a whole block: its kind is one that the proxy may send, and it is not empty."""
        block = _of_kind(block, _STARTS, "block")
        if block["type"] == "tool_use":
            self.call(block)
            need(isinstance(block.get("input"), dict), f"the input of a call is {block.get('input')!r}")
            return
        said = block.get(block["type"])
        need(isinstance(said, str), f"`{block['type']}` is {said!r}")
        if block["type"] == "thinking":
            need(said, "a thinking block without thinking")
            need(isinstance(block.get("signature"), str) and block["signature"], "a thinking block without a signature")
        else:
            need(str(said).strip(), "a text block without text")

    def call(self, block: dict[str, Any]) -> None:
        """Check the id and the name of a call."""
        name, id_ = block.get("name"), block.get("id")
        need(isinstance(name, str) and name.strip(), f"the name of a call is {name!r}")
        need(isinstance(id_, str) and id_, f"the id of a call is {id_!r}")
        need(TOOL_ID.fullmatch(str(id_)), "the call's id does not begin with `toolu_`")
        need(id_ not in self.ids, f"duplicate id {id_}")
        self.ids.append(str(id_))

    def reason(self, reason: object, sequence: object, kinds: list[str]) -> None:
        """Check that the stop reason matches the blocks."""
        need(isinstance(reason, str) and reason in STOP_REASONS, f"the stop reason is {reason!r}")
        called = "tool_use" in kinds
        need(called or reason != "tool_use", "the stop reason is tool_use, but there is no call")
        need(not called or reason in ("tool_use", *CUT_CALLS), f"the stop reason is {reason}, but there are calls")
        if reason == "stop_sequence":
            need(isinstance(sequence, str) and sequence, "stop_reason is stop_sequence, but the field is empty")
        else:
            need(sequence is None, f"the stop sequence is {sequence!r}, but the stop reason is {reason}")


@dataclass
class StreamReading(Reading):
    """The state of a stream. `open` are the blocks that have not stopped, at most one."""

    message: dict[str, Any] | None = None
    blocks: list[Block] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    closing: dict[str, Any] | None = None
    stopped: bool = False
    error: dict[str, Any] | None = None
    left_open: bool = False

    def read(self, data: bytes) -> dict[str, Any]:
        """Read all events, and return their message, or the error."""
        for number, (name, text) in enumerate(events(data)):
            try:
                self._event(name, text)
            except AssertionError as wrong:
                raise AssertionError(f"event {number} ({name}): {wrong}") from None
        if self.error is not None:
            return self.error
        need(self.stopped, "the stream ends without message_stop or an error")
        assert self.message is not None and self.closing is not None
        usage = {**self.message["usage"], **self.closing["usage"]}
        content = [block.content() for block in self.blocks]
        return {**self.message, "content": content, **self.closing["delta"], "usage": usage}

    def _event(self, name: str, text: str) -> None:
        need(not self.stopped, "an event after message_stop")
        need(self.error is None, "an event after an error")
        event = _load(text)
        if name == "error":
            self._error(event)
            return
        need(event.get("type") == name, f"the event's name is {name}, but its type is {event.get('type')!r}")
        if name == "ping":
            need(event == {"type": "ping"}, f"a ping with other fields: {event}")
            return
        need(name in _EVENTS, "the API has no such event")
        need((name == "message_start") == (self.message is None), "message_start must be first and unique")
        need(self.closing is None or name == "message_stop", "an event other than message_stop after message_delta")
        getattr(self, f"_{name}")(event)
        _validate(_EVENTS[name], event)

    def _message_start(self, event: dict[str, Any]) -> None:
        message = object_of(event.get("message"), "message")
        self.envelope(message)
        need(message["content"] == [], "the initial content is not empty")
        for name in ("stop_reason", "stop_sequence"):
            need(name in message and message[name] is None, f"{name} is not null at the start")
        self.message = message

    def _content_block_start(self, event: dict[str, Any]) -> None:
        need(_is_index(event.get("index"), len(self.blocks)), f"index {event.get('index')!r}, not {len(self.blocks)}")
        need(not self.open, "a block starts while another one is open")
        start = _of_kind(event.get("content_block"), _STARTS, "block")
        if start["type"] == "tool_use":
            self.call(start)
        for name, value in _STARTS[start["type"]].items():
            need(start.get(name) == value, f"a {start['type']} block starts with {name} {start.get(name)!r}")
        self.open.append(len(self.blocks))
        self.blocks.append(Block(start))

    def _open_block(self, event: dict[str, Any]) -> Block:
        index = event.get("index")
        need(any(_is_index(index, number) for number in self.open), f"block {index!r} is not open")
        assert isinstance(index, int)
        return self.blocks[index]

    def _content_block_delta(self, event: dict[str, Any]) -> None:
        block, delta = self._open_block(event), _of_kind(event.get("delta"), _DELTAS, "delta")
        kind, key = _DELTAS[delta["type"]]
        need(kind == block.kind, f"a {delta['type']} into a {block.kind} block")
        need(isinstance(delta.get(key), str) and delta[key], f"an empty delta: {delta}")
        need(not block.signature, "a delta after the signature")
        if key == "signature":
            block.signature = delta[key]
        else:
            block.said += delta[key]
            # The SDK parses the partial input at each delta, and raises for blanks only.
            need(key != "partial_json" or block.said.strip(), f"a call's input starts with blanks: {block.said!r}")

    def _content_block_stop(self, event: dict[str, Any]) -> None:
        block = self._open_block(event)
        need(block.kind != "text" or block.said.strip(), "a text block without text")
        if block.kind == "thinking":
            need(block.said, "a thinking block without thinking")
            need(block.signature, "a thinking block without its signature")
        self.open.remove(event["index"])

    def _message_delta(self, event: dict[str, Any]) -> None:
        need(not self.open, f"blocks {self.open} are still open")
        delta = object_of(event.get("delta"), "delta")
        need({"stop_reason", "stop_sequence"} <= delta.keys(), f"the delta is {delta!r}")
        assert self.message is not None
        self.usage(event.get("usage"), ("output_tokens",))
        for name, counted in _counts(event["usage"], self.message["usage"]).items():
            need(counted >= _counts(self.message["usage"], {})[name], f"usage: {name} is less than at the start")
        self.reason(delta["stop_reason"], delta["stop_sequence"], [block.kind for block in self.blocks])
        self._inputs(cut=delta["stop_reason"] in CUT_CALLS)
        self.closing = event

    def _inputs(self, *, cut: bool) -> None:
        """Check that every call's JSON is an object, or if the reply was `cut`, the start of one.

        A partial call need not be the last block, because a server may send other text while a call is open.
        """
        for block in self.blocks:
            if block.kind == "tool_use":
                _check_input(block.said, cut=cut)

    def _message_stop(self, event: dict[str, Any]) -> None:
        need(self.closing is not None, "message_stop without message_delta")
        self.stopped = True

    def _error(self, event: dict[str, Any]) -> None:
        need(self.left_open or not self.open, f"blocks {self.open} are still open")
        need(self.closing is None, "an error after message_delta")
        self._inputs(cut=True)
        self.error = self.read_error(event, None)


def object_of(value: object, what: str) -> dict[str, Any]:
    """Return the value, which must be an object."""
    if not isinstance(value, dict):
        raise AssertionError(f"{what}: {value!r} is not an object")
    return value


def _of_kind(value: object, kinds: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the value, which must be an object with a `type` of these."""
    given = object_of(value, what)
    kind = given.get("type")
    need(isinstance(kind, str) and kind in kinds, f"a {what} of an unknown kind: {value!r}")
    return given


def _is_index(value: object, number: int) -> bool:
    return type(value) is int and value == number


def _counts(usage: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, int]:
    """Return the input tokens, cached or not, and the output tokens. Missing counts are those of `before`."""
    cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
    said = {name: usage.get(name) if usage.get(name) is not None else before.get(name) for name in _NAMES}
    return {
        "the input": sum(said[name] or 0 for name in ("input_tokens", *cached)),
        "the output": said["output_tokens"] or 0,
    }


_NAMES = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _beginning(said: str) -> Any:
    """Parse partial JSON with the SDK's own reader, which rejects integers of more than 4,300 digits."""
    try:
        return from_json(said.encode(), partial_mode=True)
    except ValueError:
        return json.loads(said, parse_int=float)


def _check_input(said: str, *, cut: bool) -> None:
    """Check the JSON of a call: an object, or if it was cut, the start of one for the SDK's own reader."""
    try:
        if cut:
            given = from_json(said.encode(), partial_mode=True, allow_inf_nan=False) if said else {}
        else:
            given = json.loads(said, parse_int=float, parse_constant=_no_number)
    except ValueError as wrong:
        raise AssertionError(f"the input of a call is not JSON ({wrong}): {said!r}") from None
    need(isinstance(given, dict), f"the input of a call is not an object: {said!r}")


def events(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and data of each event, which must be two lines and a blank one."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise AssertionError(f"the stream is not UTF-8: {wrong}") from None
    need("\r" not in text, "a carriage return in the stream")
    need(text.endswith("\n\n"), "the last event is incomplete")
    for number, block in enumerate(text[:-2].split("\n\n")):
        lines = block.split("\n")
        need(not block.startswith(":"), f"block {number} is a comment: {block!r}")
        shape = len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: ")
        need(shape, f"block {number} is not one `event:` and one `data:` line: {block!r}")
        yield lines[0].removeprefix("event: "), lines[1].removeprefix("data: ")


def _load(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Duplicate keys, NaN and Infinity are errors."""
    try:
        parsed = json.loads(text, object_pairs_hook=once, parse_constant=_no_number)
    except ValueError as wrong:
        raise AssertionError(f"the data is not JSON ({wrong}): {text!r}") from None
    return object_of(parsed, "the JSON")


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len({key for key, _ in pairs}) == len(pairs), f"duplicate key: {[key for key, _ in pairs]}")
    return dict(pairs)


def _no_number(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


@cache
def adapter(model: type[BaseModel]) -> TypeAdapter[BaseModel]:
    return TypeAdapter(model)


def _validate(model: type[BaseModel], body: Mapping[str, Any]) -> None:
    """Check that the SDK's type accepts the body in strict mode, and has all of its fields."""
    try:
        _known(adapter(model).validate_json(json.dumps(body), strict=True), model.__name__)
    except ValidationError as wrong:
        raise AssertionError(f"the SDK's {model.__name__} rejects it: {wrong}") from None


def _known(value: object, place: str) -> None:
    if isinstance(value, BaseModel):
        need(not value.model_extra, f"{place} has no field {[*(value.model_extra or ())]}")
        for name in type(value).model_fields:
            _known(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _known(item, f"{place}.{number}")


@cache
def _error_types() -> frozenset[str]:
    """Return the types of errors for which the SDK has a model."""
    union = get_args(ErrorResponse.model_fields["error"].annotation) or ()
    return frozenset(get_args(each.model_fields["type"].annotation)[0] for each in union)


def _validate_error(error: dict[str, Any]) -> None:
    """Check an error by the SDK's type, which lacks request_too_large, and treats `details` separately."""
    inner = {key: value for key, value in error["error"].items() if key != "details"}
    details = error["error"].get("details", {"error_code": ""})
    coded = isinstance(details, dict) and isinstance(details.get("error_code"), str)
    need(coded, f"details without an error_code: {details!r}")
    known = "invalid_request_error" if inner["type"] == "request_too_large" else inner["type"]
    _validate(ErrorResponse, {**error, "error": {**inner, "type": known}})
