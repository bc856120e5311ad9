"""A proxy never sends requests to itself, neither directly nor through other proxies (RFC 9110, 7.6.3)."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxy.cli import main as cli
from tests.conftest import Proxy, Start, start, until
from tests.integration.test_reload import parent
from tests.real.processes import free_port
from tests.support.bare import make_bare
from tests.support.dialects import DIALECTS, Dialect
from tests.support.model_server import Behaviour, ModelServer
from tests.support.rows import rows
from tests.support.scripted import Upstream, whole_reply

pytestmark = pytest.mark.once

SENTENCE = "the upstream of this proxy is this proxy"
PSEUDONYM = re.compile(r"1\.1 [0-9a-f]{16}")


def request_count(proxy: Proxy) -> int:
    """Return the number of logged requests, except for /health."""
    lines = proxy.log.read_text().splitlines()
    return sum(" status=" in line and "path=/health" not in line for line in lines)


@pytest.fixture(scope="module", name="looped")
def _looped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Yield a proxy with two workers whose reloaded rules name the proxy as its own upstream."""
    folder = tmp_path_factory.mktemp("looped")
    rules = folder / "rules.yaml"
    rules.write_text("settings: {upstream: 'http://127.0.0.1:1'}\n")
    with ExitStack() as stack:
        proxy = start("", "--rules", str(rules), "--workers", "2", folder=folder, stack=stack)
        rules.write_text(f"settings: {{upstream: '{proxy.url}', pass_through: [/v1/other]}}\n")
        assert proxy.ask("POST", "/_reload")[0] == 200
        yield proxy


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_looped_request_is_rejected_immediately(looped: Proxy, dialect: Dialect, streamed: bool) -> None:
    before = request_count(looped)
    status, headers, body = looped.ask("POST", dialect.path, dialect.ask(streamed=streamed, tools=True))
    assert status == 508
    assert dialect.error(body, status).words == SENTENCE
    assert headers["x-should-retry"] == "false"
    until(lambda: request_count(looped) >= before + 2)
    # The client's request, its own, and for some dialects a model list request. Any worker may receive them.
    assert request_count(looped) - before <= 4
    assert SENTENCE in looped.log.read_text()


@pytest.mark.slow
def test_two_proxies_that_point_at_each_other_return_an_error(proxy: Start, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("settings: {upstream: 'http://127.0.0.1:1'}\n")
    one = proxy("", "--rules", str(rules))
    other = proxy(one.url)
    rules.write_text(f"settings: {{upstream: '{other.url}'}}\n")
    assert one.ask("POST", "/_reload")[0] == 200
    for each in (one, other):
        for dialect in DIALECTS.values():
            status, _, body = each.ask("POST", dialect.path, dialect.ask(streamed=True, tools=True))
            assert (status, dialect.error(body, status).words) == (508, SENTENCE)


@pytest.mark.slow
def test_a_chain_of_two_proxies_works_and_keeps_all_via_entries(proxy: Start) -> None:
    with Upstream(whole_reply("Hi")) as server:
        behind = proxy(server.url)
        before = proxy(behind.url)
        body = DIALECTS["chat"].ask(streamed=False, tools=False)
        assert before.ask("POST", "/v1/chat/completions", body, Via="1.0 fred (a, b), 1.1 p.example")[0] == 200
        via = str(server.seen[0].headers["Via"])
    assert via.startswith("1.0 fred (a, b), 1.1 p.example, ")
    ours = via.split(", ")[-2:]
    assert all(PSEUDONYM.fullmatch(entry) for entry in ours) and len({*ours}) == 2
    assert socket.gethostname() not in ours


@pytest.mark.slow
def test_every_upstream_request_has_the_same_via_entry_even_after_a_reload(proxy: Start) -> None:
    with ModelServer(Behaviour()) as server:
        one = proxy(server.url, "--workers", "2")
        master = parent(one.health()["worker"])
        for _ in range(2):
            old = one.health()["worker"]
            for dialect in DIALECTS.values():
                body = dialect.ask(streamed=False, tools=True) | {"model": server.behaviour.name}
                assert one.ask("POST", dialect.path, body)[0] == 200
            one.ask("POST", "/v1/messages/count_tokens", DIALECTS["messages"].ask(streamed=False, tools=False))
            for path in ("/v1/models", "/_ready", "/metrics"):
                one.ask("GET", path)
            one.ask("GET", "/v1/models", Anthropic_Version="2023-06-01")
            os.kill(master, signal.SIGHUP)
            one.workers(but=(old,), count=1)
        entries = {headers.get("Via") for headers in server.headers}
        paths = {path for path, _ in server.asked}
    assert {"/v1/models", "/v1/chat/completions", "/health"} <= paths
    (entry,) = entries
    assert entry is not None and PSEUDONYM.fullmatch(entry)


def own_name() -> str:
    """Return the machine's name if it resolves, otherwise `localhost`."""
    with contextlib.suppress(OSError):
        socket.getaddrinfo(socket.gethostname(), 80, socket.AF_INET)
        return socket.gethostname()
    return "localhost"


@pytest.mark.parametrize(
    ("host", "upstream"),
    [
        ("127.0.0.1", "http://127.0.0.1:PORT"),
        ("127.0.0.1", "http://localhost:PORT/v1"),
        ("127.0.0.1", "http://0.0.0.0:PORT"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]:PORT"),
        ("localhost", "https://127.0.0.1:PORT"),
        ("0.0.0.0", "http://127.0.0.3:PORT"),
        ("0.0.0.0", f"http://{own_name()}:PORT"),
        ("::", "http://127.0.0.1:PORT"),
    ],
)
def test_a_start_with_its_own_address_as_upstream_is_rejected(
    host: str, upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_bare(tmp_path, monkeypatch)
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("the proxy would have started"))
    port = str(free_port())
    url = upstream.replace("PORT", port)
    rules = tmp_path / "own.yaml"
    rules.write_text(f"models:\n  - match: 'a*'\n    url: {url}\n")
    for command in ("serve", "check"):
        for words in (["--upstream", url], ["--rules", str(rules)]):
            assert cli.main([command, "--host", host, "--port", port, *words]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert "error: upstream http" in line and port in line


@rows(__file__, "host,upstream")
def test_a_start_with_another_upstream_succeeds(
    host: str, upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_bare(tmp_path, monkeypatch)
    words = ["check", "--host", host, "--port", "18023", "--upstream", upstream.replace("PORT", "18023")]
    assert cli.main(words) == 0, capsys.readouterr().err
