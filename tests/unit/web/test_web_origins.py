"""Web pages: which pages may send requests, and under which host names of the proxy."""

from __future__ import annotations

import pytest

from proxy.config.settings import Settings
from proxy.errors import Forbidden
from proxy.web.access import check_web_page
from tests.support.rows import rows

DEFAULT = Settings().origins
HERE = {"HTTP_HOST": "127.0.0.1:8003"}


@rows(__file__, "origin,may")
def test_only_a_local_page_is_allowed_by_default(origin: str, may: bool) -> None:
    if may:
        check_web_page({**HERE, "HTTP_ORIGIN": origin, "HTTP_SEC_FETCH_SITE": "cross-site"}, DEFAULT)
    else:
        with pytest.raises(Forbidden, match=r"may not ask here.*in origins$"):
            check_web_page({**HERE, "HTTP_ORIGIN": origin}, DEFAULT)


@rows(__file__, "given")
def test_a_page_is_recognized_by_other_headers(given: dict[str, str]) -> None:
    with pytest.raises(Forbidden, match="origins"):
        check_web_page({**HERE, **given}, DEFAULT)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"HTTP_SEC_FETCH_SITE": "none"},
        {"HTTP_SEC_FETCH_SITE": "same-origin"},
        {"HTTP_USER_AGENT": "curl/8", "HTTP_ACCEPT": "*/*"},
        {"HTTP_HTTP_REFERER": "https://agent.example"},  # agents send `HTTP-Referer`, browsers do not
    ],
)
@pytest.mark.parametrize("host", ["", "evil.example", "proxy.namespace.svc.cluster.local:8003"])
def test_a_request_that_does_not_come_from_a_page_is_allowed(given: dict[str, str], host: str) -> None:
    check_web_page({"HTTP_HOST": host, **given}, ())


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:8003", "10.1.2.3:8003", "[::1]:8003", "[2001:db8::1]", "localhost:1", "LocalHost"),
        *("localhost:", "[::FFFF:1.2.3.4]:80"),
    ],
)
def test_an_ip_address_is_an_allowed_host(host: str) -> None:
    check_web_page({"HTTP_HOST": host, "HTTP_ORIGIN": "http://localhost"}, DEFAULT)


@rows(__file__, "host")
def test_a_host_name_is_refused_unless_it_is_listed(host: str) -> None:
    """DNS rebinding: a web page's own host name may resolve to this machine, which the origin does not show."""
    given = {"HTTP_HOST": host, "HTTP_ORIGIN": "http://localhost"}
    listed = (*DEFAULT, "https://proxy.example")
    for origins in (listed, (*listed, "*")):
        with pytest.raises(Forbidden, match=r"to origins$"):
            check_web_page(given, origins)
    check_web_page({**given, "HTTP_HOST": "Proxy.Example:443"}, listed)
    with pytest.raises(Forbidden, match=r"to origins$"):
        check_web_page({**given, "HTTP_HOST": "proxy.example"}, DEFAULT)


@rows(__file__, "listed,origin,may")
def test_the_setting_lists_the_allowed_origins(listed: str, origin: str, may: bool) -> None:
    given = {**HERE, "HTTP_ORIGIN": origin}
    if may:
        check_web_page(given, (listed,))
    else:
        with pytest.raises(Forbidden):
            check_web_page(given, (listed,))
