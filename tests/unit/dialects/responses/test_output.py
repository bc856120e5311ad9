"""The events of a Responses stream: items, their parts and deltas, the response at each end of it (C2, C4, C5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.dialects.responses.output import Output
from proxy.dialects.responses.tools import Called, Kind
from proxy.dialects.responses.writer import ResponsesWriter
from proxy.engine.events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Finished,
    Reasoning,
    Text,
    Usage,
)
from proxy.errors import (
    ProxyError,
    UpstreamBroken,
)
from tests.support.helpers import all_cuts
from tests.support.responses_checker import calls_of, check_stream, events, text_of
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


def test_text_is_a_message() -> None:
    data = stream(Text(0, "Hello"), Text(0, " there"), END, Usage({"prompt_tokens": 3, "completion_tokens": 2}))
    assert kinds(data) == [
        *("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    response = check_stream(data)
    assert (text_of(response), response["status"], response["completed_at"]) == ("Hello there", "completed", 6)
    assert response["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }


@pytest.mark.parametrize("kind", [Text, Reasoning])
@pytest.mark.parametrize(
    ("said", "deltas"),
    [
        (["a \ud83d", "\ude00 b"], ["a ", "\N{GRINNING FACE} b"]),
        (["\ud83d", "\ude00"], ["\N{GRINNING FACE}"]),
        (["a", "\ud83d", "\ud83d", "\ude00"], ["a", "\ufffd", "\N{GRINNING FACE}"]),
        (["a", "\ude00", "b\ud83d"], ["a", "\ufffd", "b", "\ufffd"]),
        (["a\ud83d", "b"], ["a", "\ufffdb"]),
        (["\N{GRINNING FACE}", "\uffe5"], ["\N{GRINNING FACE}", "\uffe5"]),
    ],
)
def test_a_character_that_comes_in_halves_is_one(kind: Any, said: list[str], deltas: list[str]) -> None:
    """Servers that count in UTF-16 cut between the halves; what clients join of the deltas is the text at the end."""
    data = stream(*(kind(0, text) for text in said), END)
    name = "output_text.delta" if kind is Text else "reasoning_text.delta"
    assert [body["delta"] for body in bodies(data, name)] == deltas
    assert check_stream(data)["output"][0]["content"][0]["text"] == "".join(deltas)


def test_details_of_the_usage_are_carried() -> None:
    counts: JsonObject = {
        **{"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    usage = read(Text(0, "a"), Usage(counts), END)["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == 8
    assert usage["output_tokens_details"]["reasoning_tokens"] == 4


def test_usage_is_whole_where_the_server_says_nothing() -> None:
    """Codex asks again where `cached_tokens` is missing."""
    assert read(Text(0, "a"), END)["usage"]["input_tokens_details"]["cached_tokens"] == 0


def test_reasoning_is_an_item_in_clear_with_an_empty_summary() -> None:
    response = read(Reasoning(0, "hm"), Reasoning(0, ", so"), Text(0, "\n\nHi"), END)
    assert [(item["type"], item["content"][0]["text"]) for item in response["output"]] == [
        ("reasoning", "hm, so"),
        ("message", "Hi"),
    ]
    assert response["output"][0]["summary"] == [] and response["output"][0]["encrypted_content"] is None


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


def test_blanks_before_a_call_are_no_message() -> None:
    assert [item["type"] for item in read(Text(0, "\n\n"), opened(), said("{}"), END)["output"]] == ["function_call"]


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


def test_calls_whose_fragments_come_in_turn_are_open_beside_each_other() -> None:
    response = read(opened(), said("{"), opened(index=1, id_="c2"), said("{", 1), said("}"), said("}", 1), END)
    assert calls_of(response) == [("run", {}), ("run", {})]


def test_a_call_of_a_namespace_has_its_own_name_and_the_namespace() -> None:
    """Codex knows it by no other name."""
    (item,) = read(opened("agents__close"), said("{}"), closed("{}"), END)["output"]
    assert (item["name"], item["namespace"]) == ("close", "agents")


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert calls_of(read(opened(), END)) == [("run", {})]


@pytest.mark.parametrize("id_", ["", "c1"])
def test_calls_have_ids_of_their_own(id_: str) -> None:
    items = read(opened(), said("{}"), opened(index=1, id_=id_), said("{}", 1), END)["output"]
    assert items[0]["call_id"] == "c1" and items[1]["call_id"] == "call_abc_1"


def test_a_custom_tools_input_is_sent_complete() -> None:
    arguments = json.dumps({"input": PATCH})
    given = [said(part) for part in arguments]
    data = stream(opened("apply_patch"), *given, closed(arguments, "apply_patch"), END)
    assert [body["delta"] for body in bodies(data, "custom_tool_call_input.delta")] == [PATCH]
    (item,) = check_stream(data)["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", PATCH)


@pytest.mark.parametrize("arguments", ["", "{}"])
def test_a_custom_tool_may_have_no_input(arguments: str) -> None:
    assert calls_of(read(opened("apply_patch"), said(arguments), END)) == [("apply_patch", "")]


@pytest.mark.parametrize("parts", [[" ", '{"input": "ls"}'], ["l", "s"]], ids=["blanks first", "no JSON"])
@pytest.mark.parametrize("other", [opened(index=1, id_="c2"), Text(0, "b")], ids=["a call", "text"])
def test_a_custom_tools_input_goes_on_behind_what_opens_within_it(parts: list[str], other: Event) -> None:
    response = read(opened("apply_patch"), said(parts[0]), other, said(parts[1]), END)
    assert calls_of(response)[0] == ("apply_patch", "ls")
    assert text_of(response) in ("", "b")


def test_a_number_of_any_size_beside_the_input_is_no_error() -> None:
    arguments = '{"input": "ls", "timeout": 1e999}'
    assert calls_of(read(opened("apply_patch"), said(arguments), END)) == [("apply_patch", "ls")]


def test_a_search_comes_whole() -> None:
    data = stream(opened("tool_search"), said('{"q": '), said('"a"}'), END)
    assert kinds(data)[2:] == ["output_item.added", "output_item.done", "completed"]
    (item,) = check_stream(data)["output"]
    assert (item["type"], item["execution"], item["arguments"]) == ("tool_search_call", "client", {"q": "a"})


def test_half_a_pair_of_surrogates_in_arguments_is_no_character() -> None:
    assert calls_of(read(opened(), said('{"a": "\\ud8'), said('3d"}'), END)) == [("run", {"a": "\ufffd"})]


def test_words_by_which_the_model_says_no_are_a_refusal() -> None:
    writer = ResponsesWriter(options())
    writer.observe_chunk(Chunk({"choices": [{"delta": {"refusal": "I can"}}]}, b""))
    writer.observe_chunk(Chunk({"choices": [{"delta": {"refusal": "not"}}]}, b""))
    (item,) = check_stream(writer.write(END) + writer.end())["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "I cannot"}]


def test_the_refusal_of_another_choice_is_not_the_answers() -> None:
    output = Output(options())
    output.observe_body({"choices": [{"index": 1, "delta": {"refusal": "Never"}}]})
    ended: Any = output.end()[-1]
    assert ended["response"]["output"] == []


def test_an_answer_of_nothing_is_a_success_without_items() -> None:
    response = read(END)
    assert (response["status"], response["output"]) == ("completed", [])


# What was cut off.


@pytest.mark.parametrize("reason", ["length", "content_filter", "repetition"])
@pytest.mark.parametrize("name", ["run", "apply_patch", "tool_search"])
def test_half_a_call_is_never_done(reason: str, name: str) -> None:
    """C4: Codex would run it."""
    cut = closed('{"input": "ls', name)
    data = stream(Text(0, "a"), opened(name), said('{"input": "ls'), cut, Finished(0, reason, None))
    response = check_stream(data)
    assert response["status"] == "incomplete"
    wanted = "content_filter" if reason == "content_filter" else "max_output_tokens"
    assert response["incomplete_details"] == {"reason": wanted}
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert kinds(data).count("output_item.done") == 1 and calls_of(response) == []


def test_half_an_input_that_is_no_json_is_never_done() -> None:
    """Whether such a text is whole, only a reply that ends by itself can tell."""
    given = (opened("apply_patch"), said("*** Begin"))
    for end in (END, Finished(0, "length", None)):
        response = read(*given, end)
        assert calls_of(response) == ([("apply_patch", "*** Begin")] if end is END else [])


def test_a_call_that_was_whole_before_the_cut_is_done() -> None:
    response = read(opened(), said("{}"), Text(0, "a"), Finished(0, "length", None))
    assert calls_of(response) == [("run", {})]
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def full(**fields: Any) -> bool:
    counts = Usage({"prompt_tokens": 90, "completion_tokens": 10})
    last = read(Text(0, "a"), counts, Finished(0, "length", None), **fields)
    if last["status"] == "failed":
        assert last["error"]["code"] == "context_length_exceeded" and last["output"][0]["status"] == "incomplete"
        return True
    assert last["status"] == "incomplete"
    return False


@pytest.mark.parametrize(
    ("limit", "context", "wanted"),
    [
        *((10, None, False), (11, None, True), (None, None, True)),
        *((None, 100, True), (None, 200, False), (50, 100, True), (10, 200, False), (10, 104, True)),
    ],
)
def test_a_full_context_is_told_apart_from_a_limit_of_the_clients(
    limit: int | None, context: int | None, wanted: bool
) -> None:
    assert full(limit=limit, context=context) is wanted


def test_a_call_that_cannot_be_finished_is_a_failure() -> None:
    data = stream(opened(), said('{"a": 1'), END)
    response = check_stream(data)
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
    assert kinds(data)[-1] == "failed" and response["output"][0]["status"] == "incomplete"


def test_a_generation_that_was_given_up_is_a_failure() -> None:
    assert read(Text(0, "a"), Finished(0, "abort", None))["status"] == "failed"


def test_text_that_waited_is_said_before_a_failure() -> None:
    writer = ResponsesWriter(options())
    data = writer.write(Text(0, "<thi")) + writer.error(UpstreamBroken("gone"))
    response = check_stream(data)
    assert text_of(response) == "<thi" and response["output"][0]["status"] == "incomplete"


def test_further_choices_say_nothing() -> None:
    assert Output(options()).take(Text(1, "b")) == []
