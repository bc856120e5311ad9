"""An agent reaches vllm-tool-proxy directly even if the environment names a web proxy."""

from __future__ import annotations

import urllib.request
from dataclasses import replace

import pytest

from proxy.cli.configuration import Configuration, Values, past_web_proxy
from tests.support.rows import rows

VALUES = Values("http://127.0.0.1:8003", "coder")
LOCAL = "127.0.0.1,localhost,::1"
CONFIGURATION = Configuration(environment={"A": "b"}, notes=("a note",))


def configured(url: str = VALUES.url, **environment: str) -> Configuration:
    return past_web_proxy(CONFIGURATION, replace(VALUES, url=url, environment=environment))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"])
def test_local_addresses_bypass_the_web_proxy(name: str) -> None:
    found = configured(**{name: "http://user:password@web:3128"})
    assert found.environment == {"A": "b", "NO_PROXY": LOCAL, "no_proxy": LOCAL}
    first, note = found.notes
    assert first == "a note"
    assert note == (
        f"{name} is set. Programs that use it would reach {VALUES.url} through that web proxy. `launch` sets NO_PROXY "
        f"and no_proxy for the agent; without `launch`, set both: {LOCAL}"
    )


@pytest.mark.parametrize("environment", [{}, {"HTTP_PROXY": ""}, {"NO_PROXY": "a"}, {"FTP_PROXY": "http://web"}])
def test_without_a_web_proxy_the_configuration_is_unchanged(environment: dict[str, str]) -> None:
    assert configured(**environment) is CONFIGURATION


@rows(__file__, "before,after")
def test_existing_exceptions_are_kept(before: dict[str, str], after: dict[str, str]) -> None:
    found = configured(HTTP_PROXY="http://web", **before)
    assert found.environment == {"A": "b", **after}


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://10.1.2.3:8003", "10.1.2.3"), ("https://Proxy.lan", "proxy.lan"), ("http://[fd00::1]:1", "fd00::1")],
)
def test_the_proxys_own_host_bypasses_the_web_proxy(url: str, host: str) -> None:
    """`setup` has already reached the proxy directly."""
    assert configured(url, HTTP_PROXY="http://web").environment["NO_PROXY"] == f"{LOCAL},{host}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3"])
def test_clients_honour_the_exceptions(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's urllib reads the variables as requests and httpx do."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://web:3128")
    assert not urllib.request.proxy_bypass(f"{host}:8003")
    monkeypatch.setenv("no_proxy", configured("http://10.1.2.3:8003", http_proxy="http://web").environment["no_proxy"])
    assert urllib.request.proxy_bypass(f"{host}:8003")
    assert not urllib.request.proxy_bypass("example.org:80")
