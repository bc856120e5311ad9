"""The events of a Responses stream: items, their parts and deltas, the response at each end of it (C2, C4, C5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.responses.tools import Called, Kind
from proxy.dialects.responses.writer import ResponsesWriter
from proxy.engine.events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Event,
    Finished,
    Text,
    Usage,
)
from proxy.errors import (
    ProxyError,
)
from tests.support.helpers import all_cuts
from tests.support.responses_checker import check_stream, events, text_of
from tests.support.responses_view import offering, options, told

PATCH = "*** Begin Patch\n*** End Patch"
TOOLS = offering(
    ("agents__close", Called(Kind.FUNCTION, "close", "agents")),
    ("apply_patch", Called(Kind.CUSTOM, "apply_patch")),
    ("tool_search", Called(Kind.SEARCH, "tool_search")),
)
END = Finished(0, "stop", None)


def opened(name: str = "run", index: int = 0, id_: str = "c1") -> Event:
    return CallOpened(0, index, id_, name)


def said(text: str, index: int = 0) -> Event:
    return CallArguments(0, index, text)


def closed(arguments: str, name: str = "run", index: int = 0) -> Event:
    return CallClosed(0, index, Call("c1", name, arguments), ())


def stream(*given: Event, **fields: Any) -> bytes:
    """The stream of these events; one that fails does so at its end."""
    writer = ResponsesWriter(options(tools=TOOLS, **fields))
    data = b"".join(map(writer.write, given))
    try:
        return data + writer.end()
    except ProxyError as error:
        return data + writer.error(error)


def read(*given: Event, **fields: Any) -> dict[str, Any]:
    return check_stream(stream(*given, **fields))


def kinds(data: bytes) -> list[str]:
    return [name.removeprefix("response.") for name, _ in events(data)]


def bodies(data: bytes, kind: str) -> list[dict[str, Any]]:
    return [json.loads(text) for name, text in events(data) if name == f"response.{kind}"]


@pytest.mark.parametrize("parts", [*all_cuts("<think>hm</think>\n\nHi", 3), [*"<think>hm</think>\n\nHi"]])
def test_reasoning_in_the_text_is_reasoning_at_every_cut(parts: list[str]) -> None:
    """The engine tells it, as in all dialects."""
    response = read(*told(parts))
    assert (text_of(response), text_of(response, "reasoning")) == ("Hi", "hm")
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]


def test_what_only_looks_like_a_mark_of_reasoning_is_text() -> None:
    """Nothing is told here that the engine has not told."""
    response = read(Text(0, "<think>hm</think>Hi"), END)
    assert (text_of(response), text_of(response, "reasoning")) == ("<think>hm</think>Hi", "")


def test_a_call_streams_and_is_done_as_soon_as_another_item_opens() -> None:
    """C2; Codex runs it then."""
    data = stream(opened(), said('{"a"'), said(": 1}"), opened(index=1, id_="c2"), said("{}", 1), Text(0, "b"), END)
    found = kinds(data)[2:]
    assert found == [
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert [item.get("call_id") for item in check_stream(data)["output"]] == ["c1", "c2", None]


# What was cut off.


def full(**fields: Any) -> bool:
    counts = Usage({"prompt_tokens": 90, "completion_tokens": 10})
    last = read(Text(0, "a"), counts, Finished(0, "length", None), **fields)
    if last["status"] == "failed":
        assert last["error"]["code"] == "context_length_exceeded" and last["output"][0]["status"] == "incomplete"
        return True
    assert last["status"] == "incomplete"
    return False
