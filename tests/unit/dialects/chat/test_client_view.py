"""What a client reads from the bytes of a reply, including malformed ones."""

from __future__ import annotations

from proxy.dialects.chat.client_view import view_reply
from tests.support.helpers import calls


def test_a_missing_index_is_the_position_and_object_arguments_are_shown_as_json() -> None:
    odd = {"function": {"name": "bash", "arguments": {"command": "ls"}}}
    assert view_reply(calls(odd).raw, streamed=True).choices[0].calls == [("bash", '{"command":"ls"}')]


def test_an_error_is_its_message_and_invalid_json_is_ignored() -> None:
    assert view_reply(b'data: {"error": {"message": "no", "code": 503}}\n\n', streamed=True).error == "no"
    assert view_reply(b'{"error": "no"}', streamed=False).error == "no"
    assert view_reply(b"data: nope\n\ndata: 7\n\n: x\n\n", streamed=True).choices == {}
