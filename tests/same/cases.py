"""The cases for both trees: requests with a model server's answer, from corpora and recordings."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.shared import SHARED

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
# Characters per chunk.
WIDTH = 7
STREAM, WHOLE = "text/event-stream", "application/json"


@dataclass(frozen=True, slots=True)
class Case:
    """One answer of a model server, in base64, to the request `body`. `stream`: it is an event stream."""

    name: str
    body: dict[str, Any]
    answer: str
    stream: bool


def cases() -> Iterator[Case]:
    """Yield all cases, always in the same order."""
    for row in _lines(TESTS / "corpora" / "formats"):
        yield from _said(f"formats/{row['id']}", row["text"], row["finish"], _agent(), ())
    for row in _lines(TESTS / "corpora" / "negative"):
        finish, results = row.get("finish", "stop"), row.get("results", ())
        yield from _said(f"negative/{row['id']}", row["text"], finish, _agent(), results)
        if row["text"]:
            yield from _thought(f"parsed/{row['id']}", row["text"], _agent())
    for row in _lines(SHARED / "corpora"):
        if row["text"] is not None:
            yield from _said(f"shared/{row['id']}", row["text"], "stop", row.get("tools") or [], ())
    for number, row in enumerate(_rows(TESTS / "corpora" / "valid_calls.jsonl")):
        yield from _called(f"valid/{number}", row)
    for path in sorted((TESTS / "recordings").rglob("*.txt")):
        yield from _recorded(path)


def as_json(case: Case) -> str:
    """Return the case as a line for `ask`."""
    return json.dumps(asdict(case))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        yield from _rows(path)


def _agent() -> list[dict[str, Any]]:
    tools = json.loads((TESTS / "corpora" / "tools.json").read_text("utf-8"))["agent"]
    return [{"type": "function", "function": tool} for tool in tools]


def _request(name: str, tools: list[dict[str, Any]], results: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go on"}]
    for number, result in enumerate(results):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
    body: dict[str, Any] = {"model": "tiny", "max_tokens": 4096, "messages": messages, "user": name}
    if tools:
        body["tools"] = tools
    return body


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    entry = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [entry]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _answer(message: dict[str, Any], finish: str) -> bytes:
    entry = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [entry]}
    return json.dumps(body).encode()


def _both(name: str, tools: list[dict[str, Any]], results: Any, stream: bytes, whole: bytes) -> Iterator[Case]:
    request = _request(name, tools, results)
    yield Case(f"{name}/stream", {**request, "stream": True}, base64.b64encode(stream).decode(), stream=True)
    yield Case(f"{name}/whole", request, base64.b64encode(whole).decode(), stream=False)


def _said(name: str, text: str, finish: str, tools: list[dict[str, Any]], results: Any) -> Iterator[Case]:
    """Yield a text reply, streamed in pieces of seven characters and whole."""
    pieces = [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)]
    chunks = [_chunk({"role": "assistant", "content": ""}), *(_chunk({"content": piece}) for piece in pieces)]
    stream = b"".join([*chunks, _chunk({}, finish), b"data: [DONE]\n\n"])
    yield from _both(name, tools, results, stream, _answer({"content": text}, finish))


def _thought(name: str, text: str, tools: list[dict[str, Any]]) -> Iterator[Case]:
    """Yield a reply with this text as separate reasoning, streamed and whole."""
    pieces = [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)]
    thoughts = [{"reasoning_content": piece} for piece in pieces]
    deltas = [{"role": "assistant", "content": ""}, *thoughts, {"content": "So."}]
    stream = b"".join([*map(_chunk, deltas), _chunk({}, "stop"), b"data: [DONE]\n\n"])
    yield from _both(name, tools, (), stream, _answer({"content": "So.", "reasoning_content": text}, "stop"))


def _called(name: str, row: dict[str, Any]) -> Iterator[Case]:
    """Yield a structured call, its arguments streamed in pieces of seven characters and whole."""
    tools = [{"type": "function", "function": {"name": "tool", "parameters": row["schema"]}}]
    text = row["arguments"]
    opened = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "tool", "arguments": ""}}
    pieces = [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)]
    deltas = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    chunks = [_chunk({"role": "assistant", "tool_calls": [opened]}), *(_chunk({"tool_calls": [d]}) for d in deltas)]
    stream = b"".join([*chunks, _chunk({}, "tool_calls"), b"data: [DONE]\n\n"])
    call = {"id": "call_1", "type": "function", "function": {"name": "tool", "arguments": text}}
    yield from _both(name, tools, (), stream, _answer({"content": None, "tool_calls": [call]}, "tool_calls"))


def _recorded(path: Path) -> Iterator[Case]:
    """Yield a real server's answer, verbatim."""
    data = path.read_bytes()
    stream = data.lstrip().startswith((b"data:", b"event:", b":"))
    if not stream and not data.lstrip().startswith(b"{"):
        return
    name = f"recordings/{path.relative_to(TESTS / 'recordings')}"
    body = _request(name, _agent(), ())
    yield Case(name, {**body, "stream": stream}, base64.b64encode(data).decode(), stream=stream)
