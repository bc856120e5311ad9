"""What a real model server said, in any dialect: whether it is what its model's script means."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from proxy.dialects.chat.client_view import view_reply
from tests.agents.shape import Answer, exchanges

# A server may read this notation itself; its calls are no text then.
_MARKS = ("<tool_call>", "</tool_call>")


class Said(NamedTuple):
    """The text of an answer, and the calls that the server found in what its model wrote: names and arguments."""

    text: str
    calls: list[list[str]]


def faults(folder: Path, meant: str) -> Iterator[str]:
    """Say what the model server said, by the run's folder, if it was never what its model was meant to write: that very
    text, or what the server itself makes of it.
    """
    found = [said(answer) for _, answer in exchanges(folder, "server")]
    if not any(_is(each, meant) for each in found):
        yield f"the model server never sent {meant!r}, but {[tuple(each) for each in found]}"


def said(answer: Answer) -> Said:
    """Return what an answer says, streamed or whole."""
    streamed = answer.type == "text/event-stream"
    for choice in view_reply(answer.body, streamed=streamed).choices.values():
        return Said(choice.text, [list(call) for call in choice.calls])
    if streamed:
        return _joined(_events(answer.body))
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = {}
    return _joined(map(_of_item, body.get("content") or body.get("output") or ()))


def _is(found: Said, meant: str) -> bool:
    if not found.calls:
        return found.text == meant
    before, _, call = meant.partition(_MARKS[0])
    try:
        written = json.loads(call.removesuffix(_MARKS[1]))
        read = [{"name": name, "arguments": json.loads(arguments)} for name, arguments in found.calls]
    except ValueError:
        return False
    return read == [written] and found.text.strip() == before.strip()


# What a part of an answer says: a text, and of a call its name and a piece of its arguments.
_Part = tuple[str, str, str]
_NOTHING: _Part = ("", "", "")


def _joined(parts: Iterable[_Part]) -> Said:
    text, calls = "", list[list[str]]()
    for piece, name, arguments in parts:
        text += piece
        if name:
            calls.append([name, arguments])
        elif arguments and calls:
            calls[-1][1] += arguments
    return Said(text, calls)


def _events(stream: bytes) -> Iterator[_Part]:
    for line in stream.decode(errors="replace").splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line.removeprefix("data: "))
        kind = event.get("type", "")
        if kind == "response.output_text.delta":
            yield event["delta"], "", ""
        elif kind == "response.function_call_arguments.delta":
            yield "", "", event["delta"]
        elif kind == "response.output_item.added":
            yield _of_item({**event["item"], "content": ()})
        elif kind == "content_block_start":
            yield "", event["content_block"].get("name", ""), ""
        elif kind == "content_block_delta":
            yield event["delta"].get("text", ""), "", event["delta"].get("partial_json", "")


def _of_item(item: Mapping[str, Any]) -> _Part:
    """Return what a block of a message says, or an item of a response."""
    match item.get("type"):
        case "text":
            return item["text"], "", ""
        case "message":
            return "".join(part.get("text", "") for part in item["content"]), "", ""
        case "tool_use":
            return "", item["name"], json.dumps(item["input"])
        case "function_call":
            return "", item["name"], item["arguments"]
    return _NOTHING
