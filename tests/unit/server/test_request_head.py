"""A head that is read in one match says what gunicorn's parser reads of it; all that is not plain is left to that."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import message
from gunicorn.http.unreader import IterUnreader

from proxy.server.request_head import Request

FRONT = ("127.0.0.1", 1)
STRANGER = ("192.0.2.1", 1)
PLAIN = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer abc\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n"
    b"User-Agent: OpenAI/Python 2.8.0\r\nX-Stainless-Read-Timeout: 600.0\r\nContent-Length: 4\r\n\r\n"
)
# What may stand in a head: each line once as it is, and in any mixture.
FIRST_LINES = (
    *(b"POST /v1/messages?beta=true HTTP/1.1", b"GET / HTTP/1.1", b"GET /a%20b;c=1?d?e&f HTTP/1.1"),
    *(b"GET /a#b HTTP/1.1", b"GET //a/b HTTP/1.1", b"GET http://h/a?b HTTP/1.1", b"OPTIONS * HTTP/1.1"),
    *(b"CONNECT h:1 HTTP/1.1", b"GET /a:b@c HTTP/1.1", b"GET /[::1] HTTP/1.1", b"GET /a HTTP/1.0", b"GET /a HTTP/2.0"),
    *(b"GET  /a HTTP/1.1", b"GET /a  HTTP/1.1", b"get /a HTTP/1.1", b"GE /a HTTP/1.1", b"A" * 21 + b" /a HTTP/1.1"),
    *(b"GET /\xc3\xa4 HTTP/1.1", b"GET /a\x7f HTTP/1.1", b"GET /a\tb HTTP/1.1", b"GET a HTTP/1.1", b"", b"GET"),
    *(b"GET /" + b"a" * 4060 + b" HTTP/1.1", b"GET /? HTTP/1.1", b"GET /a?#b HTTP/1.1", b"DELETE /v1/files/1 HTTP/1.1"),
    *(b"GET /a HTTP/1.1 ", b" GET /a HTTP/1.1", b"GET /a HTTP/1.10", b"PROXY TCP4 1.2.3.4 1.2.3.5 1 2"),
)
FIELDS = (
    *(b"Host: a", b"host: b", b"Host:a", b"Host:  a", b"Host: a ", b"Host:\ta", b"Host:", b"Host: ", b"Host : a"),
    *(b"Content-Length: 5", b"Content-Length: 05", b"Content-Length: -5", b"Content-Length: 5, 5"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"Connection: close", b"connection: Keep-Alive"),
    *(b"Expect: 100-continue", b"Expect: else", b"X-Forwarded-Proto: https", b"X-Forwarded-Protocol: ssl"),
    *(b"X-Forwarded-Ssl: on", b"X-Forwarded-For: 1.2.3.4", b"X_Forwarded_For: 1.2.3.4", b"SCRIPT_NAME: /a"),
    *(b"content-length: 6", b"Script-Name: /a", b"Accept: a, b", b"Accept: c", b"A: b\tc", b"A: b  c", b"A: \xe4"),
    *(b"A: b\x00c", b"A: b\x0bc", b"A\xe4: b", b"A b: c", b": a", b"a", b" folded", b"\tfolded"),
    *(b"A: b\rc", b"A: b\nc", b"Upgrade: h2c", b"A: b\x7f", b"Content-Type: a", b"Content-Type: b"),
    *(b"A:b:c", b"Accept: " + b"a" * 4000, b"!#$%&'*+-.^`|~1: a"),
)


def read_by(kind: type[message.Request], data: bytes, peer: tuple[str, int], cfg: Config) -> object:
    """What a head says, or the error that it is."""
    try:
        read: Any = kind(cfg, IterUnreader(iter([data])), peer)
        body = type(read.body.reader), read.body.read()
    except StopIteration:
        return "nothing"
    except Exception as error:
        return type(error), str(error)
    about = (read.method, read.uri, read.path, read.query, read.fragment, read.version, read.headers)
    more = (read.scheme, read.should_close(), read._expected_100_continue, read.proxy_protocol_info)
    return *about, *more, *body


def assert_the_same(data: bytes, cfg: Config) -> None:
    for peer in (FRONT, STRANGER):
        assert read_by(Request, data, peer, cfg) == read_by(message.Request, data, peer, cfg), data


def settings(**more: object) -> Config:
    cfg = Config()
    for name, value in {"header_map": "drop", "limit_request_fields": 64, **more}.items():
        cfg.set(name, value)
    return cfg


def heads() -> Iterator[bytes]:
    """Each line that may be there, alone and in mixtures."""
    for first in FIRST_LINES:
        yield first + b"\r\nHost: a\r\n\r\n"
        yield first + b"\r\n\r\n"
    for field in FIELDS:
        yield b"POST /a HTTP/1.1\r\n" + field + b"\r\n\r\n"
    rng = random.Random(1)
    for _ in range(3000):
        lines = [rng.choice(FIRST_LINES[:3] if rng.random() < 0.8 else FIRST_LINES)]
        lines += rng.choices(FIELDS, k=rng.randrange(6))
        yield b"\r\n".join(lines) + b"\r\n\r\n" + rng.choice((b"", b"", b"body", b"\r\n"))


@pytest.mark.slow
def test_a_head_says_what_gunicorn_reads_of_it() -> None:
    cfg = settings()
    assert_the_same(PLAIN + b"body", cfg)
    for data in heads():
        assert_the_same(data, cfg)


@pytest.mark.slow
def test_a_head_with_one_byte_changed_says_what_gunicorn_reads_of_it() -> None:
    cfg = settings()
    rng = random.Random(2)
    for at in range(len(PLAIN)):
        for byte in (0, 9, 10, 13, 32, 35, 58, 95, 127, 228, rng.randrange(256)):
            assert_the_same(PLAIN[:at] + bytes((byte,)) + PLAIN[at + 1 :], cfg)
        assert_the_same(PLAIN[:at] + PLAIN[at + 1 :], cfg)


@pytest.mark.parametrize(
    "more",
    [
        {"limit_request_line": 20},
        {"limit_request_field_size": 20},
        {"limit_request_fields": 3},
        {"limit_request_line": 0, "limit_request_field_size": 0},
        {"limit_request_line": 20000, "limit_request_field_size": 20000},
        {"proxy_protocol": "v1"},
        {"header_map": "refuse"},
        {"secure_scheme_headers": {"AUTHORIZATION": "Bearer abc"}},
    ],
)
def test_gunicorns_settings_hold(more: dict[str, object]) -> None:
    cfg = settings(**more)
    assert_the_same(PLAIN, cfg)
    assert_the_same(b"PROXY TCP4 1.2.3.4 1.2.3.5 1 2\r\n" + PLAIN, cfg)
    for length in (4060, 4090, 8150, 8180, 8200, 9000):
        assert_the_same(b"GET /" + b"a" * length + b" HTTP/1.1\r\nHost: a\r\n\r\n", cfg)
        assert_the_same(b"GET / HTTP/1.1\r\nHost: " + b"a" * length + b"\r\n\r\n", cfg)


def test_what_agents_send_needs_no_other_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it is plain")

    expected = read_by(message.Request, PLAIN, FRONT, settings())
    monkeypatch.setattr(message.Request, "_parse_python", refuse)
    assert read_by(Request, PLAIN, FRONT, settings()) == expected
