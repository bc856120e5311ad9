"""What Messages and Responses replies share: where texts begin, token counts, refusals, halves of characters.

A character may arrive as two surrogates in two events:

    {"delta": {"content": "\\ud83d"}}
    {"delta": {"content": "\\ude00"}}

JSON can write a half alone, and no strict reader accepts it (RFC 8259, 8.2). Where clients read strictly, a half whose
other half never arrives is written as U+FFFD.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.engine.events import (
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
    Usage,
    choice_number,
)
from proxy.engine.reading import GAVE_UP
from proxy.errors import UpstreamBroken

TextKind: TypeAlias = Literal["text", "thinking"]
# What the model says, in the order in which it says it.
Content: TypeAlias = Text | Reasoning | CallOpened | CallArguments | CallClosed
_MAX_BLANKS = 4096
_HEX = "[0-9a-fA-F]"
_HIGH, _LOW = rf"\\u[dD][89abAB]{_HEX}{{2}}", rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
# An escape, or an end of the text that may become one or the first half of a pair.
_ESCAPE = re.compile(
    rf"(?P<end>(?:{_HIGH})?(?:\\(?:u{_HEX}{{0,3}})?)?(?<=.)\Z)|{_HIGH}{_LOW}|(?P<lone>{_HIGH}|{_LOW})|\\.", re.DOTALL
)


class Reply(ABC):
    """The events of one reply, as far as both dialects treat them alike; a dialect writes the content."""

    def __init__(self) -> None:
        self._blanks = ""
        self._is_after_thinking = False
        self._finished: Finished | None = None
        self._counts: Mapping[str, Json] = {}
        self._refusal: list[str] = []

    @abstractmethod
    def write(self, event: Content) -> list[JsonObject]:
        """Return the dialect's events for what the model says."""

    @abstractmethod
    def end(self) -> list[JsonObject]:
        """Return the end of a finished reply. Raises a ProxyError if it is not a success."""

    def take(self, event: Event) -> list[JsonObject]:
        """Return the dialect's events for one of the engine's. Further choices cannot be requested in a dialect."""
        match event:
            case Unchanged():
                return [written for inner in event.events for written in self.take(inner)]
            case Usage():
                self._keep_counts(event.usage)
            case Failed():
                raise event.error
            case Finished() if event.choice == 0:
                self._finished = event
            case Text() | Reasoning() | CallOpened() | CallArguments() | CallClosed() if event.choice == 0:
                return self.write(event)
            case _:
                pass
        return []

    def observe_body(self, body: JsonObject) -> JsonObject:
        """Keep the token counts and the refusal of a chunk or a whole answer. Return its first delta or message.

        Choices of a chunk have numbers, in any order; those of a whole answer are counted by their place.
        """
        self._keep_counts(as_object(body.get("usage")))
        for place, entry in enumerate(objects_in(body.get("choices"))):
            if (choice_number(entry.get("index")) if "delta" in entry else place) == 0:
                choice = as_object(entry.get("delta")) or as_object(entry.get("message"))
                if words := as_text(choice.get("refusal")):
                    self._refusal.append(words)
                return choice
        return {}

    def _keep_counts(self, counts: Mapping[str, Json]) -> None:
        if counts and any(token_counts(counts)):
            self._counts = counts

    def finish_reason(self) -> str:
        """Return why the reply ended. Raises UpstreamBroken if the server gave up the generation."""
        reason = "stop" if self._finished is None else self._finished.reason
        if reason in GAVE_UP:
            raise UpstreamBroken(f"the model server gave up the generation (finish reason {reason})")
        return reason

    def first_text(self, kind: TextKind, text: str) -> str:
        """Return the text with which a block begins, "" while it is blank: no block may be empty.

        Blanks before text are kept until it comes, those around reasoning go: `<think> a</think> Hello` is `a`, then
        `Hello`.
        """
        if kind == "thinking":
            self._blanks, self._is_after_thinking = "", True
            return text.lstrip()
        text, self._blanks = self._blanks + text, ""
        if self._is_after_thinking:
            text = text.lstrip()
        if not text.strip():
            self._blanks = text[:_MAX_BLANKS]
            return ""
        self._is_after_thinking = False
        return text

    def forget_blanks(self) -> None:
        """Drop the blanks before a block: something else begins."""
        self._blanks, self._is_after_thinking = "", False


class TranslatedWriter(ABC):
    """The common part of the Messages and Responses writers, which encode every event (dialects.base.Writer)."""

    verbatim = False

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    @abstractmethod
    def encode(self, events: Iterable[JsonObject]) -> bytes:
        """Return the bytes of the dialect's events."""

    def observe_chunk(self, chunk: Chunk) -> None:
        """Keep the newest token counts, and what else the reply needs of a chunk."""
        self._reply.observe_body(chunk.body)

    def write(self, event: Event) -> bytes:
        """Return one event of the engine as events of the stream."""
        return self.encode(self._reply.take(event))

    def end(self) -> bytes:
        """Return the end of a finished reply. Raises a ProxyError if it is not a success."""
        return self.encode(self._reply.end())

    def passes(self, around: bytes) -> bool:
        """Return False: every event is encoded."""
        return False

    def comment(self, raw: bytes) -> bytes:
        """Drop comments: these dialects have none."""
        return b""

    def begin(self, choices: int) -> bytes:
        """Nothing: the reply starts with its content."""
        return b""


def token_counts(counts: Mapping[str, Json]) -> tuple[int, int, int, int]:
    """Return the server's counts: prompt, cached tokens of it, completion, reasoning of it; 0 for what it omits."""
    found = (
        counts.get("prompt_tokens"),
        as_object(counts.get("prompt_tokens_details")).get("cached_tokens"),
        counts.get("completion_tokens"),
        as_object(counts.get("completion_tokens_details")).get("reasoning_tokens"),
    )
    prompt, cached, written, thought = (max(0, count) if type(count) is int else 0 for count in found)
    return prompt, cached, written, thought


def may_hold_halves(texts: Iterable[bytes]) -> bool:
    """Return whether JSON text within strings of JSON may hold a surrogate, or a part of one."""
    return any(rb"\\u" in text for text in texts)


class CharacterJoiner:
    """Joins the halves of a character: a first half waits for the second."""

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""

    def feed(self, text: str) -> str:
        """Return the text with the half that waited, and without a first half at its end."""
        if self.half or text[-1:] >= "\ud800":
            half, self.half = self.half, ""
            if half and "\udc00" <= text[:1] <= "\udfff":
                text = chr(0x10000 + ((ord(half) - 0xD800) << 10) + ord(text[0]) - 0xDC00) + text[1:]
            else:
                text = half + text
            if "\ud800" <= text[-1:] <= "\udbff":
                text, self.half = text[:-1], text[-1]
        return text

    def finish(self) -> str:
        """Return the half that waits; no second one follows."""
        half, self.half = self.half, ""
        return half


class SurrogateFilter:
    """JSON text without lone surrogates in its escapes; the result is the same however the text is cut.

    Only half an escape waits, and the first half of a pair, escaped (`\\ud83d`) or not.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._characters = CharacterJoiner()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._pending and not self._characters.half

    def feed(self, text: str) -> str:
        """Return what is decided with the next text."""
        text = self._characters.feed(text)
        if not self._pending and "\\u" not in text and not text.endswith("\\"):
            return text
        text, self._pending = self._pending + text, ""
        return _ESCAPE.sub(self._decided, text)

    def _decided(self, match: re.Match[str]) -> str:
        if match["end"]:
            self._pending = match["end"]
            return ""
        return "\\ufffd" if match["lone"] else match[0]

    def finish(self) -> str:
        """Return the rest: no second half follows."""
        rest, self._pending = self._pending, ""
        return re.sub(_HIGH, r"\\ufffd", rest) + self._characters.finish()
