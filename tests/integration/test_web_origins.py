"""Web pages: which pages may send requests, under which host name, and the CORS headers that browsers receive."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Front, Inside
from tests.support.messages_ask import ask
from tests.support.rows import rows
from tests.support.scripted import chat, text_reply, whole_reply

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


BAD = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Referer": "http://evil.example/a"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Origin": "http://rebound.example:8003", "Host": "rebound.example:8003"},
    {"Origin": "http://localhost", "Host": "rebound.example:8003"},
]


@pytest.mark.parametrize("given", BAD)
@pytest.mark.parametrize(("path", "body"), [(CHAT, chat(stream=False)), (MESSAGES, ask())], ids=["chat", "messages"])
def test_a_foreign_page_cannot_use_the_model(front: Front, given: dict[str, str], path: str, body: Any) -> None:
    """`text/plain` needs no preflight request."""
    front.upstream.play(whole_reply("a"))
    status, headers, said = front.proxy.ask("POST", path, body, Content_Type="text/plain", **given)
    assert status == 403 and front.upstream.seen == [] and front.upstream.asked == []
    assert "access-control-allow-origin" not in headers and headers["x-should-retry"] == "false"
    told = json.loads(said)
    assert ("type" in told and told["error"]["type"] == "permission_error") is (path == MESSAGES)
    assert "origins" in told["error"]["message"]


@pytest.mark.parametrize("given", BAD)
@rows(__file__, "method,path")
def test_a_foreign_page_receives_nothing(front: Front, given: dict[str, str], method: str, path: str) -> None:
    status, headers, _ = front.proxy.ask(method, path, **given)
    assert status == 403 and "access-control-allow-origin" not in headers
    assert front.upstream.seen == [] and front.upstream.asked == []


def test_a_page_of_this_machine_may_send_requests_and_read_answers(front: Front) -> None:
    front.upstream.play(text_reply("a"), whole_reply("b"))
    page = "http://localhost:5173"
    status, headers, _ = front.proxy.ask(
        "OPTIONS",
        CHAT,
        Origin=page,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="content-type, x-api-key",
    )
    assert (status, headers["access-control-allow-origin"]) == (204, page)
    assert "POST" in headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in headers
    assert headers["access-control-allow-headers"] == "content-type, x-api-key"
    assert set(headers["allow"].split(", ")) == {"POST", "OPTIONS"}
    for streamed in (True, False):
        status, headers, _ = front.proxy.ask("POST", CHAT, chat(stream=streamed), Origin=page)
        assert (status, headers["access-control-allow-origin"], headers["vary"]) == (200, page, "Origin")
        assert "access-control-expose-headers" in headers and "access-control-allow-methods" not in headers
    odd = front.proxy.ask("OPTIONS", CHAT, Origin=page, Access_Control_Request_Headers="a: b")[1]
    assert "access-control-allow-headers" not in odd
    # The page may also read other errors.
    status, headers, _ = front.proxy.ask("POST", CHAT, [], Origin=page)
    assert (status, headers["access-control-allow-origin"]) == (400, page)


def test_a_client_without_an_origin_is_unaffected(front: Front) -> None:
    front.upstream.play(whole_reply("a"))
    status, headers, _ = front.proxy.ask("POST", CHAT, chat(stream=False), Host="proxy.namespace.svc:8003")
    assert status == 200 and not [name for name in headers if name.startswith("access-control")]
    assert "vary" not in headers


def test_a_rejected_page_is_counted(inside: Inside) -> None:
    client = inside("http://127.0.0.1:1")
    assert client.get("/health", headers={"Origin": "http://evil.example"}).status_code == 403
    assert b'tool_proxy_denied_total{reason="page"} 1.0' in client.get("/metrics").data
    allowed = inside("http://127.0.0.1:1", origins=("http://evil.example",))
    answer = allowed.get("/health", headers={"Origin": "http://evil.example"})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "http://evil.example")
