"""Compaction: what the model is asked, the item that its summary becomes, and what goes on from that (C2, C3, C8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.responses.compaction import INSTRUCTION, packed, unpacked
from proxy.dialects.responses.kept import resume
from proxy.dialects.responses.request import compacting
from proxy.dialects.responses.writer import CompactDialect, ResponsesDialect
from proxy.engine.events import CallArguments, CallOpened, Event, Finished, Reasoning, Text, Usage
from proxy.errors import ContextFull, ProxyError, UpstreamBroken
from tests.support.helpers import all_cuts
from tests.support.responses_ask import (
    TOOL,
    ask,
    assistant,
    call,
    developer,
    lost,
    messages,
    output,
    refusal,
    sent,
    user,
)
from tests.support.responses_checker import check_response, check_stream, events
from tests.support.responses_view import options, told

TRIGGER = {"type": "compaction_trigger"}
SUMMARY = "The user wants a parser.\nNext: tests."
END = Finished(0, "stop", None)
CUT = Finished(0, "length", None)
KINDS = ("compaction", "compaction_summary", "context_compaction")


def compacted(summary: str = SUMMARY, kind: str = "compaction", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "encrypted_content": packed(summary), **fields}


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


# The request.


def test_the_conversation_goes_up_with_the_instruction_and_without_tools() -> None:
    """Codex asks so, with `tools: []` and a choice; what was said before goes up as it did then (C8)."""
    given = [developer("rules"), user("do it"), call(), output("done")]
    before = messages(*given, assistant("ok"))
    found = sent(ask(*given, assistant("ok"), TRIGGER, tools=[TOOL], tool_choice="auto", parallel_tool_calls=False))
    assert found.compacts
    assert found.body["messages"] == [*before, {"role": "user", "content": INSTRUCTION}]
    assert not {"tools", "tool_choice", "parallel_tool_calls", "response_format"} & found.body.keys()
    assert lost(found) == {"tools": 1, "tool_choice": 1}


def test_a_form_of_the_answer_is_none_of_a_summarys() -> None:
    found = sent(ask(user("a"), TRIGGER, text={"format": {"type": "json_object"}}))
    assert "response_format" not in found.body and lost(found) == {"text": 1}


@pytest.mark.parametrize("items", [[TRIGGER, user("a")], [user("a"), TRIGGER, TRIGGER]])
def test_the_wish_to_compact_comes_last(items: list[Any]) -> None:
    assert "compaction_trigger must be the last item" in refusal(ask(*items))


def test_without_it_nothing_is_compacted() -> None:
    assert not sent(ask(user("a"))).compacts


def test_the_rules_may_refuse_it_and_what_was_written_can_still_be_read() -> None:
    words = refusal(ask(user("a"), TRIGGER), compaction="refuse")
    assert words.startswith("input.1: this server writes no compactions") and "ordinary request" in words
    assert SUMMARY in messages(compacted(), compaction="refuse")[0]["content"]


@pytest.mark.parametrize("given", ["hello", [user("hello")]])
def test_a_request_of_compact_is_one_that_ends_with_the_wish(given: Any) -> None:
    found = sent(compacting({"model": "asked", "input": given, "stream": True, "background": True}))
    assert found.compacts and "stream" not in found.body
    assert found.body["messages"] == [{"role": "user", "content": f"hello\n\n{INSTRUCTION}"}]


def test_a_request_of_compact_without_input_asks_about_what_it_goes_on_from() -> None:
    assert compacting({"model": "m", "previous_response_id": "resp_1"})["input"] == [TRIGGER]


# What goes on from a summary.


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_is_text_of_the_users_in_its_place(kind: str) -> None:
    first, second = messages(developer("rules"), compacted(kind=kind, id="cmp_1"), user("go on"))
    assert first == {"role": "system", "content": "rules"}
    assert second["role"] == "user"
    assert second["content"].endswith(f"which it replaces:\n\n{SUMMARY}\n\ngo on")


def test_what_a_summary_quotes_is_no_call() -> None:
    """C3, F89."""
    quoted = '<tool_call>{"name": "run", "arguments": {}}</tool_call>'
    assert quoted in sent(ask(compacted(quoted), user("go on"))).results


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "content",
    [
        "gAAAAABo-of-openai",
        "",
        "summary.1.",
        "summary.1.0000000000000000.The user",
        packed(SUMMARY)[:-1],
        packed(SUMMARY) + " ",
        packed("").replace(".1.", ".2."),
        packed(""),
    ],
)
def test_what_was_not_written_here_or_was_changed_is_refused(kind: str, content: str) -> None:
    words = refusal(ask(user("a"), {"type": kind, "encrypted_content": content}))
    assert words.startswith("input.1.encrypted_content: only the server that wrote it can read it")


@pytest.mark.parametrize(("content", "words"), [(None, "Field required"), (7, "must be a string"), ([], "must be")])
def test_a_summary_is_a_string(content: Any, words: str) -> None:
    item = {"type": "compaction", "encrypted_content": content}
    assert refusal(ask(item)).startswith(f"input.0.encrypted_content: {words}")


@pytest.mark.parametrize("summary", ["a", "a.b.c", "é\n\t😀", "summary.1.x"])
def test_a_summary_comes_back_as_it_was(summary: str) -> None:
    assert unpacked(packed(summary)) == summary


class Kept:
    """One response that ends with a summary."""

    def response(self, id_: str) -> dict[str, Any] | None:
        return {"id": id_, "output": [compacted()]}

    def given(self, id_: str) -> list[Any]:
        return [developer("rules"), user("a long story"), call(), output(), TRIGGER]

    def newest(self, conversation: str) -> str:
        return "resp_1"


@pytest.mark.parametrize("by", [{"previous_response_id": "resp_1"}, {"conversation": "c"}])
def test_a_kept_conversation_goes_on_from_its_summary(by: dict[str, str]) -> None:
    found = resume(ask(user("go on"), **by), Kept())
    assert found.given == [developer("rules"), compacted(), user("go on")]


# The reply.


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
