"""Requests with the stream of a model server's reply, from corpora and recordings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.shared import SHARED

TESTS = Path(__file__).parents[1]
# Characters per chunk.
WIDTH = 7
Delta = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A chat request, and the stream that a model server answers it with."""

    body: dict[str, Any]
    stream: bytes


def cases() -> Iterator[Case]:
    """Yield all cases, always in the same order."""
    agent = _offered(*json.loads((TESTS / "corpora" / "tools.json").read_text("utf-8"))["agent"])
    for row in _lines(TESTS / "corpora" / "formats"):
        yield _case(agent, (), ({"content": piece} for piece in _pieces(row["text"])), row["finish"])
    for row in _lines(TESTS / "corpora" / "negative"):
        pieces = _pieces(row["text"])
        yield _case(agent, row.get("results", ()), ({"content": piece} for piece in pieces), row.get("finish", "stop"))
        if pieces:
            yield _case(agent, (), [*({"reasoning_content": piece} for piece in pieces), {"content": "So."}], "stop")
    for row in _lines(SHARED / "corpora"):
        if row["text"] is not None:
            yield _case(row.get("tools") or [], (), ({"content": piece} for piece in _pieces(row["text"])), "stop")
    for row in _rows(TESTS / "corpora" / "valid_calls.jsonl"):
        opened = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "tool", "arguments": ""}}
        calls = [opened, *({"index": 0, "function": {"arguments": piece}} for piece in _pieces(row["arguments"]))]
        tools = _offered({"name": "tool", "parameters": row["schema"]})
        yield _case(tools, (), ({"tool_calls": [call]} for call in calls), "tool_calls")
    for path in sorted((TESTS / "recordings").rglob("*.txt")):
        data = path.read_bytes()
        if data.lstrip().startswith((b"data:", b"event:", b":")):
            yield Case(_request(agent, ()), data)


def _offered(*functions: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": each} for each in functions]


def _pieces(text: str) -> list[str]:
    return [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        yield from _rows(path)


def _request(tools: list[dict[str, Any]], results: Iterable[str]) -> dict[str, Any]:
    """Return a request that offers the tools, after calls with these results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go on"}]
    for number, result in enumerate(results):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
    body = {"model": "tiny", "max_tokens": 4096, "messages": messages, "stream": True}
    return {**body, "tools": tools} if tools else body


def _case(tools: list[dict[str, Any]], results: Iterable[str], deltas: Iterable[Delta], finish: str) -> Case:
    stream = b"".join(
        [_chunk({"role": "assistant", "content": ""}), *map(_chunk, deltas), _chunk({}, finish), b"data: [DONE]\n\n"]
    )
    return Case(_request(tools, results), stream)


def _chunk(delta: Delta, finish: str | None = None) -> bytes:
    entry = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [entry]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"
