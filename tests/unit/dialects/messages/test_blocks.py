"""The engine's events as blocks of a Messages stream: in order, one open at a time (F53, F93), whatever comes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.codec.json_text import JsonObject
from proxy.dialects.messages.blocks import Blocks, ReplyOptions, usage
from proxy.dialects.messages.writer import MessagesWriter, assemble
from proxy.engine.events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
    Usage,
)
from proxy.errors import LimitExceeded, UpstreamBroken
from tests.support.messages_checker import check_stream

ASKED = ReplyOptions("claude-x", frozenset(("END", "\n\nHuman:")), "abc-1")


def closed(index: int, arguments: str = "{}") -> CallClosed:
    return CallClosed(0, index, Call("c", "f", arguments), ())


def opened(index: int, name: str = "f", id_: str | None = None) -> CallOpened:
    return CallOpened(0, index, f"call_{index}" if id_ is None else id_, name)


def finished(reason: str = "stop", **entry: Any) -> Finished:
    chunk = Chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": reason, **entry}]}, b"")
    return Finished(0, reason, chunk)


def stream(events: Iterable[Event], *, seen: JsonObject | None = None) -> bytes:
    """The bytes of a stream that the server finished."""
    writer = MessagesWriter(Blocks(ASKED))
    writer.observe_chunk(Chunk(seen or {"id": "chatcmpl-42"}, b""))
    said = b"".join(map(writer.write, events))
    try:
        return said + writer.end()
    except UpstreamBroken as error:
        return said + writer.error(error)


def message(*events: Event, seen: JsonObject | None = None) -> dict[str, Any]:
    """What a strict client makes of a finished stream."""
    return check_stream(stream(events, seen=seen))


def content(*events: Event) -> list[tuple[str, Any]]:
    """The blocks of a finished stream: kind and what is in it."""
    made = message(*events)["content"]
    return [(block["type"], block[{"tool_use": "input"}.get(block["type"], block["type"])]) for block in made]


def test_text_thinking_and_calls_are_blocks_in_their_order() -> None:
    given_: list[Event] = [
        *(Reasoning(0, "Hm"), Reasoning(0, ", so."), Text(0, "\n\nI will"), Text(0, " write.\n")),
        *(opened(0), CallArguments(0, 0, '{"a": '), CallArguments(0, 0, "1}")),
        *(opened(1), CallArguments(0, 1, "{}"), closed(0, '{"a": 1}'), closed(1), finished("tool_calls")),
    ]
    made = message(*given_)
    assert content(*given_) == [
        ("thinking", "Hm, so."),
        ("text", "I will write.\n"),
        ("tool_use", {"a": 1}),
        ("tool_use", {}),
    ]
    assert [block["id"] for block in made["content"][2:]] == ["toolu_call_0", "toolu_call_1"]
    assert (made["stop_reason"], made["id"], made["model"]) == ("tool_use", "msg_42", "claude-x")


def test_a_call_streams_as_it_comes() -> None:
    writer = MessagesWriter(Blocks(ASKED))
    assert b'"type":"tool_use","id":"toolu_call_0","name":"f","input":{}' in writer.write(opened(0))
    assert b'"partial_json":"{\\"a\\""' in writer.write(CallArguments(0, 0, '{"a"'))
    assert writer.write(CallArguments(0, 0, "")) == b""


def test_what_comes_while_a_call_is_not_whole_waits_behind_it() -> None:
    """Fragments of two calls may take turns (F47), and text may come between (F53)."""
    events: list[Event] = [
        *(opened(0), CallArguments(0, 0, '{"a": ')),
        *(opened(1), CallArguments(0, 1, '{"b": '), Text(0, "text"), CallArguments(0, 0, "1}")),
        *(CallArguments(0, 1, "2}"), closed(0), closed(1), finished("tool_calls")),
    ]
    assert content(*events) == [("tool_use", {"a": 1}), ("tool_use", {"b": 2}), ("text", "text")]


def test_the_next_call_streams_as_soon_as_the_one_before_is_whole() -> None:
    writer = MessagesWriter(Blocks(ASKED))
    writer.write(opened(0))
    writer.write(CallArguments(0, 0, '{"a": 1}'))
    assert b'"content_block_stop","index":0' in writer.write(opened(1))
    assert b"partial_json" in writer.write(CallArguments(0, 1, "{"))


def test_blanks_behind_a_finished_call_are_nothing() -> None:
    events: list[Event] = [opened(0), CallArguments(0, 0, "{}"), Text(0, "x"), CallArguments(0, 0, " \n")]
    events.append(finished("tool_calls"))
    assert content(*events) == [("tool_use", {}), ("text", "x")]


def test_arguments_of_no_call_are_not_lost() -> None:
    """Without tools nothing is repaired: what a server sends then may belong to nothing."""
    assert content(CallArguments(0, 3, '{"a"'), finished()) == [("text", '{"a"')]


def test_a_call_that_is_opened_again_is_one() -> None:
    events: list[Event] = [opened(0), CallArguments(0, 0, "{"), opened(0), CallArguments(0, 0, "}")]
    events.append(finished("tool_calls"))
    assert content(*events) == [("tool_use", {})]


def test_calls_without_ids_get_their_own() -> None:
    calls = [(opened(index, id_=""), CallArguments(0, index, "{}")) for index in (0, 1)]
    made = message(*calls[0], *calls[1], finished("tool_calls"))
    assert [block["id"] for block in made["content"]] == ["toolu_42_0", "toolu_42_1"]


def test_calls_with_one_id_get_two() -> None:
    calls = [(opened(index, id_="c"), CallArguments(0, index, "{}")) for index in (0, 1)]
    made = message(*calls[0], *calls[1], finished("tool_calls"))
    assert [block["id"] for block in made["content"]] == ["toolu_c", "toolu_42_1"]


@pytest.mark.parametrize("blank", ["", "\n", " \n\n"])
def test_no_block_is_empty(blank: str) -> None:
    """The API refuses blocks without text when a client sends them back."""
    events: list[Event] = [Reasoning(0, blank), Text(0, blank), opened(0), CallArguments(0, 0, "{}"), Text(0, blank)]
    assert content(*events, finished("tool_calls")) == [("tool_use", {})]
    assert content(Text(0, blank), Text(0, "a"), finished()) == [("text", f"{blank}a")]
    assert content(Reasoning(0, "r"), Text(0, blank), finished()) == [("thinking", "r")]


def test_a_reply_that_says_nothing_is_a_message_without_blocks() -> None:
    made = message(finished())
    assert (made["content"], made["stop_reason"]) == ([], "end_turn")


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        (finished("stop"), ("end_turn", None)),
        (finished("length"), ("max_tokens", None)),
        (finished("content_filter"), ("refusal", None)),
        (finished("tool_calls"), ("end_turn", None)),
        (finished("stop", stop_reason="END"), ("stop_sequence", "END")),  # vLLM
        (finished("stop", stop_reason=151645), ("end_turn", None)),  # a token of the model's own
        (finished("stop", stop_reason="other"), ("end_turn", None)),
        (finished("stop", matched_stop="\n\nHuman:"), ("stop_sequence", "\n\nHuman:")),  # SGLang
        (finished("length", stop_reason="END"), ("max_tokens", None)),
    ],
    ids=str,
)
def test_the_stop_reason_is_the_servers(finish: Finished, stop: tuple[str, str | None]) -> None:
    made = message(Text(0, "a"), finish)
    assert (made["stop_reason"], made["stop_sequence"]) == stop


def test_a_reply_with_calls_stops_for_them() -> None:
    whole: list[Event] = [opened(0), CallArguments(0, 0, "{}")]
    assert message(*whole, finished("stop", stop_reason="END"))["stop_reason"] == "tool_use"
    half: list[Event] = [opened(0), CallArguments(0, 0, '{"a')]
    assert message(*half, finished("length"))["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("reason", ["abort", "error", "timeout", "cancelled"])
def test_a_generation_that_the_server_gave_up_is_no_success(reason: str) -> None:
    with pytest.raises(UpstreamBroken, match=reason):
        _ended(reason)
    data = stream([Text(0, "a"), finished(reason)])
    assert check_stream(data)["error"]["type"] == "api_error"


def _ended(reason: str) -> list[JsonObject]:
    blocks = Blocks(ASKED)
    blocks.take(finished(reason))
    return blocks.end()


@pytest.mark.parametrize("arguments", ['{"a": 1', "[", '{"a": 1}{"a": 1}', '{"a": 1} x', "null"])
def test_a_call_that_is_no_object_at_the_end_is_no_success(arguments: str) -> None:
    """Clients read half an object as a whole one; where nothing is repaired one may come (C4)."""
    data = stream([opened(0), CallArguments(0, 0, arguments), finished("tool_calls")])
    assert b"event: error" in data
    assert b"message_delta" not in data
    assert b"message_stop" not in data


@pytest.mark.parametrize("arguments", [(), ("",), (" ",)])
def test_a_call_without_arguments_has_empty_ones(arguments: tuple[str, ...]) -> None:
    events: list[Event] = [opened(0), *(CallArguments(0, 0, fragment) for fragment in arguments)]
    assert content(*events, finished("tool_calls")) == [("tool_use", {})]


def test_in_a_whole_message_a_call_that_was_cut_is_text() -> None:
    for arguments in ("", '{"a": 1'):
        blocks = Blocks(ASKED)
        events: list[Event] = [opened(0, "f"), CallArguments(0, 0, arguments), finished("length")]
        whole = assemble([*(given for event in events for given in blocks.take(event)), *blocks.end()])
        assert (whole["content"], whole["stop_reason"]) == ([{"type": "text", "text": f"f{arguments}"}], "max_tokens")


def test_usage_is_cumulative_and_counts_nothing_twice() -> None:
    """Cached tokens are part of `prompt_tokens` (F62)."""
    counts: JsonObject = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    first: JsonObject = {"id": "a", "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}}
    made = message(Text(0, "a"), finished(), Usage(counts), seen=first)
    assert made["usage"] == {
        "input_tokens": 36,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 64,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    data = stream([Text(0, "a"), finished(), Usage(counts)], seen=first)
    assert b'"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}' in data


@pytest.mark.parametrize("odd", [{}, {"prompt_tokens": None}, {"prompt_tokens": -1, "prompt_tokens_details": 3}])
def test_usage_that_the_server_does_not_give_is_zero(odd: JsonObject) -> None:
    assert usage(odd) == {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    }


def test_counts_that_say_nothing_take_none_back() -> None:
    first: JsonObject = {"id": "a", "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    assert message(Text(0, "a"), finished(), Usage({}), seen=first)["usage"]["input_tokens"] == 9


def test_a_full_context_is_no_end_of_turn() -> None:
    """Mistral's word for it."""
    assert message(Text(0, "a"), finished("model_length"))["stop_reason"] == "max_tokens"


def test_leading_blanks_of_a_text_stay() -> None:
    assert content(Text(0, "    "), Text(0, "x = 1"), finished()) == [("text", "    x = 1")]


def test_calls_that_take_turns_are_not_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two long calls, fragment by fragment: what is read of them stays linear (C7)."""
    read: list[int] = []

    def counting(text: str) -> bool:
        read.append(len(text))
        return False

    monkeypatch.setattr("proxy.dialects.messages.blocks.is_object_text", counting)
    blocks = Blocks(ASKED)
    for index in (0, 1):
        blocks.take(opened(index))
    for _ in range(5000):
        for index in (0, 1):
            blocks.take(CallArguments(0, index, "0123456789" * 4))
    assert sum(read) < 20 * 5000 * 40


def test_calls_that_wait_behind_another_are_limited() -> None:
    """Where nothing is repaired nobody else counts them."""
    blocks = Blocks(ASKED)
    blocks.take(opened(0))
    with pytest.raises(LimitExceeded, match="max_calls"):
        for index in range(1, 3000):
            blocks.take(opened(index))


def test_words_of_refusal_are_text() -> None:
    """OpenAI's own field for them."""
    chunk: JsonObject = {"id": "a", "choices": [{"index": 0, "delta": {"refusal": "No."}}]}
    made = message(finished(), seen=chunk)
    assert (made["content"], made["stop_reason"]) == ([{"type": "text", "text": "No."}], "refusal")
    assert message(Text(0, "So: "), finished(), seen=chunk)["content"] == [{"type": "text", "text": "So: No."}]
    others: JsonObject = {"id": "a", "choices": [{"index": 1, "delta": {"refusal": "No.", "reasoning": "hm"}}]}
    assert message(Text(0, "Hi"), finished(), seen=others)["content"] == [{"type": "text", "text": "Hi"}]


def test_further_choices_are_none() -> None:
    assert content(Text(0, "a"), Text(1, "b"), Finished(1, "length", None), finished()) == [("text", "a")]


def test_what_passes_is_said_anew() -> None:
    passed = Unchanged(b"data: {}\n\n", (Reasoning(0, "r"), Text(0, "t"), finished()))
    assert content(passed) == [("thinking", "r"), ("text", "t")]


def test_a_failure_is_raised() -> None:
    with pytest.raises(UpstreamBroken):
        Blocks(ASKED).take(Failed(UpstreamBroken("no")))


def test_an_error_ends_the_open_block_first() -> None:
    for event in (Text(0, "a"), Reasoning(0, "a"), opened(0)):
        writer = MessagesWriter(Blocks(ASKED))
        data = writer.write(event) + writer.error(UpstreamBroken("it broke off"))
        assert check_stream(data)["error"] == {"type": "api_error", "message": "it broke off"}
        assert b"content_block_stop" in data


def test_claude_code_keeps_its_block_open() -> None:
    """It takes a block that ended for good, whatever follows, and asks again by itself while none has."""
    for event in (Text(0, "a"), Reasoning(0, "a"), opened(0)):
        writer = MessagesWriter(Blocks(ReplyOptions("claude-x", leave_open=True)))
        data = writer.write(event) + writer.error(UpstreamBroken("it broke off"))
        assert check_stream(data, left_open=True)["error"]["message"] == "it broke off"
        assert b"content_block_stop" not in data


def test_an_error_before_anything_is_all_there_is() -> None:
    data = MessagesWriter(Blocks(ASKED)).error(UpstreamBroken("no"))
    assert data == b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no"}}\n\n'


def test_what_waited_for_a_marker_goes_before_an_error() -> None:
    writer = MessagesWriter(Blocks(ASKED))
    data = writer.write(Text(0, "<thi")) + writer.error(UpstreamBroken("no"))
    assert b'"text":"<thi"' in data
    check_stream(data)


def test_a_call_that_waited_behind_a_half_one_does_not_leave_with_an_error() -> None:
    writer = MessagesWriter(Blocks(ASKED))
    events: list[Event] = [opened(0), CallArguments(0, 0, '{"a"'), opened(1), CallArguments(0, 1, "{}")]
    data = b"".join(map(writer.write, events)) + writer.error(UpstreamBroken("no"))
    assert data.count(b"event: content_block_start") == 1


FRAGMENTS = st.sampled_from(["{", "}", '"a": 1', '{"a": "', '"}', " ", "{}", ""])
TEXTS = st.sampled_from(
    ["a", " ", "\n", "<think>", "</think>", "<th", "ink>", "b c", "<", "<|channel|>final<|message|>"]
)
INDEXES = st.integers(0, 2)
EVENTS = st.lists(
    st.one_of(
        st.builds(Text, st.just(0), TEXTS),
        st.builds(Reasoning, st.just(0), TEXTS),
        st.builds(opened, INDEXES),
        st.builds(CallArguments, st.just(0), INDEXES, FRAGMENTS),
        st.builds(closed, INDEXES),
    ),
    max_size=14,
)


def strict(events: list[Event]) -> list[Event]:
    """What an engine says: each call is opened once, and closed with whole arguments."""
    texts: dict[int, str] = {}
    kept: list[Event] = []
    for event in events:
        if isinstance(event, CallOpened):
            if event.index in texts:
                continue
            texts[event.index] = ""
        elif isinstance(event, CallArguments):
            whole = _is_object(texts.get(event.index))
            if event.index not in texts or (whole and event.fragment.strip()):
                continue
            texts[event.index] += event.fragment
        elif isinstance(event, CallClosed):
            continue
        kept.append(event)
    # An engine completes what it opened.
    for index, text in texts.items():
        if not _is_object(text):
            kept = [event for event in kept if getattr(event, "index", None) != index]
    return kept


def _is_object(text: str | None) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


@given(EVENTS)
@settings(max_examples=400)
def test_every_stream_of_the_engine_is_one_that_clients_take(events: list[Event]) -> None:
    events = strict(events)
    check_stream(stream([*events, finished()]))


@given(EVENTS, st.integers(0, 14))
@settings(max_examples=200)
def test_every_stream_may_end_in_an_error(events: list[Event], after: int) -> None:
    writer = MessagesWriter(Blocks(ASKED))
    check_stream(b"".join(map(writer.write, strict(events)[:after])) + writer.error(UpstreamBroken("no")))


@given(EVENTS)
@settings(max_examples=200)
def test_a_whole_message_is_what_the_stream_builds(events: list[Event]) -> None:
    events = [*strict(events), finished()]
    blocks = Blocks(ASKED)
    blocks.observe_body({"id": "chatcmpl-42"})
    whole = assemble([*(given for event in events for given in blocks.take(event)), *blocks.end()])
    streamed = check_stream(stream(events))
    assert whole["content"] == streamed["content"]
    assert whole["stop_reason"] == streamed["stop_reason"]
