"""Forwarded paths: the status, the allowed headers and the body are unchanged, and data is sent when it arrives."""

from __future__ import annotations

import time

import pytest

from tests.conftest import Front, Inside
from tests.support.scripted import Act, Client, Upstream, answer, chat, head


@pytest.mark.parametrize("status", [200, 404])
def test_a_response_without_a_content_type_gets_none(front: Front, status: int) -> None:
    """A browser must not interpret a model's text as a page."""
    body = b"<script>alert(1)</script>"
    front.upstream.play([head(status, {"Content-Length": str(len(body))}) + body])
    with Client.post(front.proxy.port, {"prompt": "x"}, "/v1/completions") as client, client.answer() as response:
        assert (response.status, response.read()) == (status, body)
        assert response.getheader("Content-Type") is None
        assert response.getheader("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize("action,status", [(Act.CLOSE, 502), (Act.EXPECT_CLOSE, 504)])
def test_a_failure_before_the_head_is_a_status(inside: Inside, action: Act, status: int) -> None:
    with Upstream([action]) as server:
        assert inside(server.url, idle_timeout=0.1).post("/v1/completions", json={}).status_code == status
        if action is Act.EXPECT_CLOSE:
            assert server.seen[0].gone_after(time.monotonic())


@pytest.mark.parametrize("status", [99, 199, 600, 999])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_an_invalid_status_is_a_502(inside: Inside, path: str, status: int) -> None:
    """gunicorn would refuse to send it, and the request would never end."""
    with Upstream([b"HTTP/1.1 %03d x\r\nContent-Length: 0\r\n\r\n" % status]) as server:
        assert inside(server.url).post(path, json=chat(stream=False)).status_code == 502


def test_a_truncated_error_is_a_502(inside: Inside) -> None:
    with Upstream([b"HTTP/1.1 429 x\r\nContent-Length: 20\r\n\r\nno", Act.CLOSE]) as server:
        response = inside(server.url).post("/v1/completions", json={})
    assert (response.status_code, response.json["error"]["code"]) == (502, 502)  # type: ignore[index]


def test_an_error_over_the_size_limit_is_an_upstream_error(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.web.views.MAX_ANSWER", 100)
    with Upstream([answer(b"x" * 120, 401)]) as server:
        response = inside(server.url).post("/v1/completions", json={})
    assert response.status_code == 502 and b"the size of an error is 100" in response.data
