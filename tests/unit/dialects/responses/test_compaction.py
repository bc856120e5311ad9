"""Compaction: what the model is asked, and what goes on from the summary that it wrote (C2, C3, C8)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.responses.compaction import INSTRUCTION, packed, unpacked
from proxy.dialects.responses.kept import resume
from proxy.dialects.responses.request import compacting
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
from tests.support.translations import sources_of

TRIGGER = {"type": "compaction_trigger"}
SUMMARY = "The user wants a parser.\nNext: tests."
KINDS = ("compaction", "compaction_summary", "context_compaction")


def compacted(summary: str = SUMMARY, kind: str = "compaction", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "encrypted_content": packed(summary), **fields}


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
    found = sent(compacting({"model": "asked", "input": given, "stream": True}))
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
    assert any(quoted in source for source in sources_of(sent(ask(compacted(quoted), user("go on")))))


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

    def input_of(self, id_: str) -> list[Any]:
        return [developer("rules"), user("a long story"), call(), output(), TRIGGER]


def test_a_kept_conversation_goes_on_from_its_summary() -> None:
    found = resume(ask(user("go on"), previous_response_id="resp_1"), Kept())
    assert found.items == [developer("rules"), compacted(), user("go on")]
