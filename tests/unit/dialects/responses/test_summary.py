"""The reply to a request to compact: one item that holds the summary, said when it is whole (C2, C3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.responses.compaction import unpacked
from proxy.dialects.responses.writer import CompactDialect, ResponsesDialect
from proxy.engine.events import CallArguments, CallOpened, Event, Finished, Reasoning, Text, Usage
from proxy.errors import ContextFull, ProxyError, UpstreamBroken
from tests.support.helpers import all_cuts
from tests.support.responses_checker import check_response, check_stream, events
from tests.support.responses_view import options, told

SUMMARY = "The user wants a parser.\nNext: tests."
END = Finished(0, "stop", None)
CUT = Finished(0, "length", None)


def stream(*given: Event, **fields: Any) -> bytes:
    writer = ResponsesDialect(options(**fields), compacts=True).writer(expand=False)
    data = b"".join(map(writer.write, given))
    try:
        return data + writer.end()
    except ProxyError as error:
        return data + writer.error(error)


def summary_of(response: dict[str, Any]) -> str:
    """The summary in the only item of a response."""
    (item,) = response["output"]
    assert item["type"] == "compaction"
    return unpacked(item["encrypted_content"])


@pytest.mark.parametrize("parts", [*all_cuts("<think>hm</think>The plan", 3)])
def test_a_summary_is_one_item_at_every_cut_and_thoughts_are_no_part_of_it(parts: list[str]) -> None:
    data = stream(Reasoning(0, "I think"), *told(parts))
    response = check_stream(data)
    assert (summary_of(response), response["status"]) == ("The plan", "completed")
    kinds = [name.removeprefix("response.") for name, _ in events(data)]
    assert kinds == ["created", "in_progress", "output_item.added", "output_item.done", "completed"]


@pytest.mark.parametrize(
    ("said", "summary"),
    [(["a \ud83d b"], "a \ufffd b"), (["a \ude00"], "a \ufffd"), (["a \ud83d", "\ude00 b"], "a \N{GRINNING FACE} b")],
)
def test_half_a_character_of_a_summary_is_none_on_the_wire_either(said: list[str], summary: str) -> None:
    """What the client keeps is what it could read, or its summary would be refused as one that was changed."""
    assert summary_of(check_stream(stream(*(Text(0, text) for text in said), END))) == summary


def test_heartbeats_tell_that_it_is_being_written() -> None:
    writer = ResponsesDialect(options(), compacts=True).writer(expand=False)
    data = writer.write(Text(0, "The")) + writer.heartbeat() + writer.write(Text(0, " plan")) + writer.heartbeat()
    assert summary_of(check_stream(data + writer.write(END) + writer.end())) == "The plan"


def test_what_it_took_is_told() -> None:
    data = stream(Text(0, "a"), END, Usage({"prompt_tokens": 3, "completion_tokens": 4}))
    assert check_stream(data)["usage"]["total_tokens"] == 7


def test_a_call_that_comes_all_the_same_is_none() -> None:
    data = stream(Text(0, "a"), CallOpened(0, 0, "c", "run"), CallArguments(0, 0, "{}"), END)
    assert summary_of(check_stream(data)) == "a"


@pytest.mark.parametrize("text", ["", " \n", "<think>only thought</think>", "<think>not even ended"])
def test_an_empty_summary_is_a_failure(text: str) -> None:
    response = check_stream(stream(*told([text])))
    assert (response["status"], response["output"]) == ("failed", [])
    assert response["error"]["message"] == "the model wrote no summary of the conversation"


def test_half_a_summary_is_no_item() -> None:
    response = check_stream(stream(Text(0, "The pl"), CUT))
    assert (response["status"], response["output"]) == ("incomplete", [])


def test_a_context_that_is_full_is_told_by_its_code() -> None:
    response = check_stream(stream(Text(0, "The pl"), CUT, limit=None))
    assert (response["status"], response["error"]["code"]) == ("failed", "context_length_exceeded")


def test_whole_it_is_the_response() -> None:
    made = ResponsesDialect(options(), compacts=True).complete_answer(b"", {}, [Text(0, SUMMARY), END])
    assert summary_of(check_response(made)) == SUMMARY


def test_compact_is_answered_by_a_compacted_response() -> None:
    made = json.loads(CompactDialect(options()).complete_answer(b"", {}, [Text(0, SUMMARY), END]))
    assert summary_of(made) == SUMMARY
    assert made.keys() == {"id", "object", "created_at", "output", "usage"}
    assert made["object"] == "response.compaction"


@pytest.mark.parametrize(("limit", "error"), [(1, UpstreamBroken), (None, ContextFull)])
def test_half_a_summary_is_no_compacted_response(limit: int | None, error: type[ProxyError]) -> None:
    with pytest.raises(error):
        CompactDialect(options(limit=limit)).complete_answer(b"", {}, [Text(0, "The pl"), CUT])
