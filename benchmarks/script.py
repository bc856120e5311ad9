"""Responses of the fake upstream: prepared bytes of streams in vLLM's format.

Chunk k of two streams differs only in the id, which contains the stream's start time. The id has a fixed width, so a
chunk consists of three joined pieces and its length is known in advance.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

from benchmarks.body import MODEL

_TEXT = (
    "about above across after again along always among another answer around because before began below between "
    "better branch build called carry change check clear close common course cover create deep different during early "
    "earth enough every example family father field figure final follow found friend garden general gentle given great "
    "ground happen heavy house hundred"
)
WORDS = _TEXT.split()
ID_WIDTH = 20
MAX_EVENTS = 100_000
CREATED = 1795223440

_HEAD = b'data: {"id":"chatcmpl-'
STREAM_HEADERS = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
PROMPT_TOKENS = 900
# Number of words and tokens in a response that is not streamed.
_WHOLE_WORDS = 55
WHOLE_TOKENS = 110

# Content of a `write` call: many characters that JSON escapes, and text that looks like a call or its end.
_WRITTEN = """import json

PATTERN = r"\\s*\"(\\w+)\"\\s*"  # a key \u2192 its value
EMPTY = {"name": "write", "arguments": {"content": "}}"}}


def pairs(lines: list[str]) -> dict[str, str]:
\t'''Each line's key and what stands behind it, as in {\"a\": \"b\"}.'''
\tfound = dict(line.rstrip("\\r\\n").split("\\t", 1) for line in lines if line != "<tool_call>")
\treturn {key: json.dumps(value) for key, value in found.items()} or {**EMPTY, "path": "C:\\\\temp\\\\new"}


print(f"<li class=\"entry\">{pairs([])!r}</li></tool_call>", end="\\n\\n")
"""
# One escape is split in two, as by models with few tokens for such characters.
_TOKENS = re.findall(r"\\u..|\\.| ?\w+|\s+|[^\w\s\\]+", json.dumps(_WRITTEN)[1:-1])
CALL_ID = "chatcmpl-tool-b3b34516dd696271"
CALL_OPENING = ('{"', "file", "_path", '": "', "src", "/pairs", ".py", '", "', "content", '": "')
# A call as Hermes models print it: the tokens before and after its arguments.
_PRINTED_OPENING = ("<tool_call>", "\n", '{"', "name", '": "', "write", '", "', "arguments", '": ')
_PRINTED_CLOSING = ("}", "\n", "</tool_call>")
CALL_CLOSING = ('",', ' "', "over", "write", '":', " true", "}")
# A line of content for a call without backslashes; 44 characters.
_LINE = 'def say(name):\n    print(f"Hello, {name}")\n'
_WRONG_CLOSING = ('",', ' "', "over", "write", '": "', "true", '"}')


class Script:
    """Chunks of text streams. One object serves all streams."""

    def __init__(self, prepared: int = 2_000, counts: bool = False) -> None:
        """Create the content chunks 1 to `prepared`. Later ones are created on first use.

        `counts`: every chunk contains the token count so far, like vLLM with `continuous_usage_stats`.
        """
        self._counts = counts
        self._end: tuple[dict[str, Any], str] = {"content": ""}, "stop"
        self._sizes: list[bytes] = []
        self._tails: list[bytes] = []
        self._grow(prepared)

    def role(self, ident: bytes) -> bytes:
        """Return the first chunk, which contains the role and no text."""
        return _chunk(ident, self._tail({"role": "assistant", "content": ""}, 0))

    def content(self, ident: bytes, number: int) -> bytes:
        """Return content chunk `number`, counted from 1."""
        if number > len(self._tails):
            self._grow(number)
        return b"".join((self._sizes[number - 1], _HEAD, ident, self._tails[number - 1]))

    def end(self, ident: bytes, events: int, usage: bool) -> bytes:
        """Return the end after `events` content chunks: finish, usage if requested, [DONE], end of the body."""
        delta, finish = self._end
        last = _chunk(ident, self._tail(delta, events, finish))
        if usage:
            last += _chunk(ident, _usage_tail(events))
        return last + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

    def _grow(self, count: int) -> None:
        """Create the content chunks up to number `count`."""
        for number in range(len(self._tails) + 1, count + 1):
            tail = self._tail(self._delta(number), number)
            self._sizes.append(_size(tail))
            self._tails.append(tail)

    def _delta(self, number: int) -> dict[str, Any]:
        """Return the delta of content chunk `number`."""
        return {"content": words(number)}

    def _tail(self, delta: dict[str, Any], tokens: int, finish: str | None = None) -> bytes:
        """Return the part of a chunk after the id. `created` is the same in all chunks, as in vLLM."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": None}
        counts = {"usage": _usage(tokens)} if self._counts else {}
        return _after_id({"created": CREATED, "model": MODEL, "choices": [choice], **counts})


class CallScript(Script):
    """Chunks of a stream with one structured call."""

    def __init__(self, fragments: tuple[str, ...], counts: bool = False) -> None:
        """Create all chunks: the name first, then each fragment of the arguments."""
        self._fragments = fragments
        super().__init__(1 + len(fragments), counts)
        self._end = {}, "tool_calls"

    def _delta(self, number: int) -> dict[str, Any]:
        """Return what chunk `number` says of the call."""
        call: dict[str, Any] = {"index": 0, "function": {"arguments": self._fragments[number - 2]}}
        if number == 1:
            call = {"id": CALL_ID, "type": "function", "index": 0, "function": {"name": "write"}}
        return {"content": None, "tool_calls": [call]}


class PrintedScript(Script):
    """Chunks of a text stream with one printed call."""

    def __init__(self, fragments: tuple[str, ...], counts: bool = False) -> None:
        """Create all chunks, one per fragment."""
        self._fragments = fragments
        super().__init__(len(fragments), counts)

    def _delta(self, number: int) -> dict[str, Any]:
        """Return what chunk `number` says of the call."""
        return {"content": self._fragments[number - 1]}


def ident(start: float) -> bytes:
    """Return the id of a stream that began at `start`, in seconds of time.monotonic()."""
    return b"%0*d" % (ID_WIDTH, round(start * 1e9))


def words(number: int) -> str:
    """Return the text of content chunk `number`, which ends with that number."""
    return f" {WORDS[number % len(WORDS)]} {WORDS[number // len(WORDS) % len(WORDS)]} {number}"


@lru_cache(maxsize=4)
def call(events: int, wrong: bool, counts: bool = False, piece: int = 0) -> CallScript:
    """Return the script of a call with `events` chunks; `call_fragments` explains `wrong` and `piece`."""
    return CallScript(call_fragments(events, wrong, piece), counts)


@lru_cache(maxsize=4)
def printed_call(events: int, counts: bool = False) -> PrintedScript:
    """Return the script of a call printed in `events` chunks of text."""
    return PrintedScript(printed_fragments(events), counts)


def printed_fragments(events: int) -> tuple[str, ...]:
    """Return the text of a printed call, one chunk per token."""
    return (*_PRINTED_OPENING, *printed_arguments(events), *_PRINTED_CLOSING)


def printed_arguments(events: int) -> tuple[str, ...]:
    """Return the arguments of a call printed in `events` chunks."""
    return call_fragments(events - len(_PRINTED_OPENING) - len(_PRINTED_CLOSING) + 1, False)


def call_fragments(events: int, wrong: bool, piece: int = 0) -> tuple[str, ...]:
    """Return the arguments of a `write` in `events` - 1 pieces, one per token; the call's name is another chunk.

    `wrong`: the boolean at the end is a string. `piece`: if not 0, the content is split into pieces of that many
    characters.
    """
    closing = _WRONG_CLOSING if wrong else CALL_CLOSING
    if piece:
        return (*CALL_OPENING, *["x" * piece] * (events - 1 - len(CALL_OPENING) - len(closing)), *closing)
    content = [*islice(cycle(_TOKENS), events - 1 - len(CALL_OPENING) - len(closing))]
    if content[-1].startswith("\\u"):
        content[-1] = " "
    return (*CALL_OPENING, *content, *closing)


@lru_cache(maxsize=4)
def unescaped_call(events: int, counts: bool = False) -> CallScript:
    """Return the script of a call with `events` chunks and unescaped quotation marks."""
    return CallScript(unescaped_fragments(events), counts)


def unescaped_fragments(events: int, *, repaired: bool = False) -> tuple[str, ...]:
    """Return the arguments of a `write` in `events` - 1 pieces, one line of content each.

    Unless `repaired`, quotation marks in the content lack their backslashes, so that only the schema makes it readable.
    """
    line = json.dumps(_LINE)[1:-1]
    if not repaired:
        line = line.replace('\\"', '"')
    return (*CALL_OPENING, *[line] * (events - 1 - len(CALL_OPENING) - len(CALL_CLOSING)), *CALL_CLOSING)


def whole_text() -> str:
    """Return the text of a whole completion."""
    return "".join(words(number) for number in range(1, _WHOLE_WORDS + 1)).strip()


def whole(start: float) -> bytes:
    """Return a whole completion of about 1 KB, with its headers."""
    message = {"role": "assistant", "content": whole_text(), "refusal": None, "reasoning_content": None}
    answer = {
        "id": "chatcmpl-" + ident(start).decode(),
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "stop_reason": None}],
        "usage": _usage(WHOLE_TOKENS),
    }
    return reply(answer)


def reply(answer: dict[str, Any], status: str = "200 OK") -> bytes:
    """Return a JSON answer with its headers."""
    body = _json(answer)
    return b"HTTP/1.1 %s\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status.encode(),
        len(body),
        body,
    )


def _usage_tail(events: int) -> bytes:
    """Return the part of the usage chunk after the id."""
    return _after_id({"created": CREATED, "model": MODEL, "choices": [], "usage": _usage(events)})


def _usage(completion: int) -> dict[str, int]:
    """Return the usage of a response with `completion` tokens."""
    total = PROMPT_TOKENS + completion
    return {"prompt_tokens": PROMPT_TOKENS, "total_tokens": total, "completion_tokens": completion}


def _after_id(fields: dict[str, Any]) -> bytes:
    """Return the rest of an event after its id, and the end of its HTTP chunk."""
    return b'",' + _json({"object": "chat.completion.chunk", **fields})[1:] + b"\n\n\r\n"


def _chunk(ident: bytes, tail: bytes) -> bytes:
    """Return one complete HTTP chunk."""
    return _size(tail) + _HEAD + ident + tail


def _size(tail: bytes) -> bytes:
    """Return the size line of a chunk; its own closing line break does not count."""
    return b"%x\r\n" % (len(_HEAD) + ID_WIDTH + len(tail) - 2)


def _json(value: dict[str, Any]) -> bytes:
    """Return compact JSON, like vLLM."""
    return json.dumps(value, separators=(",", ":")).encode()
