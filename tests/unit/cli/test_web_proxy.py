"""An agent reaches vllm-tool-proxy directly even if the environment names a web proxy."""

from __future__ import annotations

import urllib.request
from dataclasses import replace

import pytest

from proxy.cli.configuration import Values, web_proxy_exceptions
from tests.support.rows import rows

VALUES = Values("http://127.0.0.1:8003", "coder")
LOCAL = "127.0.0.1,localhost,::1"


def exceptions(url: str = VALUES.url, **environment: str) -> dict[str, str]:
    return web_proxy_exceptions(replace(VALUES, url=url, environment=environment))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"])
def test_local_addresses_bypass_the_web_proxy(name: str) -> None:
    assert exceptions(**{name: "http://user:password@web:3128"}) == {"NO_PROXY": LOCAL, "no_proxy": LOCAL}


@pytest.mark.parametrize("environment", [{}, {"HTTP_PROXY": ""}, {"NO_PROXY": "a"}, {"FTP_PROXY": "http://web"}])
def test_without_a_web_proxy_no_variables_are_needed(environment: dict[str, str]) -> None:
    assert exceptions(**environment) == {}


@rows(__file__, "before,after")
def test_existing_exceptions_are_kept(before: dict[str, str], after: str) -> None:
    assert exceptions(HTTP_PROXY="http://web", **before) == {"NO_PROXY": after, "no_proxy": after}


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://10.1.2.3:8003", "10.1.2.3"), ("https://Proxy.lan", "proxy.lan"), ("http://[fd00::1]:1", "fd00::1")],
)
def test_the_proxys_own_host_bypasses_the_web_proxy(url: str, host: str) -> None:
    """`setup` has already reached the proxy directly."""
    assert exceptions(url, HTTP_PROXY="http://web")["NO_PROXY"] == f"{LOCAL},{host}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3"])
def test_clients_honour_the_exceptions(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's urllib reads the variables as requests and httpx do."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://web:3128")
    assert not urllib.request.proxy_bypass(f"{host}:8003")
    monkeypatch.setenv("no_proxy", exceptions("http://10.1.2.3:8003", http_proxy="http://web")["no_proxy"])
    assert urllib.request.proxy_bypass(f"{host}:8003")
    assert not urllib.request.proxy_bypass("example.org:80")
