"""What one examination knows, and that each thing is asked once for all probes."""

from __future__ import annotations

import pytest

from proxy.doctor import words
from proxy.doctor.examination import Examination
from proxy.doctor.syntaxes import TOOL
from proxy.healing.families import family_of
from proxy.upstream.model_list import ModelCard
from tests.support.doctor_answers import CALL, error, examination, said, streamed, whole
from tests.support.socketless import Made

HERMES = CALL["Hermes' JSON"]


def test_a_reply_is_asked_for_once_and_each_way_of_asking_is_its_own() -> None:
    table: dict[str, Made] = {
        "call auto": whole("one"),
        "call none": whole("two"),
        "call auto stream": streamed("three"),
        "two auto": whole("four"),
        "plain": whole("five"),
    }
    at = examination(said(table))
    for _ in range(2):
        replies = [at.reply(words.CALL, "auto"), at.raw(), at.reply(words.CALL, "auto", stream=True)]
        replies += [at.reply(words.TWO_CALLS, "auto"), at.plain]
        assert [reply.text for reply in replies] == ["one", "two", "three", "four", "five"]
    assert at.ask.spent.requests == 5


def test_a_request_offers_the_tool_and_a_stream_says_its_usage() -> None:
    at = examination(said({}))
    body = at.request("Do it.", "auto")
    assert (body["tools"], body["tool_choice"], body["stream"]) == ([TOOL], "auto", False)
    assert body["messages"] == [{"role": "user", "content": "Do it."}] and "stream_options" not in body
    assert at.request("a", "auto", stream=True)["stream_options"] == {"include_usage": True}
    forced, free = (at.request("a", choice)["max_tokens"] for choice in ("required", "auto"))
    assert isinstance(forced, int) and isinstance(free, int) and 0 < forced < free


@pytest.mark.parametrize(
    ("kind", "model", "more"),
    [
        ("vllm", "m", {"skip_special_tokens": False}),
        ("sglang", "m", {"skip_special_tokens": False}),
        ("llamacpp", "m", {}),
        ("", "m", {}),
        ("llamacpp", "Qwen3-8B", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("lmdeploy", "Qwen3-8B", {}),
    ],
)
def test_a_server_is_sent_only_what_its_kind_takes(kind: str, model: str, more: dict[str, object]) -> None:
    body = examination(said({}), model, kind).request("a", "none")
    assert {key: body.get(key) for key in ("skip_special_tokens", "chat_template_kwargs") if key in body} == more


def test_special_tokens_are_asked_for_only_where_no_call_is_looked_for() -> None:
    assert "skip_special_tokens" not in examination(said({})).request("a", "auto")


def test_the_plainest_request_has_no_tools_and_takes_other_fields() -> None:
    at = examination(said({}))
    assert {*at.plain_request()} == {"model", "messages", "max_tokens", "stream"}
    changed = at.plain_request(stream=True, temperature="hot")
    assert (changed["stream"], changed["temperature"], changed["max_tokens"]) == (True, "hot", 1)


@pytest.mark.parametrize(
    ("raw", "syntaxes"),
    [
        (whole(f"{HERMES}\n{HERMES}"), ["Hermes' JSON"] * 2),
        (whole("I would rather not."), []),
        (error(HERMES), []),
    ],
    ids=["two calls", "none", "an error that quotes one"],
)
def test_what_the_model_writes_is_read_from_its_own_text(raw: Made, syntaxes: list[str]) -> None:
    at = examination(said({"call none": raw, "two none": whole(HERMES)}))
    assert [call.syntax for call in at.written()] == syntaxes
    assert len(at.written(words.TWO_CALLS)) == 1


def test_prompts_are_seen_in_one_way_for_all_probes() -> None:
    at: Examination = examination(said({}))
    assert at.prompts is at.prompts
    assert at.family is None and examination(said({}), "Qwen3-8B").family is not None
    at.cards = (ModelCard(at.model, root="/models/Qwen3-8B"),)
    assert at.family == family_of("Qwen3-8B")
