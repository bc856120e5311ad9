"""The blocks of a message's content as parts of a chat message (F83, F94)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messages_ask import (
    PICTURE,
    PICTURE_PART,
    PIXEL,
    ask,
    assistant,
    call,
    lost,
    messages,
    refusal,
    result,
    sent,
    text,
    user,
)

PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
FROM_CALL = text("From the result of the call 1:")


def content(*blocks: Any) -> Any:
    """The chat content of a user's blocks."""
    (message,) = messages(user(*blocks))
    assert message["role"] == "user"
    return message["content"]


def results(*blocks: Any) -> list[Any]:
    """What follows the assistant's call, for these blocks of the user's."""
    return messages(user("hi"), assistant(call("toolu_1"), call("toolu_2")), user(*blocks))[2:]


def tool(said: str, id_: str = "1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": said}


def test_texts_are_one_string() -> None:
    assert content("a") == "a"
    assert content(text("a"), text(""), text("b\n")) == "a\n\nb\n"


def test_with_pictures_the_order_stays() -> None:
    assert content(text("a"), PICTURE, text("b"), text("c"), PICTURE) == [
        *(text("a"), PICTURE_PART, text("b"), text("c"), PICTURE_PART)
    ]


@pytest.mark.parametrize("url", ["http://a.example/b.png", "HTTPS://a.example/?x=1"])
def test_a_picture_by_its_url(url: str) -> None:
    block = {"type": "image", "source": {"type": "url", "url": url}}
    assert content(block) == [{"type": "image_url", "image_url": {"url": url}}]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "data:image/png;base64,AA", "a.png", "//a.example/b"])
def test_no_other_urls_reach_the_server(url: str) -> None:
    """A file: URL would have the model server read its own disk."""
    body = ask(user({"type": "image", "source": {"type": "url", "url": url}}))
    assert refusal(body).startswith("messages.0.content.0.source.url: must begin with http://")


def test_a_document_with_all_that_is_said_of_it() -> None:
    block = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "body"},
        "title": "A",
        "context": "from B",
        "citations": {"enabled": True},
    }
    assert content(block) == "Title: A\nContext: from B\n\nbody"
    assert lost(sent(ask(user(block)))) == {"messages[].content[].citations": 1}


def test_a_document_of_blocks() -> None:
    inner = [text("a"), PICTURE, {**text("b"), "cache_control": {"type": "ephemeral"}}]
    block = {"type": "document", "source": {"type": "content", "content": inner}}
    assert content(block) == [text("a"), PICTURE_PART, text("b")]
    assert content({"type": "document", "source": {"type": "content", "content": "plain"}}) == "plain"
    assert lost(sent(ask(user(block)))) == {"messages[].content[].source.content[].cache_control": 1}


@pytest.mark.parametrize("inner", [result(), {"type": "document", "source": PDF}, {"type": "thinking"}])
def test_a_document_holds_texts_and_pictures_only(inner: dict[str, Any]) -> None:
    body = ask(user({"type": "document", "source": {"type": "content", "content": [inner]}}))
    assert refusal(body).startswith(
        f"messages.0.content.0.source.content.0.type: '{inner['type']}' cannot stand here; this takes text and image"
    )


def test_a_pdf() -> None:
    data = "data:application/pdf;base64,JVBERg=="
    assert content({"type": "document", "source": PDF, "title": "B.pdf"}, text("what is it?")) == [
        text("Title: B.pdf"),
        {"type": "file", "file": {"filename": "B.pdf", "file_data": data}},
        text("what is it?"),
    ]


@pytest.mark.parametrize(
    ("said", "out"),
    [
        ("done", "done"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([text("a"), text("b")], "a\n\nb"),
        ([text("")], ""),
        ([{"type": "tool_reference", "tool_name": "grep"}], "The tool grep is available."),
        ([{"type": "search_result", "title": "A", "source": "s", "content": [text("b")]}], "A\ns\n\nb"),
        (
            [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "title": "T"}],
            "Title: T\n\nd",
        ),
    ],
)
def test_a_result_is_one_text(said: Any, out: str) -> None:
    """F83: also where there is nothing, because servers want a string."""
    assert results(result(said)) == [tool(out)]


@pytest.mark.parametrize(
    ("said", "out"),
    [
        ("no such file", "Error: no such file"),
        ("Error: no such file", "Error: no such file"),
        ("  ERROR no such file", "  ERROR no such file"),
        ("<tool_use_error>no</tool_use_error>", "<tool_use_error>no</tool_use_error>"),
        ("error:no", "error:no"),
        ("\nError\nno", "\nError\nno"),
        ("error", "error"),
        ("errors.txt: 3 lines", "Error: errors.txt: 3 lines"),
        ("Error_count: 0", "Error: Error_count: 0"),
        ("error-log", "Error: error-log"),
        ("an error", "Error: an error"),
        ("", "Error"),
        ("no\n", "Error: no\n"),
        ([text("a"), text("b")], "Error: a\n\nb"),
    ],
)
def test_a_result_that_failed_says_so(said: Any, out: str) -> None:
    """F94: a tool message has no other place for it."""
    assert results(result(said, is_error=True)) == [tool(out)]


@pytest.mark.parametrize("flag", [False, None])
def test_a_result_that_did_not_fail_stays(flag: Any) -> None:
    assert results(result("no such file", is_error=flag)) == [tool("no such file")]


def test_results_keep_their_order_and_stand_before_all_else() -> None:
    """Servers want each call answered before anything else is said."""
    first, second = result("one", "toolu_2"), result("two", "toolu_1")
    assert results(text("before"), first, text("after"), second) == [
        tool("one", "2"),
        tool("two", "1"),
        {"role": "user", "content": "before\n\nafter"},
    ]


def test_pictures_of_results_follow_behind_them() -> None:
    """F94: a tool message holds text only; which call they are of is said."""
    blocks = [result([text("see"), PICTURE]), text("go on"), result([PICTURE], "toolu_2")]
    second = {**FROM_CALL, "text": "From the result of the call 2:"}
    assert results(*blocks) == [
        tool("see"),
        tool("", "2"),
        {"role": "user", "content": [FROM_CALL, PICTURE_PART, second, PICTURE_PART, text("go on")]},
    ]


def test_a_pdf_of_a_result_follows_behind_it() -> None:
    found = results(result([{"type": "document", "source": PDF}]))
    assert found[0] == tool("")
    assert [part["type"] for part in found[1]["content"]] == ["text", "file"]


@pytest.mark.parametrize(
    ("id_", "server"),
    [("toolu_call_9", "call_9"), ("toolu_b64-ZnVuY3Rpb25zLmJhc2g6MA", "functions.bash:0"), ("call_9", "call_9")],
)
def test_the_ids_are_the_servers_again(id_: str, server: str) -> None:
    """F8, C5: the call and its result, and what is said of its pictures."""
    _, called, answered, shown = messages(user("hi"), assistant(call(id_)), user(result([PICTURE], id_)))
    assert called["tool_calls"][0]["id"] == answered["tool_call_id"] == server
    assert shown["content"][0]["text"] == f"From the result of the call {server}:"


def test_what_is_lost_in_results_is_counted_as_theirs() -> None:
    block = result([{**text("a"), "cache_control": {"type": "ephemeral"}, "new": 1}])
    assert lost(sent(ask(user("hi"), assistant(call()), user(block)))) == {
        "messages[].content[].content[].cache_control": 1,
        "messages[].content[].content[].new": 1,
    }


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("a", ": must be an object"),
        ({}, ".type: Field required"),
        ({"type": 1}, ".type: must be a string"),
        ({"type": "audio"}, ".type: 'audio' cannot stand here; this takes text, image, document and search_result"),
        ({"type": "text"}, ".text: Field required"),
        ({"type": "text", "text": 1}, ".text: must be a string"),
        ({"type": "image"}, ".source: Field required"),
        ({"type": "image", "source": "x"}, ".source: must be an object"),
        ({"type": "image", "source": {"data": "x"}}, ".source.type: Field required"),
        ({"type": "image", "source": {"type": "text"}}, ".source.type: 'text' is none of base64, url"),
        ({"type": "image", "source": {"type": "base64", "data": "x"}}, ".source.media_type: Field required"),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "text/html", "data": "x"}},
            ".source.media_type: 'text/html' is not image/",
        ),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}, ".source.data: Field required"),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, ".source: this server keeps no files"),
        ({"type": "document", "source": {"type": "magic"}}, ".source.type: 'magic' is none of base64, text, content"),
        ({"type": "document", "source": PDF, "title": 1}, ".title: must be a string"),
        ({"type": "document", "source": PDF, "context": []}, ".context: must be a string"),
        (
            {"type": "document", "source": {**PDF, "media_type": "text/plain"}},
            ".source.media_type: 'text/plain' is not application/pdf",
        ),
        ({"type": "document", "source": {"type": "text", "data": 3}}, ".source.data: must be a string"),
        ({"type": "document", "source": {"type": "content"}}, ".source.content: Field required"),
        ({"type": "search_result", "title": "a", "source": "b"}, ".content: Field required"),
        ({"type": "search_result", "title": "a", "content": []}, ".source: Field required"),
        (
            {"type": "search_result", "title": "a", "source": "b", "content": [PICTURE]},
            ".content.0.type: 'image' cannot stand here; this takes text",
        ),
        ({"type": "tool_result", "content": "x"}, ".tool_use_id: Field required"),
        ({"type": "tool_result", "tool_use_id": "a", "content": 1}, ".content: must be a string or a list of blocks"),
        ({"type": "tool_result", "tool_use_id": "a", "is_error": "no"}, ".is_error: must be true or false"),
        (result([result()]), ".content.0.type: 'tool_result' cannot stand here"),
        (result([{"type": "tool_reference"}]), ".content.0.tool_name: Field required"),
        (call(), ".type: 'tool_use' cannot stand here"),
        ({"type": "thinking", "thinking": "a"}, ".type: 'thinking' cannot stand here"),
    ],
)
def test_what_is_no_block_of_a_users(block: Any, words: str) -> None:
    assert refusal(ask(user(text("a"), block))).startswith(f"messages.0.content.1{words}")


def test_data_is_never_repeated_in_an_error() -> None:
    secret = "c2VjcmV0" * 100
    body = ask(user({"type": "image", "source": {"type": "base64", "media_type": secret, "data": PIXEL}}))
    assert secret[:60] not in refusal(body)
