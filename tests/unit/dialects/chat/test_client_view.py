"""What a client has of a reply, from the bytes that it got: also of odd ones."""

from __future__ import annotations

from proxy.dialects.chat.client_view import CallView, ChoiceView, ReplyView, view_reply
from tests.support.helpers import calls, chunk, delta, ends, piece, says

DONE = b"data: [DONE]\n\n"


def of_stream(*data: bytes) -> ReplyView:
    return view_reply(b"".join(data), streamed=True)


def test_the_fragments_of_calls_are_put_together_by_their_index() -> None:
    seen = of_stream(
        says("I will.").raw,
        calls(piece(0, "", "read", "a"), piece(1, "", "now", "b")).raw,
        calls(piece(1, "{}"), piece(0, '{"path"')).raw,
        calls(piece(0, ': "p"}')).raw,
        ends("tool_calls").raw,
        DONE,
    )
    only = seen.choices[0]
    assert (only.text, only.finish, seen.error) == ("I will.", "tool_calls", "")
    assert only.ids == ["a", "b"]
    assert only.calls == [("read", '{"path": "p"}'), ("now", "{}")]


def test_of_a_whole_answer_it_is_the_same() -> None:
    call = b'{"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}'
    body = b'{"choices": [{"index": 0, "message": {"content": null, "tool_calls": [%b]}, "finish_reason": "stop"}]}'
    seen = view_reply(body % call, streamed=False)
    assert seen.choices == {0: ChoiceView(tool_calls={0: CallView("a", "now", "{}")}, finish="stop")}


def test_reasoning_has_two_names_and_choices_are_apart() -> None:
    seen = of_stream(chunk(delta(reasoning="so")).raw, chunk(delta(1, reasoning_content="or")).raw)
    assert (seen.choices[0].reasoning, seen.choices[1].reasoning) == ("so", "or")


def test_where_no_index_is_written_the_place_counts_and_values_of_other_types_are_shown() -> None:
    odd = {"function": {"name": "bash", "arguments": {"command": "ls"}}}
    assert of_stream(calls(odd).raw).choices[0].calls == [("bash", '{"command":"ls"}')]


def test_an_error_is_its_message_and_what_is_no_json_says_nothing() -> None:
    assert of_stream(b'data: {"error": {"message": "no", "code": 503}}\n\n').error == "no"
    assert view_reply(b'{"error": "no"}', streamed=False).error == "no"
    assert of_stream(b"data: nope\n\n", b"data: 7\n\n", b": x\n\n").choices == {}
