"""The upstream call: what is sent, what is never sent, and the error for each failure."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trustme

from proxy.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from proxy.upstream.client import ModelServer, ServerOptions, UpstreamCall
from tests.conftest import tls_context
from tests.real.processes import free_port
from tests.support import scripted
from tests.support.scripted import HELD, PATIENCE, answer

HELLO = answer(b"hello")


def received(call: UpstreamCall) -> bytes:
    """Return the whole body. Raise the errors of `receive`."""
    parts = []
    poll = select.poll()
    poll.register(call.fileno(), select.POLLIN)
    while not call.complete:
        assert call.more or poll.poll(PATIENCE * 1000), "no data was received"
        parts.append(call.receive())
    return b"".join(parts)


def test_only_given_headers_are_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Facts 9 and U16: no netrc, no proxy or CA from the environment, no compression, only the given headers."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login thief password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    headers = {"Authorization": "Bearer client-key", "X-Request-Id": "r1"}
    with scripted.Upstream([HELLO], [HELLO]) as server:
        upstream = ModelServer(ServerOptions(server.url))
        with upstream.open("POST", "/x", headers, b"{}") as call:
            received(call)
        with upstream.open("POST", "/x", {}, b"{}") as call:
            received(call)
        own = {"Host": f"127.0.0.1:{server.port}", "Accept-Encoding": "identity", "Content-Length": "2"}
        first, second = [dict(seen.headers.items()) for seen in server.seen]
        assert {name: first.pop(name) for name in own} == own
        assert first.pop("User-Agent", "").startswith(("python-", "vllm-tool-proxy", ""))
        assert first == headers
        assert "Authorization" not in second


def test_cookies_are_neither_kept_nor_sent() -> None:
    """A cookie from one client's response is never sent with the next client's request."""
    with scripted.Upstream([answer(b"a", headers={"Set-Cookie": "session=1; Path=/"})], [HELLO]) as server:
        upstream = ModelServer(ServerOptions(server.url))
        for _ in range(2):
            with upstream.open("GET", "/x", {}) as call:
                received(call)
        assert [seen.headers["Cookie"] for seen in server.seen] == [None, None]


def test_connections_are_not_reused() -> None:
    """Two requests use two connections, although the server would keep the first one open."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        listener.settimeout(PATIENCE)
        upstream = ModelServer(ServerOptions(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        for _ in range(2):
            call = upstream.open("GET", "/x", {})
            connection, _ = listener.accept()
            stack.enter_context(connection).settimeout(PATIENCE)
            assert b"\r\n\r\n" in connection.recv(4096)
            connection.sendall(HELLO)
            with call:
                assert received(call) == b"hello"
            assert connection.recv(1) == b""


def test_a_socket_is_non_blocking_after_a_body_sent_in_pieces() -> None:
    body = b"x" * 32_000_000
    with (
        scripted.Upstream([HELLO]) as server,
        ModelServer(ServerOptions(server.url)).open("POST", "/x", {}, body) as call,
    ):
        assert call._socket.gettimeout() == 0 and received(call) == b"hello"
    # The server refuses the rest of the body.
    with accepting(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n") as port:
        call = ModelServer(ServerOptions(f"http://127.0.0.1:{port}")).open("POST", "/x", {}, body)
        with call:
            assert call._socket.gettimeout() == 0


def test_a_local_server_is_found_on_either_ip_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM listens on 0.0.0.0, but `localhost` resolves to `::1` first."""

    def getaddrinfo(_: str, port: int, *__: object, **___: object) -> list[object]:
        places = (socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))
        return [(kind, socket.SOCK_STREAM, 6, "", place) for kind, place in places]

    with scripted.Upstream([answer(b"hello")]) as server:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        options = ServerOptions(server.url.replace("127.0.0.1", "localhost"))
        with ModelServer(options).open("POST", "/x", {}, b"{}") as call:
            assert received(call) == b"hello"
    with pytest.raises(UpstreamUnreachable) as caught:
        ModelServer(ServerOptions(f"http://localhost:{free_port()}")).open("GET", "/x", {})
    assert caught.value.refused


def test_a_certificate_of_an_unknown_authority_is_rejected(authority: trustme.CA) -> None:
    with scripted.Upstream([HELLO], tls=tls_context(authority)) as server:
        with pytest.raises(UpstreamUnreachable, match="TLS"):
            ModelServer(ServerOptions(server.url)).open("GET", "/x", {})
        assert not server.seen


def test_a_certificate_for_another_name_is_rejected(authority: trustme.CA, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("model.example").configure_cert(context)
    with scripted.Upstream([HELLO], tls=context) as server, pytest.raises(UpstreamUnreachable, match="TLS"):
        ModelServer(ServerOptions(server.url, ca_file=str(ca))).open("GET", "/x", {})


@contextmanager
def accepting(reply: bytes = b"", read: int = 1) -> Iterator[int]:
    """Yield a port that accepts a connection, reads up to `read` bytes, sends `reply` and closes.

    Without a reply, the connection stays open and silent until the end of the block.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        end = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(read)
                connection.sendall(reply)
                if not reply:
                    end.wait(HELD)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            end.set()
            thread.join()


def test_tls_to_a_plaintext_server_is_unreachable() -> None:
    with accepting(b"HTTP/1.1 400 Bad Request\r\n\r\n", 65536) as port, pytest.raises(UpstreamUnreachable, match="TLS"):
        ModelServer(ServerOptions(f"https://127.0.0.1:{port}")).open("GET", "/x", {})


def test_a_hanging_tls_handshake_times_out() -> None:
    """U2: no data was sent, and the send timeout does not apply."""
    with accepting() as port:
        began = time.monotonic()
        with pytest.raises(UpstreamTimeout, match="connect_timeout"):
            ModelServer(ServerOptions(f"https://127.0.0.1:{port}", connect_timeout=0.2)).open("GET", "/x", {})
        assert time.monotonic() - began < PATIENCE


def test_a_server_that_never_reads_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = ServerOptions(f"http://127.0.0.1:{listener.getsockname()[1]}", send_timeout=0.2)
        began = time.monotonic()
        with pytest.raises(UpstreamTimeout, match=r"did not take the request within 0\.2 s"):
            ModelServer(target).open("POST", "/x", {}, b"x" * 32_000_000)
        assert 0.2 <= time.monotonic() - began < PATIENCE


def test_a_server_that_resets_during_the_request_is_broken_not_unreachable() -> None:
    """Part of the request was sent, so it must not be retried."""
    with (
        accepting(b"x", 100) as port,
        pytest.raises(UpstreamBroken) as caught,
        ModelServer(ServerOptions(f"http://127.0.0.1:{port}")).open("POST", "/x", {}, b"x" * 32_000_000) as call,
    ):
        received(call)
    assert not isinstance(caught.value, UpstreamUnreachable)
