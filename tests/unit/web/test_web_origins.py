"""Web pages: which of them may ask, and under which names of this proxy."""

from __future__ import annotations

import pytest

from proxy.config.settings import Settings
from proxy.errors import Forbidden
from proxy.web.access import check_web_page

DEFAULT = Settings().origins
HERE = {"HTTP_HOST": "127.0.0.1:8003"}


@pytest.mark.parametrize(
    "origin",
    [
        *("http://localhost", "http://localhost:5173", "https://LOCALHOST:1", "http://127.0.0.1:8003"),
        *("http://127.9.8.7", "http://[::1]:3000", "http://tauri.localhost", "app://obsidian.md", "app://-"),
        *("http://localhost:", "http://[::ffff:127.0.0.1]", "HTTP://A.LocalHost:80"),
        *("file://", "tauri://localhost", "vscode-webview://1a2b3c"),
    ],
)
def test_a_page_of_this_machine_may(origin: str) -> None:
    check_web_page({**HERE, "HTTP_ORIGIN": origin, "HTTP_SEC_FETCH_SITE": "cross-site"}, DEFAULT)


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "*", "loopback", "http://evil.example", "https://evil.example:8003", "http://10.0.0.1"),
        *("http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://evillocalhost", "localhost"),
        *("http://localhost@evil.example", "http://localhost:80@evil.example", "http://evil.example#localhost"),
        *("http://[::2]", "http://[::1", "http://0.0.0.0", "ftp://localhost", "app:localhost", "xapp://a"),
        *("http://localhost:1:2", "http://localhost\xa0", "http://user@localhost", "http://localhost.", "http://"),
        *("http://.localhost", "http://a..localhost", "http://\xe9.localhost", "http://evil.example,.localhost"),
        *("http://evil.example\\.localhost", "http://[::1].evil.example", "http://[127.0.0.1]", "http://::1"),
        *("http://localhost:800000", "http://local host", "http://local\thost", "app://a b", "app://a@b"),
        *("http://localhost, http://evil.example", "http://localhost/", "http://2130706433", "http://localhost:x"),
    ],
)
def test_no_other_page_may(origin: str) -> None:
    with pytest.raises(Forbidden, match=r"may not ask here.*in origins$"):
        check_web_page({**HERE, "HTTP_ORIGIN": origin}, DEFAULT)


@pytest.mark.parametrize(
    "given",
    [
        {"HTTP_REFERER": "http://evil.example/page?q=http://localhost"},
        {"HTTP_REFERER": "http://localhost@evil.example/"},
        {"HTTP_REFERER": "http://evil@localhost/"},
        {"HTTP_REFERER": "http://localhost\\@evil.example/"},
        {"HTTP_REFERER": "http://local\thost/"},
        {"HTTP_REFERER": "//localhost/"},
        {"HTTP_REFERER": ""},
        {"HTTP_REFERER": "about:blank"},
        {"HTTP_REFERER": "http://[half"},
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_SEC_FETCH_SITE": " Cross-Site "},
        {"HTTP_ORIGIN": "http://evil.example", "HTTP_REFERER": "http://localhost/"},
    ],
)
def test_a_page_is_known_by_other_headers_too(given: dict[str, str]) -> None:
    with pytest.raises(Forbidden, match="origins"):
        check_web_page({**HERE, **given}, DEFAULT)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"HTTP_SEC_FETCH_SITE": "none"},
        {"HTTP_SEC_FETCH_SITE": "same-origin"},
        {"HTTP_USER_AGENT": "curl/8", "HTTP_ACCEPT": "*/*"},
        {"HTTP_HTTP_REFERER": "https://agent.example"},  # a header of agents, `HTTP-Referer`, which no browser sends
    ],
)
@pytest.mark.parametrize("host", ["", "evil.example", "proxy.namespace.svc.cluster.local:8003"])
def test_what_is_no_page_is_not_looked_at(given: dict[str, str], host: str) -> None:
    check_web_page({"HTTP_HOST": host, **given}, ())


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:8003", "10.1.2.3:8003", "[::1]:8003", "[2001:db8::1]", "localhost:1", "LocalHost"),
        *("localhost:", "[::FFFF:1.2.3.4]:80"),
    ],
)
def test_an_address_is_a_host(host: str) -> None:
    check_web_page({"HTTP_HOST": host, "HTTP_ORIGIN": "http://localhost"}, DEFAULT)


@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example", "127.0.0.1.evil.example:8003", "localhost.", "[evil]", "2130706433", "127.1", ":80"),
        *(
            "127.0.0.1:80:evil",
            "127.0.0.1:evil",
            "127.0.0.1 evil.example",
            "127.0.0.1 ",
            "user@127.0.0.1",
            "[::1",
            "::1",
        ),
        *("[::1].evil.example", "[::1]evil", "[127.0.0.1]", "[fe80::1%25eth0]", "localhost:800000", "localhost:80:80"),
        *("localhost/a", "localhost,evil.example", "proxy.example.", "proxy.example:80:1", "1.2.3.4.", "localhost\xa0"),
    ],
)
def test_a_name_is_none_unless_it_is_listed(host: str) -> None:
    """DNS rebinding: a page's own name that means this machine. The page's origin is no help then."""
    given = {"HTTP_HOST": host, "HTTP_ORIGIN": "http://localhost"}
    listed = (*DEFAULT, "https://proxy.example")
    for origins in (listed, (*listed, "*")):
        with pytest.raises(Forbidden, match=r"to origins$"):
            check_web_page(given, origins)
    check_web_page({**given, "HTTP_HOST": "Proxy.Example:443"}, listed)
    with pytest.raises(Forbidden, match=r"to origins$"):
        check_web_page({**given, "HTTP_HOST": "proxy.example"}, DEFAULT)


@pytest.mark.parametrize(
    ("listed", "origin", "may"),
    [
        ("https://ui.example", "https://ui.example", True),
        ("https://ui.example", "HTTPS://UI.example", True),
        ("https://ui.example", "http://ui.example", False),
        ("https://ui.example", "https://ui.example:8443", False),
        ("https://ui.example:8443", "https://ui.example:8443", True),
        ("https://ui.example", "http://localhost", False),
        ("moz-extension://", "moz-extension://1-2-3", True),
        ("moz-extension://", "chrome-extension://abc", False),
        ("*", "https://evil.example", True),
        ("*", "null", True),
    ],
)
def test_the_setting_says_which(listed: str, origin: str, may: bool) -> None:
    given = {**HERE, "HTTP_ORIGIN": origin}
    if may:
        check_web_page(given, (listed,))
    else:
        with pytest.raises(Forbidden):
            check_web_page(given, (listed,))
