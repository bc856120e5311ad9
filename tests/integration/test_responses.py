"""What answers of a server mean that are no success, and answers that are fetched whole."""

from __future__ import annotations

import json
import time

import pytest

from proxy.dialects.chat.writer import error_body
from proxy.errors import ProxyError, UpstreamRefused, UpstreamTimeout
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.responses import error_of_response, fetch
from tests.support import scripted
from tests.support.scripted import Act, answer, head


def met(data: bytes) -> ProxyError:
    """The error that this answer stands for."""
    with scripted.Upstream([data]) as server, ModelServer(ServerOptions(server.url)).open("GET", "/x", {}) as call:
        body = b""
        while not call.complete:
            body += call.receive()
        return error_of_response(call, body)


def shaped(error: ProxyError) -> dict[str, object]:
    """The error object that the client gets."""
    inner: dict[str, object] = json.loads(error_body(error))["error"]
    return inner


VLLM = b'{"error": {"message":"too long","type":"BadRequestError","param":"max_tokens","code":400}}'


def test_the_openai_shape_stays_byte_by_byte() -> None:
    """U5, C1."""
    error = met(answer(VLLM, 400))
    assert (error.status, error.message) == (400, "too long")
    assert error_body(error) == VLLM


@pytest.mark.parametrize(
    "body,status,message",
    [
        (b'{"error": "Unauthorized"}', 401, "Unauthorized"),
        (b'{"detail": "Not Found"}', 404, "Not Found"),
        (b'{"message": "no such model"}', 404, "no such model"),
        (b'{"detail": [{"loc": ["body"], "msg": "field required"}]}', 422, "field required"),
    ],
)
def test_other_json_errors_are_put_into_the_openai_shape(body: bytes, status: int, message: str) -> None:
    """U5: vLLM's 401 is a string where SDKs expect an object; FastAPI says `detail`."""
    error = met(answer(body, status))
    said = shaped(error)
    assert error.status == status
    assert message in str(said["message"])
    assert isinstance(said["type"], str) and said["type"]


def test_a_status_without_a_name_is_kept() -> None:
    error = met(b"HTTP/1.1 529 X\r\nContent-Length: 0\r\n\r\n")
    assert error.status == 529 and "529" in error.message


@pytest.mark.parametrize("status", [429, 503])
def test_the_headers_that_tell_when_to_come_again_are_kept_and_no_others(status: int) -> None:
    """U6."""
    kept = {"Retry-After": "7", "X-Should-Retry": "true", "X-Request-Id": "u1"}
    error = met(answer({"error": {"message": "busy"}}, status, {**kept, "Set-Cookie": "a=b", "Server": "uvicorn"}))
    assert isinstance(error, UpstreamRefused)
    assert dict(error.headers) == kept


@pytest.mark.parametrize("script", [[Act.EXPECT_CLOSE], [head(200) + b"x", Act.EXPECT_CLOSE]])
def test_fetch_gives_up_after_its_time(script: scripted.Script) -> None:
    with scripted.Upstream(script) as server:
        began = time.monotonic()
        with pytest.raises(UpstreamTimeout):
            fetch(ModelServer(ServerOptions(server.url)), "/health", {}, 0.1)
        assert time.monotonic() - began < scripted.PATIENCE
        assert server.seen[0].gone_after(time.monotonic())


def test_fetch_of_a_server_that_dribbles_ends_in_about_its_time() -> None:
    """It says "within about so many seconds": a byte now and then must not keep it for ever."""
    drops: list[scripted.Action] = [head(200)]
    for _ in range(int(scripted.HELD / 0.03)):
        drops += [b"x", 0.03]
    with scripted.Upstream(drops) as server:
        began = time.monotonic()
        with pytest.raises(UpstreamTimeout):
            fetch(ModelServer(ServerOptions(server.url)), "/health", {}, 0.2)
        assert time.monotonic() - began < scripted.PATIENCE
