"""Clients of the three APIs: requests to send, and checks of the responses.

A reading takes the events of one streamed response, counts those with content, and returns any error at the end.
"""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from benchmarks import body, script

STAMP = re.compile(rb'"id":\s*"(?:chatcmpl-|msg_)(\d{20})"')
# A proxy may change whitespace and key order in JSON, so each field is searched separately.
_CHAT_NUMBER = re.compile(rb'"content":\s*"[^"]* (\d+)"')
_DELTA = "content_block_delta"
_MESSAGES_NUMBER = re.compile(rb'"text":\s*"[^"]* (\d+)"')
_TEXT_DELTA = "response.output_text.delta"
# Kinds of chat responses other than text.
_PRINTED = frozenset(("printed", "found"))
_CALLS = _PRINTED | {"call", "unescaped", "repaired"}
_RESPONSES_NUMBER = re.compile(rb'"delta":\s*"[^"]* (\d+)"')


class Reading(Protocol):
    """Checker of one streamed response. `began` is the stream's t0, or None until an event contains it."""

    began: float | None
    content: int

    def take(self, event: bytes) -> bool:
        """Take an event; return whether it is the next content event."""

    def error(self) -> str | None:
        """Return the error in the completed response; None if it is correct."""


class ChatReading:
    """A streamed chat completion: every content event once and in order, the finish reason, `[DONE]`."""

    def __init__(self, events: int) -> None:
        """Expect this number of content events."""
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
        """Return the error in the completed response; None if it is correct."""
        if self.content != self._expected:
            return f"{self.content} events instead of {self._expected}"
        if not self._ordered:
            return "an event twice or out of order"
        if not self._finished:
            return "no finish reason"
        if not self._done:
            return "no [DONE]"
        return None


class MessagesReading:
    """A streamed message: one text block with the upstream's text, the correct token counts, the stop.

    Events are only parsed after the end of the response, to keep reading fast.
    """

    def __init__(self, events: int, counts: bool) -> None:
        """Expect this number of `content_block_delta` events. `counts`: the first event has the prompt's tokens."""
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
        """Return the error in the completed response; None if it is correct."""
        events: list[dict[str, Any]] = [json.loads(event[5:]) for event in self._events]
        said = [event for event in events if event["type"] != "ping"]
        return self._order_error(said) or self._text_error(said) or self._count_error(said)

    def _order_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return the error in the order of the events."""
        around = [event["type"] for event in said if event["type"] != _DELTA]
        block = ["content_block_start", "content_block_stop"] if self._expected else []
        if around != ["message_start", *block, "message_delta", "message_stop"]:
            return f"events {' '.join(around)[:300]}"
        if any(event["type"] != _DELTA for event in said[2:-3]):
            return "a delta outside its block"
        return None

    def _text_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return the error in the text."""
        deltas = [event["delta"] for event in said if event["type"] == _DELTA]
        text = "".join(delta["text"] for delta in deltas)
        if text != "".join(map(script.words, range(1, self._expected + 1))):
            return f"{len(text)} characters that are not what the upstream said"
        if len(deltas) != self._expected or self.content != self._expected:
            return f"{len(deltas)} deltas instead of {self._expected}"
        return None

    def _count_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return the error in the token counts or the end."""
        usage = said[0]["message"]["usage"]
        if usage["input_tokens"] != self._prompt:
            return f"counts at the start {usage}"
        return _stop_error(said[-2]["delta"]["stop_reason"], said[-2]["usage"], self._expected)


class ResponsesReading:
    """A streamed response: one text item with the upstream's text, consecutive sequence numbers, the end.

    No event contains the stream's t0. Events are only parsed after the end of the response.
    """

    def __init__(self, events: int) -> None:
        """Expect this number of text deltas."""
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
        """Return the error in the completed response; None if it is correct."""
        said: list[dict[str, Any]] = [json.loads(event[5:]) for event in self._events]
        return self._order_error(said) or self._text_error(said) or self._end_error(said)

    def _order_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return the error in the sequence numbers, or in the first or last event."""
        if not said:
            return "no event"
        numbers = [event["sequence_number"] for event in said]
        if numbers != [*range(len(said))]:
            return "an event is missing, or twice"
        first, last = said[0]["type"], said[-1]["type"]
        if first != "response.created" or last != "response.completed":
            return f"it begins with {first} and ends with {last}"
        return None

    def _text_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return the error in the text."""
        deltas = [event["delta"] for event in said if event["type"] == _TEXT_DELTA]
        if "".join(deltas) != self._text():
            return "another text than the upstream said"
        if len(deltas) != self._expected or self.content != self._expected:
            return f"{len(deltas)} deltas instead of {self._expected}"
        return None

    def _end_error(self, said: list[dict[str, Any]]) -> str | None:
        """Return the error in the response inside the last event."""
        return _response_error(said[-1]["response"], self._text(), self._expected)

    def _text(self) -> str:
        """Return the upstream's text."""
        return "".join(map(script.words, range(1, self._expected + 1)))


class CallReading:
    """A streamed chat completion with one structured call, whose joined arguments equal the upstream's.

    The proxy may change the number of events: half of an escape is held until the other half arrives.
    """

    def __init__(self, fragments: tuple[str, ...]) -> None:
        """Expect a call with these fragments of arguments."""
        self.began: float | None = None
        self.content = 0
        self._arguments, self._expected = "".join(fragments), len(fragments) + 1
        self._events: list[bytes] = []

    def take(self, event: bytes) -> bool:
        """Take an event; return whether it contains part of the call."""
        self.began = self.began or _began(event)
        self._events.append(event)
        if b'"tool_calls"' not in event:
            return False
        self.content += 1
        return True

    def error(self) -> str | None:
        """Return the error in the completed response; None if it is correct."""
        if not self._events:
            return "no event"
        if self._events[-1][5:].strip() != b"[DONE]":
            return "no [DONE]"
        said: list[dict[str, Any]] = [json.loads(event[5:]) for event in self._events[:-1]]
        choices = [choice for event in said for choice in event["choices"]]
        calls = _calls(choices)
        if _arguments(calls) != self._arguments:
            return "other arguments than the upstream wrote"
        if len(calls) < self._expected / 2:
            return f"a call that was held back: {len(calls)} pieces of {self._expected}"
        if choices[-1]["finish_reason"] != "tool_calls":
            return "another finish"
        return None


def _calls(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of `tool_calls`."""
    return [call for choice in choices for call in choice["delta"].get("tool_calls") or ()]


def _arguments(calls: list[dict[str, Any]]) -> str:
    """Return the arguments of all calls, joined."""
    return "".join(call["function"].get("arguments") or "" for call in calls)


class PrintedReading:
    """A streamed chat completion with one call printed as text. It stays text or, with `found`, becomes a call."""

    def __init__(self, events: int, *, found: bool) -> None:
        """Expect the call that the upstream prints in this number of events."""
        self.began: float | None = None
        self.content = 0
        self._expected, self._found = events, found
        self._events: list[bytes] = []

    def take(self, event: bytes) -> bool:
        """Take an event; return whether it contains part of the call."""
        self.began = self.began or _began(event)
        self._events.append(event)
        self.content += 1
        return True

    def error(self) -> str | None:
        """Return the error in the completed response; None if it is correct."""
        if not self._events or self._events[-1][5:].strip() != b"[DONE]":
            return "no [DONE]"
        said: list[dict[str, Any]] = [json.loads(event[5:]) for event in self._events[:-1]]
        choices = [choice for event in said for choice in event["choices"]]
        text = "".join(choice["delta"].get("content") or "" for choice in choices)
        calls = _calls(choices)
        return self._call_error(text, calls) if self._found else self._text_error(text, calls)

    def _text_error(self, text: str, calls: list[dict[str, Any]]) -> str | None:
        """Return the error in a printed call that must stay text."""
        right = text == "".join(script.printed_fragments(self._expected)) and not calls
        return None if right else "another text than the upstream wrote"

    def _call_error(self, text: str, calls: list[dict[str, Any]]) -> str | None:
        """Return the error in a call found in the text."""
        if text.strip():
            return f"{len(text)} characters of text beside the call"
        names = [call["function"]["name"] for call in calls if call["function"].get("name")]
        arguments = _arguments(calls)
        if names != ["write"] or json.loads(arguments or "null") != json.loads("".join(self._wanted())):
            return f"calls {names} with other arguments than the upstream wrote"
        return None

    def _wanted(self) -> tuple[str, ...]:
        """Return the arguments of the call, as JSON."""
        return script.printed_arguments(self._expected)


class RepairedReading(PrintedReading):
    """A streamed chat completion with one structured call, with its quotation marks escaped by the proxy."""

    def __init__(self, events: int) -> None:
        """Expect the repaired form of the call that the upstream writes in this number of events."""
        super().__init__(events, found=True)

    def _wanted(self) -> tuple[str, ...]:
        """Return the arguments of the call, as JSON."""
        return script.unescaped_fragments(self._expected, repaired=True)


def request(front: str, bench: dict[str, Any], *, stream: bool, counts: bool) -> tuple[str, bytes]:
    """Return path and body of a request to a front: `chat`, `messages`, `responses`, or a kind of chat with calls.

    `counts`: the chat client asks for token counts in every chunk, as the proxy does for Messages clients of vLLM.
    """
    if front == "messages":
        return "/v1/messages", _encoded(body.messages_request(bench, stream))
    if front == "responses":
        return "/v1/responses", _encoded(body.responses_request(bench, stream))
    asked = body.call_request(bench, stream) if front in _CALLS else body.request(bench, stream)
    if counts and stream:
        asked["stream_options"]["continuous_usage_stats"] = True
    return "/v1/chat/completions", _encoded(asked)


def reading(front: str, events: int, counts: bool, piece: int = 0) -> Reading:
    """Return the reading for a front. `counts`: the server sends token counts in every chunk."""
    if front in _CALLS:
        return _call_reading(front, events, piece)
    if front == "responses":
        return ResponsesReading(events)
    return MessagesReading(events, counts) if front == "messages" else ChatReading(events)


def _call_reading(front: str, events: int, piece: int) -> Reading:
    """Return the reading for a response with a call."""
    if front == "unescaped":
        return CallReading(script.unescaped_fragments(events))
    if front == "repaired":
        return RepairedReading(events)
    if front == "call":
        return CallReading(script.call_fragments(events, False, piece))
    return PrintedReading(events, found=front == "found")


def whole_error(front: str, answer: bytes) -> str | None:
    """Return the error in a non-streamed response of a front; None if it is correct."""
    said: dict[str, Any] = json.loads(answer)
    if front == "messages":
        if said["content"] != [{"type": "text", "text": script.whole_text()}]:
            return "a whole answer with another content"
        return _stop_error(said["stop_reason"], said["usage"], script.WHOLE_TOKENS)
    if front == "responses":
        return _response_error(said, script.whole_text(), script.WHOLE_TOKENS)
    choice = said["choices"][0]
    if choice["message"]["content"] != script.whole_text():
        return "a whole answer with another text"
    if choice["finish_reason"] != "stop":
        return f"a whole answer with the finish {choice['finish_reason']}"
    return None


def _response_error(response: dict[str, Any], text: str, tokens: int) -> str | None:
    """Return the error in a completed response."""
    if response["status"] != "completed":
        return f"a response whose status is {response['status']}"
    said = [part["text"] for item in response["output"] for part in item["content"]]
    expected = [text] if text else []
    if said != expected:
        return "a response with another content"
    return _usage_error(response["usage"], tokens)


def _stop_error(reason: str, usage: dict[str, int], tokens: int) -> str | None:
    """Return the error in the end of a message."""
    if reason != "end_turn":
        return f"stop reason {reason}"
    return _usage_error(usage, tokens)


def _usage_error(usage: dict[str, int], tokens: int) -> str | None:
    """Return the error in the token counts."""
    counts = (usage["input_tokens"], usage["output_tokens"])
    if counts != (script.PROMPT_TOKENS, tokens):
        return f"counts {counts}"
    return None


def _began(event: bytes) -> float | None:
    """Return the t0 in the id of an event, or None."""
    found = STAMP.search(event)
    return int(found[1]) / 1e9 if found else None


def _encoded(asked: dict[str, Any]) -> bytes:
    """Return a request as UTF-8 JSON."""
    return json.dumps(asked, separators=(",", ":")).encode()
