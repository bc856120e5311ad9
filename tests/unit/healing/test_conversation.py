"""Messages are gone through without changing them: what stays the same is the very same object."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.healing.conversation import (
    Talk,
    blocks_of,
    calls_of,
    joined,
    on_calls,
    on_each,
    on_messages,
    parts_of,
    replaced,
    role_of,
    text_of,
    traits_of,
)

CALL: Any = {"id": "a", "type": "function", "function": {"name": "read"}}
USER: Any = {"role": "user", "content": "Hi"}
CALLED: Any = {"role": "assistant", "content": None, "tool_calls": [CALL, 7]}
RESULT: Any = {"role": "tool", "tool_call_id": "a", "content": "done"}
IMAGE: Any = {"type": "image_url", "image_url": {"url": "data:,"}}
BODY: Any = {"messages": [USER, CALLED, RESULT]}


def text(said: str) -> Any:
    return {"type": "text", "text": said}


def test_roles_and_calls_are_read_of_whatever_a_client_sends() -> None:
    odd: list[JsonObject] = [{}, {"role": 7}]
    assert [role_of(each) for each in (USER, *odd)] == ["user", "", ""]
    assert [calls_of(each) for each in (CALLED, {**CALLED, "role": "user"}, USER)] == [[CALL], [], []]


@pytest.mark.parametrize("messages", [None, [], 7, [USER, 7], [[]]])
def test_a_body_whose_messages_are_none_stays_as_it_is(messages: Any) -> None:
    body = {"messages": messages}
    assert on_messages(lambda _: [])(body) is body


def say_x(message: JsonObject) -> JsonObject:
    """What the user says becomes `x`."""
    return {**message, "content": "x"} if message is USER else message


def test_only_what_changes_is_new() -> None:
    assert on_messages(lambda messages: [*messages])(BODY) is BODY
    changed: Any = on_each(say_x)(BODY)
    assert changed is not BODY and changed["messages"][0]["content"] == "x"
    assert changed["messages"][1] is CALLED and changed["messages"][2] is RESULT
    assert USER["content"] == "Hi"
    assert replaced(CALLED, "tool_calls", [CALL, CALLED["tool_calls"][1]]) is CALLED


def test_calls_are_changed_one_by_one_and_what_is_none_stays() -> None:
    changed: Any = on_calls(lambda body: lambda call: {**call, "id": "b"})(BODY)
    assert changed["messages"][1]["tool_calls"] == [{**CALL, "id": "b"}, 7]
    assert on_calls(lambda body: lambda call: call)(BODY) is BODY


def test_traits_say_what_stands_in_the_messages() -> None:
    roles, keys, types = (
        {"user", "assistant", "tool"},
        {"role", "content", "tool_calls", "tool_call_id"},
        {"str", "NoneType"},
    )
    assert traits_of(BODY) == {"any"} | roles | keys | types
    assert traits_of({}) == {"any"}


@pytest.mark.parametrize(
    ("content", "said", "parts"),
    [
        ("a", "a", [text("a")]),
        ("", "", []),
        (None, "", []),
        ([text("a"), text("b")], "a\nb", [text("a"), text("b")]),
        ([text("a"), IMAGE], None, [text("a"), IMAGE]),
        ([text("a"), 7], None, [text("a"), 7]),
        ({"type": "text"}, None, []),
    ],
)
def test_a_content_is_text_or_parts(content: Any, said: str | None, parts: list[Any]) -> None:
    assert (text_of(content), parts_of(content)) == (said, parts)


def test_contents_are_joined_as_text_where_all_are() -> None:
    assert joined("a", None, [text("b")]) == "a\n\nb"
    assert joined("a", [IMAGE], "b") == [text("a"), IMAGE, text("b")]


def test_a_conversation_is_said_anew() -> None:
    talk = Talk()
    assert talk.last == ""
    talk.say(USER)
    talk.say(RESULT)
    talk.add("more")
    talk.add([text("still")])
    assert talk.last == "tool"
    first, second = talk.messages()
    assert first is USER and second == {**RESULT, "content": "done\n\nmore\n\nstill"}


def test_a_turn_of_calls_has_all_that_follows_it() -> None:
    said: Any = {"role": "assistant", "content": "Done."}
    blocks = blocks_of([USER, CALLED, RESULT, USER, said, USER])
    assert [[*block.messages()] for block in blocks] == [[USER], [CALLED, RESULT, USER], [said], [USER]]
    assert [block.ids for block in blocks] == [[], ["a"], [], []]
