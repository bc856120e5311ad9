"""Responses sent to the client: event numbers, heartbeats, and whole responses (C2, C4)."""

from __future__ import annotations

from proxy.dialects.responses.writer import ResponsesWriter
from proxy.engine.events import CallArguments, CallOpened, Event, Finished, Text
from tests.support.messages_checker import events
from tests.support.responses_checker import check_stream
from tests.support.translated import response_options as options

END = Finished(0, "stop", None)


def kinds(data: bytes) -> list[str]:
    return [name.removeprefix("response.") for name, _ in events(data)]


def test_heartbeats_begin_the_response_and_repeat_in_progress() -> None:
    """SSE comments do not reset Codex's timer."""
    writer = ResponsesWriter(options())
    data = writer.heartbeat() + writer.heartbeat() + writer.write(Text(0, "a")) + writer.heartbeat()
    data += writer.write(END) + writer.end()
    check_stream(data)
    assert kinds(data)[:4] == ["created", "in_progress", "in_progress", "output_item.added"]
    assert kinds(data).count("created") == 1 and "in_progress" in kinds(data)[5:]


def test_a_call_is_done_as_soon_as_another_item_opens() -> None:
    """C2: Codex then runs the call."""
    writer = ResponsesWriter(options())
    opened, other = CallOpened(0, 0, "c1", "run"), CallOpened(0, 1, "c2", "run")
    arguments = [CallArguments(0, 0, text) for text in ('{"a"', ": 1}")]
    given: list[Event] = [opened, *arguments, other, CallArguments(0, 1, "{}"), Text(0, "b"), END]
    data = b"".join(map(writer.write, given)) + writer.end()
    assert kinds(data)[2:] == [
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert [item.get("call_id") for item in check_stream(data)["output"]] == ["c1", "c2", None]
