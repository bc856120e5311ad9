"""The live page of several workers under gunicorn: whichever of them answers, it shows what all of them do."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from proxy.server.shared_file import FILE_NAME
from tests.conftest import Proxy, Start
from tests.support.scripted import PATIENCE, Script, Upstream, answer, chat, text_reply, whole_reply

REQUESTS = 12


@pytest.fixture
def server() -> Iterator[Upstream]:
    with Upstream() as one:
        one.paths["/health"] = [answer({})]
        yield one


class Clients:
    """Connections to a proxy, all closed at the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def ask(self, proxy: Proxy, method: str, path: str, body: bytes | None = None) -> http.client.HTTPResponse:
        client = self._stack.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE))
        )
        client.request(method, path, body, {"Content-Type": "application/json"})
        return self._stack.enter_context(client.getresponse())

    def post(self, proxy: Proxy, body: dict[str, Any]) -> http.client.HTTPResponse:
        return self.ask(proxy, "POST", "/v1/chat/completions", json.dumps(body).encode())


@pytest.fixture
def clients() -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(stack)


def state(proxy: Proxy, place: str = "none") -> dict[str, Any]:
    """What an open page is told that it does not know yet; an error while the file is made anew."""
    told: dict[str, Any] = json.loads(proxy.get(f"/_ui/state?after={place}")[2])
    return told


def workers(proxy: Proxy) -> set[int]:
    return {proxy.health()["worker"] for _ in range(20)}


@pytest.mark.slow
@pytest.mark.once
def test_a_page_shows_all_workers(
    proxy: Start, server: Upstream, clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    gate = server.gate()
    held: Script = text_reply("a", gate)
    whole: Script = whole_reply("a")
    server.play(*[whole] * REQUESTS, *[held] * 4)
    started = proxy(server.url, "--workers", "2", "--audit-values")
    for _ in range(REQUESTS):
        reply = clients.post(started, chat())
        assert reply.status == 200 and reply.read()
    streams = [clients.post(started, chat(stream=True)) for _ in range(4)]
    deadline = time.monotonic() + PATIENCE
    seen: list[str] = []
    place, live = "none", list[dict[str, Any]]()
    while len(live) < 4 or len(seen) < REQUESTS:
        assert time.monotonic() < deadline, (live, seen)
        told = state(started, place)
        place, live = told["place"], told["live"]
        seen += [one["id"] for one in told["requests"]]
    assert len(set(seen)) == len(seen) == REQUESTS
    assert {row["phase"] for row in live} == {"answering"}
    gate.open()
    for stream in streams:
        assert b"[DONE]" in stream.read()
    while (told := state(started))["live"] or told["totals"]["requests"] < REQUESTS + 4:
        assert time.monotonic() < deadline
    assert len(workers(started)) == 2
    assert (tmp_path / FILE_NAME).exists()
