"""The three fronts as a client sees them: what it asks, and what it makes of the answer and holds to be right.

A reading takes the events of one streamed answer, tells which of them are content, and says at the end what was wrong.
"""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from benchmarks import body, script

STAMP = re.compile(rb'"id":\s*"(?:chatcmpl-|msg_)(\d{20})"')
# A proxy may write JSON with blanks and keys in another order than the upstream; the fields are searched apart.
_CHAT_NUMBER = re.compile(rb'"content":\s*"[^"]* (\d+)"')
_DELTA = "content_block_delta"
_MESSAGES_NUMBER = re.compile(rb'"text":\s*"[^"]* (\d+)"')
_TEXT_DELTA = "response.output_text.delta"
_RESPONSES_NUMBER = re.compile(rb'"delta":\s*"[^"]* (\d+)"')


class Reading(Protocol):
    """One streamed answer of so many content events. `began` is the stream's t0, None until it was said."""

    began: float | None
    content: int

    def take(self, event: bytes) -> bool:
        """Take an event; return whether it is the next content event."""

    def error(self) -> str | None:
        """Return what was wrong with the answer, which is over."""


class ChatReading:
    """A streamed chat completion: every content event once and in order, the finish, `[DONE]`."""

    def __init__(self, events: int) -> None:
        """Expect so many content events."""
        self.began: float | None = None
        self.content = 0
        self._expected = events
        self._finished = self._done = False
        self._ordered = True

    def take(self, event: bytes) -> bool:
        """Take an event; return whether it is the next content event."""
        self.began = self.began or _began(event)
        found = _CHAT_NUMBER.search(event)
        number = int(found[1]) if found else -1
        if number == self.content + 1 <= self._expected:
            self.content = number
            return True
        if 1 <= number <= self._expected:
            self._ordered = False
        elif b'"finish_reason":"stop"' in event.replace(b" ", b""):
            self._finished = True
        elif event[5:].strip() == b"[DONE]":
            self._done = True
        return False

    def error(self) -> str | None:
        """Return what was wrong with the answer, which is over."""
        if self.content != self._expected:
            return f"{self.content} events instead of {self._expected}"
        if not self._ordered:
            return "an event twice or out of order"
        if not self._finished:
            return "no finish reason"
        return None if self._done else "no [DONE]"


class MessagesReading:
    """A streamed message: one block of text that joins to what the upstream said, the true counts, the stop.

    The events are kept, and parsed only when the answer is over, so that reading is not slow.
    """

    def __init__(self, events: int, counts: bool) -> None:
        """Expect so many `content_block_delta` events, and the prompt's tokens at the start, or no counts there."""
        self.began: float | None = None
        self.content = 0
        self._expected = events
        self._prompt = script.PROMPT_TOKENS if counts else 0
        self._events: list[bytes] = []

    def take(self, event: bytes) -> bool:
        """Take an event; return whether it is the next content event."""
        self.began = self.began or _began(event)
        self._events.append(event)
        found = _MESSAGES_NUMBER.search(event) if b"content_block_delta" in event else None
        if found is None or int(found[1]) != self.content + 1:
            return False
        self.content += 1
        return True

    def error(self) -> str | None:
        """Return what was wrong with the answer, which is over."""
        events: list[dict[str, Any]] = [json.loads(event[5:]) for event in self._events]
        said = [event for event in events if event["type"] != "ping"]
        return self._order_error(said) or self._text_error(said) or self._count_error(said)

    def _order_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return what is wrong with the order of the events."""
        around = [event["type"] for event in said if event["type"] != _DELTA]
        block = ["content_block_start", "content_block_stop"] if self._expected else []
        if around != ["message_start", *block, "message_delta", "message_stop"]:
            return f"events {' '.join(around)[:300]}"
        if any(event["type"] != _DELTA for event in said[2:-3]):
            return "a delta outside its block"
        return None

    def _text_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return what is wrong with the text."""
        deltas = [event["delta"] for event in said if event["type"] == _DELTA]
        text = "".join(delta["text"] for delta in deltas)
        if text != "".join(map(script.words, range(1, self._expected + 1))):
            return f"{len(text)} characters that are not what the upstream said"
        if len(deltas) != self._expected or self.content != self._expected:
            return f"{len(deltas)} deltas instead of {self._expected}"
        return None

    def _count_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return what is wrong with the counts of tokens and the end."""
        usage = said[0]["message"]["usage"]
        if usage["input_tokens"] != self._prompt:
            return f"counts at the start {usage}"
        return _stop_error(said[-2]["delta"]["stop_reason"], said[-2]["usage"], self._expected)


class ResponsesReading:
    """A streamed response: one item of text that joins to what the upstream said, numbers without a hole, the end.

    No event says when its stream began. The events are kept, and parsed only when the answer is over.
    """

    def __init__(self, events: int) -> None:
        """Expect so many deltas of text."""
        self.began: float | None = None
        self.content = 0
        self._expected = events
        self._events: list[bytes] = []

    def take(self, event: bytes) -> bool:
        """Take an event; return whether it is the next content event."""
        self._events.append(event)
        found = _RESPONSES_NUMBER.search(event)
        if found is None or int(found[1]) != self.content + 1:
            return False
        self.content += 1
        return True

    def error(self) -> str | None:
        """Return what was wrong with the answer, which is over."""
        said: list[dict[str, Any]] = [json.loads(event[5:]) for event in self._events]
        if [event["sequence_number"] for event in said] != [*range(len(said))]:
            return "an event is missing, or twice"
        deltas = [event["delta"] for event in said if event["type"] == _TEXT_DELTA]
        if "".join(deltas) != "".join(map(script.words, range(1, self._expected + 1))):
            return "another text than the upstream said"
        if len(deltas) != self._expected or self.content != self._expected:
            return f"{len(deltas)} deltas instead of {self._expected}"
        if (said[0]["type"], said[-1]["type"]) != ("response.created", "response.completed"):
            return f"it begins with {said[0]['type']} and ends with {said[-1]['type']}"
        return _response_error(said[-1]["response"], "".join(deltas), self._expected)


def request(front: str, bench: dict[str, Any], *, stream: bool, counts: bool) -> tuple[str, bytes]:
    """Return path and body of a request to a front, `chat`, `messages` or `responses`.

    With `counts` a chat client asks for the token counts in every chunk, as the proxy does by itself for a Messages
    client where the server is vLLM.
    """
    if front == "messages":
        return "/v1/messages", _encoded(body.messages_request(bench, stream))
    if front == "responses":
        return "/v1/responses", _encoded(body.responses_request(bench, stream))
    asked = body.request(bench, stream)
    if counts and stream:
        asked["stream_options"]["continuous_usage_stats"] = True
    return "/v1/chat/completions", _encoded(asked)


def reading(front: str, events: int, counts: bool) -> Reading:
    """Return what reads a streamed answer of a front; `counts`: the server says them in every chunk."""
    if front == "responses":
        return ResponsesReading(events)
    return MessagesReading(events, counts) if front == "messages" else ChatReading(events)


def whole_error(front: str, answer: bytes) -> str | None:
    """Return what was wrong with a whole answer of a front, None if nothing."""
    said: dict[str, Any] = json.loads(answer)
    if front == "messages":
        if said["content"] != [{"type": "text", "text": script.whole_text()}]:
            return "a whole answer with another content"
        return _stop_error(said["stop_reason"], said["usage"], script.WHOLE_TOKENS)
    if front == "responses":
        return _response_error(said, script.whole_text(), script.WHOLE_TOKENS)
    choice = said["choices"][0]
    right = (choice["message"]["content"], choice["finish_reason"]) == (script.whole_text(), "stop")
    return None if right else "a whole answer with another text or finish"


def _response_error(response: dict[str, Any], text: str, tokens: int) -> str | None:
    """Return what is wrong with a response that has ended."""
    said = [part["text"] for item in response["output"] for part in item["content"]]
    if (response["status"], said) != ("completed", [text] if text else []):
        return "a response that is not completed, or with another content"
    counts = (response["usage"]["input_tokens"], response["usage"]["output_tokens"])
    return None if counts == (script.PROMPT_TOKENS, tokens) else f"counts {counts}"


def _stop_error(reason: str, usage: dict[str, int], tokens: int) -> str | None:
    """Return what is wrong with the end of a message."""
    if reason != "end_turn":
        return f"stop reason {reason}"
    counts = (usage["input_tokens"], usage["output_tokens"])
    return None if counts == (script.PROMPT_TOKENS, tokens) else f"counts {counts}"


def _began(event: bytes) -> float | None:
    """Return the t0 that an event says in its id."""
    found = STAMP.search(event)
    return int(found[1]) / 1e9 if found else None


def _encoded(asked: dict[str, Any]) -> bytes:
    """Return a request as UTF-8 JSON."""
    return json.dumps(asked, separators=(",", ":")).encode()
