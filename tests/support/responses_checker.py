"""A strict reader of a Responses server's output: raw event streams, whole responses, errors.

A broken rule raises an AssertionError that names the place. The rules are those of OpenAI's API reference ("Create a
model response", "Streaming events"), of Open Responses (required fields of a response), of the pinned SDK's types and
accumulator, and of inputs that made Codex fail. The reader uses only the bytes, and no code of the proxy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

import openai.types.responses as api
from pydantic import BaseModel, ValidationError

from tests.support.messages_checker import adapter, events, need, object_of, once

# Fields that Open Responses requires in a response.
REQUIRED = frozenset(
    (
        *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model"),
        *("previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation"),
        *("parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs"),
        *("temperature", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "store", "background"),
        *("service_tier", "metadata", "safety_identifier", "prompt_cache_key"),
    )
)
# The prefix of an item's id, by the item's type.
PREFIXES: Mapping[str, str] = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "tool_search_call": "tsc_",
}
# The error codes to which Codex reacts; the SDK's types lack some of them.
CODES = frozenset(
    (
        *("server_error", "rate_limit_exceeded", "invalid_prompt"),
        *("context_length_exceeded", "server_is_overloaded"),
    )
)
_LIFECYCLE = {
    "response.created": "in_progress",
    "response.in_progress": "in_progress",
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_REASONS = ("max_output_tokens", "content_filter")
# The initial fields of an item, except its type, id and names.
_EMPTY: Mapping[str, tuple[str, Any]] = {
    "message": ("content", []),
    "reasoning": ("content", []),
    "function_call": ("arguments", ""),
    "custom_tool_call": ("input", ""),
    "tool_search_call": ("arguments", {}),
}
# Deltas -> the type of their item, and of its part.
_DELTAS = {
    "response.output_text.delta": ("message", "output_text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_text.delta": ("reasoning", "reasoning_text"),
    "response.function_call_arguments.delta": ("function_call", ""),
    "response.custom_tool_call_input.delta": ("custom_tool_call", ""),
}
# Events that repeat all deltas of an item -> the field.
_WHOLES = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.reasoning_text.done": "text",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}
_PARTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}


def check_stream(data: bytes, *, types: bool = True) -> dict[str, Any]:
    """Return the last response of a stream. Raises AssertionError for a broken rule.

    Checking without the SDK's `types` takes a third of the time, for tests that read thousands of streams.
    """
    return StreamReading(types=types).read(data)


def check_response(body: bytes) -> dict[str, Any]:
    """Return a whole response. Raises AssertionError for a broken rule."""
    response = object_of(json.loads(body), "the response")
    check_fields(response)
    need(response["status"] in ("completed", "incomplete"), f"the status of the whole response is {response['status']}")
    check_end(response)
    for item in response["output"]:
        check_item(item)
        need(_status(item) != "in_progress", f"an item is in progress: {item}")
        need(_status(item) == "completed" or response["status"] == "incomplete", f"unfinished in a success: {item}")
    check_ids(response["output"])
    return response


def check_error(body: bytes, status: int) -> dict[str, Any]:
    """Return the error of an error body. Raises AssertionError for a broken rule."""
    given = object_of(json.loads(body), "the body")
    need([*given] == ["error"], f"the error body has the fields {[*given]}")
    error = object_of(given["error"], "the error")
    need(error.keys() == {"message", "type", "param", "code"}, f"the error has the fields {[*error]}")
    for name in ("message", "type"):
        need(isinstance(error[name], str) and error[name], f"`{name}` of the error is {error[name]!r}")
    need(error["code"] is None or isinstance(error["code"], str), f"the code is {error['code']!r}")
    need(status != 429 or error["code"] == "rate_limit_exceeded", f"429 with {error['code']}")
    need(status not in (503, 529) or error["code"] == "server_is_overloaded", f"{status} with {error['code']}")
    need(status not in (500, 502, 504) or error["code"] in CODES, f"{status} with {error['code']}")
    return error


def check_fields(response: dict[str, Any], *, types: bool = True) -> None:
    """Check the fields that every response has, even in events."""
    missing = REQUIRED - response.keys()
    need(not missing, f"the response lacks {sorted(missing)}")
    need(response["object"] == "response", f"the object is {response['object']!r}")
    need(re.fullmatch(r"resp_[A-Za-z0-9]+", response["id"]), f"the id is {response['id']!r}")
    need(type(response["created_at"]) is int, f"created_at is {response['created_at']!r}")
    need(isinstance(response["store"], bool), f"`store` is {response['store']!r}")
    if types:
        _validate(api.Response, {**response, "error": None})


def check_end(response: dict[str, Any]) -> None:
    """Check that the status of a response matches its content."""
    status, details, error = response["status"], response["incomplete_details"], response["error"]
    if status == "incomplete":
        need(details and details["reason"] in _REASONS, f"incomplete_details is {details}")
    else:
        need(details is None, f"the status is {status}, but incomplete_details is {details}")
    if status == "failed":
        need(error and error["code"] in CODES and error["message"], f"the response failed, but the error is {error}")
    else:
        need(error is None, f"{status} with the error {error}")
    if status != "failed" or response["usage"] is not None:
        check_usage(response["usage"])


def check_usage(usage: Any) -> None:
    """Check that all token counts and details are present and consistent."""
    usage = object_of(usage, "usage")
    counts = [usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]]
    counts += [usage["input_tokens_details"]["cached_tokens"], usage["input_tokens_details"]["cache_write_tokens"]]
    counts.append(usage["output_tokens_details"]["reasoning_tokens"])
    need(all(type(count) is int and count >= 0 for count in counts), f"usage is {usage}")
    need(counts[0] + counts[1] == counts[2], f"the total is wrong: {usage}")


def check_item(item: Any) -> None:
    """Check an item's type, which must be one that the proxy may send, and its id and content."""
    item = object_of(item, "an item")
    kind = item.get("type")
    need(kind in PREFIXES, f"an item of type {kind!r}")
    id_ = item.get("id", "")
    need(re.fullmatch(PREFIXES[kind] + r"[A-Za-z0-9_]+", id_), f"the id of a {kind} is {id_!r}")
    if kind == "reasoning":
        need(item.get("summary") == [], f"the summary is {item.get('summary')!r}")
        need("encrypted_content" in item and item["encrypted_content"] is None, "encrypted_content is not null")
    if kind in ("message", "reasoning"):
        for part in item["content"]:
            need(part[_PARTS[part["type"]]], f"an empty part: {part}")
    else:
        need(isinstance(item.get("call_id"), str) and item["call_id"], f"the call id is {item.get('call_id')!r}")
    if kind in ("function_call", "custom_tool_call"):
        need(isinstance(item.get("name"), str) and item["name"].strip(), f"the name is {item.get('name')!r}")
        need(item.get("namespace") is None or item["namespace"], "an empty namespace")
    if kind == "function_call" and item["status"] == "completed":
        arguments = json.loads(item["arguments"], parse_int=float)
        need(isinstance(arguments, dict), f"the arguments are {item['arguments']!r}")


def check_ids(items: list[dict[str, Any]]) -> None:
    """Check that item ids and call ids are unique."""
    for name in ("id", "call_id"):
        ids = [item[name] for item in items if name in item]
        need(len(set(ids)) == len(ids), f"duplicate {name}: {ids}")


@dataclass
class Item:
    """An item of a stream so far. `said` is the text of its deltas, `done` the final item."""

    start: dict[str, Any]
    said: str = ""
    part: dict[str, Any] | None = None
    whole: str | None = None
    part_done: bool = False
    done: dict[str, Any] | None = None


@dataclass
class StreamReading:
    """The state of a stream. `types`: check the SDK's types too."""

    types: bool = True
    id: str = ""
    items: list[Item] = field(default_factory=list)
    last: dict[str, Any] | None = None
    count: int = 0

    def read(self, data: bytes) -> dict[str, Any]:
        """Read all events, and return the last response."""
        for name, text in events(data):
            try:
                self._event(name, text)
            except (AssertionError, KeyError, IndexError) as wrong:
                raise AssertionError(f"event {self.count} ({name}): {wrong!r}") from None
            self.count += 1
        need(self.last is not None, "the stream lacks the last response")
        assert self.last is not None
        self._check_last(self.last)
        return self.last

    def _event(self, name: str, text: str) -> None:
        need(self.last is None, "an event after the last response")
        event = json.loads(text, object_pairs_hook=once)
        need(event.get("type") == name, f"the event's name is {name}, but its type is {event.get('type')!r}")
        need(name != "error", "an `error` event, which Codex ignores")
        need(event.get("sequence_number") == self.count, f"sequence_number is {event.get('sequence_number')}")
        need((self.count == 0) == (name == "response.created"), "response.created must be first and unique")
        kinds = _event_types()
        need(name in kinds, "the API has no such event")
        if name in _LIFECYCLE:
            self._lifecycle(name, event["response"])
            return
        if self.types:
            _validate(kinds[name], event)
        if name == "response.output_item.added":
            self._added(event)
            return
        item = self.items[event["output_index"]]
        need(item.done is None, "an event after the item's end")
        if name == "response.output_item.done":
            self._done(item, event["item"])
            return
        need(event["item_id"] == item.start["id"], f"item_id is {event['item_id']}, not {item.start['id']}")
        self._of_item(item, name, event)

    def _lifecycle(self, name: str, response: dict[str, Any]) -> None:
        check_fields(response, types=self.types)
        need(response["status"] == _LIFECYCLE[name], f"the status is {response['status']}")
        self.id = self.id or response["id"]
        need(response["id"] == self.id, f"the id changed from {self.id} to {response['id']}")
        if name in _ENDS:
            self.last = response
        else:
            need(response["output"] == [] and response["usage"] is None, "output or usage before the end")
            need(response["error"] is None and response["completed_at"] is None, "it has error or completed_at")

    def _added(self, event: dict[str, Any]) -> None:
        item = event["item"]
        need(event["output_index"] == len(self.items), f"index {event['output_index']}, not {len(self.items)}")
        check_item(item)
        name, nothing = _EMPTY[item["type"]]
        need(item[name] == nothing, f"`{name}` begins with {item[name]!r}")
        need(_status(item) == "in_progress", f"the status is {_status(item)}")
        self.items.append(Item(item))

    def _of_item(self, item: Item, name: str, event: dict[str, Any]) -> None:
        kind = item.start["type"]
        if name == "response.content_part.added":
            need(kind in ("message", "reasoning") and item.part is None, "an unexpected content part")
            item.part = event["part"]
            need(item.part[_PARTS[item.part["type"]]] == "", "the part does not begin empty")
        elif name in _DELTAS:
            need(item.whole is None, "a delta after the complete value")
            need(event["delta"], "an empty delta")
            need(_DELTAS[name] == (kind, (item.part or {}).get("type", "")), f"a delta of a {kind} with {item.part}")
            item.said += event["delta"]
        elif name in _WHOLES:
            item.whole = event[_WHOLES[name]]
            need(item.whole == item.said, f"the deltas are {item.said!r}, the whole {item.whole!r}")
        else:
            need(name == "response.content_part.done", "the proxy sends no such event")
            part = event["part"]
            need(part[_PARTS[part["type"]]] == item.whole, f"the part is {part}")
            item.part_done = True

    def _done(self, item: Item, done: dict[str, Any]) -> None:
        check_item(done)
        for name in ("type", "id", "call_id", "name", "namespace", "role"):
            need(item.start.get(name) == done.get(name), f"`{name}` changed from {item.start.get(name)}")
        kind = done["type"]
        if kind in ("message", "reasoning"):
            need(item.part_done, "the item's part is not done")
            (part,) = done["content"]
            need(part[_PARTS[part["type"]]] == item.said, f"the item is {done}, the deltas {item.said!r}")
        elif kind != "tool_search_call":
            need(_status(done) == "completed", f"an incomplete call is done: {done}")
            need(item.whole is not None and done[_EMPTY[kind][0]] == item.whole, f"the item is {done}")
        item.done = done

    def _check_last(self, response: dict[str, Any]) -> None:
        check_end(response)
        output = response["output"]
        need(len(output) == len(self.items), f"{len(self.items)} items, but {len(output)} in the last response")
        for item, last in zip(self.items, output, strict=True):
            if item.done is not None:
                need(item.done == last, f"the item changed from {item.done} to {last}")
                continue
            need(response["status"] != "completed", f"a completed response with an unfinished item: {item.start}")
            need(last["id"] == item.start["id"] and _status(last) == "incomplete", f"the unfinished item is {last}")
        check_ids(output)


def calls_of(response: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the complete calls of a response: names and arguments, or a custom tool's input."""
    found: list[tuple[str, Any]] = []
    for item in response["output"]:
        if item["type"] == "function_call" and item["status"] == "completed":
            found.append((item["name"], json.loads(item["arguments"])))
        elif item["type"] == "custom_tool_call" and item["status"] == "completed":
            found.append((item["name"], item["input"]))
        elif item["type"] == "tool_search_call" and item["status"] == "completed":
            found.append(("tool_search", item["arguments"]))
    return found


def text_of(response: Mapping[str, Any], kind: str = "message") -> str:
    """Return the text of all messages, or of all reasoning."""
    parts = [part for item in response["output"] if item["type"] == kind for part in item["content"]]
    return "".join(part[_PARTS[part["type"]]] for part in parts)


def _status(item: Mapping[str, Any]) -> str:
    status = item.get("status")
    need(status in ("in_progress", "completed", "incomplete"), f"the status of an item is {status!r}")
    return str(status)


@cache
def _event_types() -> dict[str, type[BaseModel]]:
    """Return the SDK's event classes by event type."""
    union = get_args(get_args(api.ResponseStreamEvent)[0])
    return {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in union}


def _validate(kind: type[BaseModel], value: Mapping[str, Any]) -> None:
    """Check that the SDK's type accepts the value in strict mode."""
    try:
        adapter(kind).validate_python(value)
    except ValidationError as wrong:
        raise AssertionError(f"{kind.__name__}: {wrong}") from None
