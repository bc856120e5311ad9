"""Access to the admin paths. They need the admin key; if none is set, only local programs have access."""

from __future__ import annotations

import hashlib

import pytest

from proxy.config.api_keys import Keys
from proxy.errors import Forbidden, Unauthorized
from proxy.web.access import check_admin
from proxy.web.headers import key_bytes
from tests.support.rows import rows

LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "127.0.0.1:8003"}
WITH_KEY = Keys(admin=hashlib.sha256(b"secret").hexdigest())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8003", "127.1.2.3:1", "[::1]", "[::1]:8003", "localhost", "LOCALHOST:80"]
)
def test_a_local_program_has_access(address: str, host: str) -> None:
    check_admin({"REMOTE_ADDR": address, "HTTP_HOST": host, "HTTP_ACCEPT": "*/*"}, Keys())


@pytest.mark.parametrize(
    "address", ["", "10.0.0.1", "128.0.0.1", "::2", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0", "::", "localhost", "unix:"]
)
def test_a_remote_program_is_refused(address: str) -> None:
    with pytest.raises(Forbidden, match=r"elsewhere.*admin_key_file"):
        check_admin({**LOCAL, "REMOTE_ADDR": address}, Keys())


@rows(__file__, "host")
def test_a_host_other_than_a_loopback_address_is_refused(host: str) -> None:
    """DNS rebinding: a web page's own host name may resolve to this machine."""
    with pytest.raises(Forbidden, match="Host"):
        check_admin({**LOCAL, "HTTP_HOST": host}, Keys())


@rows(__file__, "name")
@pytest.mark.parametrize("value", ["http://127.0.0.1:8003", "null", ""])
def test_a_forwarded_request_is_refused(name: str, value: str) -> None:
    with pytest.raises(Forbidden, match="(?i)header " + name):
        check_admin({**LOCAL, "HTTP_" + name.upper().replace("-", "_"): value}, Keys())


def test_the_admin_key_gives_access_from_anywhere() -> None:
    far = {"REMOTE_ADDR": "10.0.0.1", "HTTP_HOST": "proxy.example", "HTTP_ORIGIN": "http://x", "HTTP_VIA": "1.1 front"}
    check_admin({**far, "HTTP_AUTHORIZATION": "Bearer secret"}, WITH_KEY)
    check_admin({**far, "HTTP_X_API_KEY": "secret"}, WITH_KEY)


@pytest.mark.parametrize("given", [{}, {"HTTP_AUTHORIZATION": "Bearer secre"}, {"HTTP_X_API_KEY": "secret2"}])
def test_without_the_admin_key_even_a_local_program_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(Unauthorized, match="admin's key"):
        check_admin({**LOCAL, **given}, WITH_KEY)


def test_a_key_is_compared_as_the_bytes_sent() -> None:
    """WSGI decodes header bytes as latin-1."""
    sent = "schlüssel€"
    assert key_bytes({"HTTP_X_API_KEY": sent.encode().decode("latin-1")}) == sent.encode()
    keys = Keys(admin=hashlib.sha256(sent.encode()).hexdigest())
    check_admin({"HTTP_X_API_KEY": sent.encode().decode("latin-1")}, keys)
    assert key_bytes({"HTTP_X_API_KEY": "€"}) == b"?"
