"""What is no HTTP request that could be read: the words, the status and the dialect of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.server.refusals import CHAT_PATHS, StatusReader, answer
from proxy.web.routes import API

KEY = "Key-0123456789-abcdefghijklmnopqrstuvwxyz"
VERSION = b"Anthropic-Version: 2023-06-01\r\n"


def told(status: int, fault: str, head: bytes) -> tuple[int, dict[str, Any]]:
    """The status of the answer, and its body; it is whole, and the connection ends with it."""
    said, _, body = answer(status, fault, head).partition(b"\r\n\r\n")
    line, *headers = said.decode().split("\r\n")
    assert {*headers} == {"Connection: close", "Content-Type: application/json", f"Content-Length: {len(body)}"}
    return int(line.split(" ")[1]), json.loads(body)


def request(path: str, more: bytes = b"") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode() + more + b"\r\n"


@pytest.mark.parametrize("client", ["", "/for/pi"])
@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/completions?a=b", "chat"),
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", "messages"),
        ("/v1/responses", "responses"),
        ("/v1/responses/resp_1/cancel", "responses"),
        ("/v1/messagesx", "chat"),
        ("/elsewhere", "chat"),
    ],
)
def test_it_is_told_in_the_words_of_its_path(client: str, path: str, dialect: str) -> None:
    status, body = told(400, "InvalidHeader", request(client + path))
    assert status == 400 and "cannot be read" in body["error"]["message"]
    if dialect == "messages":
        assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error"
    else:
        assert body["error"]["code"] == (None if dialect == "responses" else 400)


@pytest.mark.parametrize(
    ("head", "messages"),
    [
        (request("/elsewhere", VERSION), True),
        (request("/v1/models", VERSION.lower()), True),
        (request("/v1/chat/completions", VERSION), False),
        (b"no request\r\n" + VERSION, True),
        (b"", False),
        (request("/x?anthropic-version: 1"), False),
    ],
    ids=["another path", "models", "a chat", "no path", "nothing", "in the path"],
)
def test_where_the_path_decides_nothing_the_header_does(head: bytes, messages: bool) -> None:
    assert ("type" in told(400, "InvalidRequestLine", head)[1]) is messages


@pytest.mark.parametrize(
    ("status", "as_messages", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (414, 413, "request_too_large"),
        (431, 413, "request_too_large"),
        (417, 400, "invalid_request_error"),
        (501, 400, "invalid_request_error"),
        (500, 500, "api_error"),
    ],
)
def test_messages_has_not_all_of_the_statuses(status: int, as_messages: int, kind: str) -> None:
    got, body = told(status, "LimitRequestLine", request("/v1/messages"))
    assert (got, body["error"]["type"]) == (as_messages, kind)
    assert told(status, "LimitRequestLine", request("/v1/responses"))[0] == status


@pytest.mark.parametrize(
    ("status", "fault", "words"),
    [
        (431, "LongHead", "max_request_head"),
        (400, "Unheard", "no HTTP/1.1 that can be read"),
        (500, "Unheard", "its log says why"),
        (501, "UnsupportedTransferCoding", "Transfer-Encoding is not known"),
        (599, "Unheard", "its log says why"),
    ],
)
def test_what_is_wrong_is_said_and_what_to_do(status: int, fault: str, words: str) -> None:
    got, body = told(status, fault, request("/v1/chat/completions"))
    assert got == status and words in body["error"]["message"]
    assert body["error"]["type"] == ("server_error" if status >= 500 else "invalid_request_error")


@pytest.mark.parametrize("head", [f"POST /v1/messages?key={KEY} HTTP/1.1".encode(), f"{KEY}\r\nX: {KEY}".encode()])
def test_nothing_of_the_request_is_quoted(head: bytes) -> None:
    assert KEY.encode() not in answer(400, "InvalidRequestLine", head)


def test_the_status_is_that_of_gunicorns_own_answer() -> None:
    reader = StatusReader()
    assert (reader.status, reader.gettimeout()) == (400, 0.0)
    reader.sendall(b"HTTP/1.1 414 URI Too Long\r\nConnection: close\r\n\r\n")
    assert reader.status == 414


def test_it_knows_the_paths_that_the_proxy_has() -> None:
    """It can import nothing of the package, so it has a list of its own."""
    chats = {route.path for route in API if not route.path.startswith(("/v1/messages", "/v1/responses", "/v1/models"))}
    assert chats == set(CHAT_PATHS)
