"""A client's view of an answer in each of the three dialects, streamed or whole, without code of the proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# A call's name, and its arguments, parsed or as text if they are not JSON.
Call = tuple[str, Any]


@dataclass
class Seen:
    """The content of one choice. `finish` is the dialect's finish reason."""

    text: str = ""
    thinking: str = ""
    finish: str = ""
    pieces: dict[Any, list[str]] = field(default_factory=dict)
    logprobs: int = 0

    @property
    def calls(self) -> list[Call]:
        return [(name, _value("".join(arguments))) for name, *arguments in self.pieces.values()]

    def open(self, key: Any, name: str, arguments: str = "") -> None:
        self.pieces[key] = [name, arguments]


@dataclass
class Reply:
    """A whole answer or stream: its choices by index, and the error, if there is one."""

    status: int
    data: bytes
    choices: dict[int, Seen] = field(default_factory=dict)
    error: str = ""

    def choice(self, index: int = 0) -> Seen:
        """Return the content of a choice so far."""
        return self.choices.setdefault(index, Seen())


def read(dialect: str, status: int, data: bytes) -> Reply:
    """Parse an answer of this dialect (`chat`, `messages` or `responses`)."""
    reply = Reply(status, data)
    if status >= 400:
        reply.error = data.decode(errors="replace")
        return reply
    if data.lstrip().startswith(b"{"):
        _WHOLE[dialect](reply, json.loads(data))
        return reply
    for event in events(data):
        if event.get("error"):
            reply.error = json.dumps(event["error"])
        _EVENT[dialect](reply, event)
    return reply


def events(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the bodies of a stream's events, up to `[DONE]`."""
    for line in data.splitlines():
        name, _, value = line.partition(b":")
        if name == b"data" and value.strip() != b"[DONE]":
            yield json.loads(value)


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _chat_whole(reply: Reply, answer: dict[str, Any]) -> None:
    for entry in answer["choices"]:
        seen, message = reply.choice(entry["index"]), entry["message"]
        seen.text = message.get("content") or ""
        seen.thinking = message.get("reasoning_content") or message.get("reasoning") or ""
        seen.finish = entry["finish_reason"]
        seen.logprobs = _logprobs(entry)
        for call in message.get("tool_calls") or ():
            seen.open(len(seen.pieces), call["function"]["name"], call["function"]["arguments"])


def _chat_event(reply: Reply, chunk: dict[str, Any]) -> None:
    for entry in chunk.get("choices", ()):
        seen, delta = reply.choice(entry["index"]), entry.get("delta") or {}
        seen.text += delta.get("content") or ""
        seen.thinking += delta.get("reasoning_content") or delta.get("reasoning") or ""
        seen.finish = entry.get("finish_reason") or seen.finish
        seen.logprobs += _logprobs(entry)
        for part in delta.get("tool_calls") or ():
            function = part.get("function") or {}
            if part["index"] not in seen.pieces:
                seen.open(part["index"], "")
            pieces = seen.pieces[part["index"]]
            pieces[0] = function.get("name") or pieces[0]
            pieces.append(function.get("arguments") or "")


def _logprobs(entry: dict[str, Any]) -> int:
    """Return the number of tokens with log probabilities."""
    return len((entry.get("logprobs") or {}).get("content") or ())


def _messages_whole(reply: Reply, message: dict[str, Any]) -> None:
    seen = reply.choice()
    for block in message["content"]:
        seen.text += block.get("text", "")
        seen.thinking += block.get("thinking", "")
        if block["type"] == "tool_use":
            seen.open(len(seen.pieces), block["name"], json.dumps(block["input"]))
    seen.finish = message["stop_reason"]


def _messages_event(reply: Reply, event: dict[str, Any]) -> None:
    seen = reply.choice()
    delta = event.get("delta") or {}
    seen.text += delta.get("text") or ""
    seen.thinking += delta.get("thinking") or ""
    seen.finish = delta.get("stop_reason") or seen.finish
    block = event.get("content_block") or {}
    if block.get("type") == "tool_use":
        seen.open(event["index"], block["name"])
    if "partial_json" in delta:
        seen.pieces[event["index"]].append(delta["partial_json"])


def _responses_whole(reply: Reply, response: dict[str, Any]) -> None:
    reply.choices[0] = seen = Seen()
    for item in response["output"]:
        _responses_item(seen, item)
    seen.finish = response["status"]


def _responses_item(seen: Seen, item: dict[str, Any]) -> None:
    if item["type"] == "function_call":
        seen.open(len(seen.pieces), item["name"], item["arguments"])
    words = "".join(part.get("text", "") for part in item.get("content") or ())
    if item["type"] == "message":
        seen.text += words
    if item["type"] == "reasoning":
        seen.thinking += words + "".join(part["text"] for part in item.get("summary") or ())


def _responses_event(reply: Reply, event: dict[str, Any]) -> None:
    """Read an event. The last one has the whole output, but some servers leave it empty."""
    if event.get("type") == "response.output_item.done":
        _responses_item(reply.choice(), event["item"])
    if event.get("type") in ("response.completed", "response.incomplete"):
        reply.choice().finish = event["response"]["status"]
        if event["response"].get("output"):
            _responses_whole(reply, event["response"])
    if event.get("type") == "response.failed":
        reply.error = json.dumps(event["response"].get("error"))


_WHOLE = {"chat": _chat_whole, "messages": _messages_whole, "responses": _responses_whole}
_EVENT = {"chat": _chat_event, "messages": _messages_event, "responses": _responses_event}
