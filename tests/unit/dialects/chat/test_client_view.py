"""What a client has of a reply, from the bytes that it got: also of odd ones."""

from __future__ import annotations

from proxy.dialects.chat.client_view import view_reply
from tests.support.helpers import calls


def test_where_no_index_is_written_the_place_counts_and_values_of_other_types_are_shown() -> None:
    odd = {"function": {"name": "bash", "arguments": {"command": "ls"}}}
    assert view_reply(calls(odd).raw, streamed=True).choices[0].calls == [("bash", '{"command":"ls"}')]


def test_an_error_is_its_message_and_what_is_no_json_says_nothing() -> None:
    assert view_reply(b'data: {"error": {"message": "no", "code": 503}}\n\n', streamed=True).error == "no"
    assert view_reply(b'{"error": "no"}', streamed=False).error == "no"
    assert view_reply(b"data: nope\n\ndata: 7\n\n: x\n\n", streamed=True).choices == {}
