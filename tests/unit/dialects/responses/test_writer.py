"""Responses, to the client: the numbers of a stream's events, heartbeats, and whole responses (C2, C4)."""

from __future__ import annotations

import json

import pytest

from proxy.dialects.responses.errors import error_code
from proxy.dialects.responses.writer import Progress, ResponsesDialect, ResponsesWriter
from proxy.engine.events import CallArguments, CallOpened, Event, Finished, Text
from proxy.errors import ContextFull, UpstreamBroken
from tests.support.messages_checker import events
from tests.support.responses_checker import check_stream, text_of
from tests.support.responses_view import options

END = Finished(0, "stop", None)


def kinds(data: bytes) -> list[str]:
    return [name.removeprefix("response.") for name, _ in events(data)]


def test_heartbeats_begin_the_response_and_repeat_it() -> None:
    """Comments do not reset Codex's timer."""
    writer = ResponsesWriter(options())
    data = writer.heartbeat() + writer.heartbeat() + writer.write(Text(0, "a")) + writer.heartbeat()
    data += writer.write(END) + writer.end()
    check_stream(data)
    assert kinds(data)[:4] == ["created", "in_progress", "in_progress", "output_item.added"]
    assert kinds(data).count("created") == 1 and "in_progress" in kinds(data)[5:]


@pytest.mark.parametrize("beats", [0, 1, 3])
def test_a_second_try_goes_on_where_the_heartbeats_stopped(beats: int) -> None:
    """What the first one would have said besides never left."""
    dialect = ResponsesDialect(options(progress=Progress()))
    first = dialect.writer()
    data = b"".join(first.heartbeat() for _ in range(beats))
    first.write(Text(0, "never sent"))
    second = dialect.writer()
    data += second.write(Text(0, "a")) + second.end()
    assert text_of(check_stream(data)) == "a"


@pytest.mark.parametrize("beats", [0, 2])
def test_a_failure_is_the_whole_stream(beats: int) -> None:
    writer = ResponsesWriter(options())
    data = b"".join(writer.heartbeat() for _ in range(beats)) + writer.error(UpstreamBroken("gone"))
    assert check_stream(data)["error"] == {"code": "server_error", "message": "gone"}


def test_a_whole_answer_that_fills_the_context_is_an_error() -> None:
    with pytest.raises(ContextFull) as caught:
        ResponsesDialect(options(limit=None)).complete_answer(b"", {}, (Text(0, "a"), Finished(0, "length", None)))
    assert (caught.value.status, error_code(caught.value)) == (400, "context_length_exceeded")


def test_each_event_has_its_name_and_the_next_number() -> None:
    writer = ResponsesWriter(options())
    data = writer.heartbeat() + writer.write(Text(0, "a")) + writer.write(Text(0, "b")) + writer.write(END)
    data += writer.end()
    told = [(name, json.loads(text)) for name, text in events(data)]
    assert [body["type"] for _, body in told] == [name for name, _ in told]
    assert [body["sequence_number"] for _, body in told] == [*range(len(told))]


def test_a_response_is_kept_where_the_options_say_so() -> None:
    assert not ResponsesDialect(options()).keeps
    assert ResponsesDialect(options(keep=lambda *_: None)).keeps


def test_a_call_streams_and_is_done_as_soon_as_another_item_opens() -> None:
    """C2; Codex runs it then."""
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
