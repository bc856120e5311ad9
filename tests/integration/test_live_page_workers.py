"""The live page of several workers under gunicorn: whichever of them answers, it shows what all of them do."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from proxy.worker.shared_file import FILE_NAME
from tests.conftest import Proxy, Start
from tests.support.scripted import (
    DONE,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    Script,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    finish,
    text,
)

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
        """One request; the answer has begun."""
        client = self._stack.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE))
        )
        client.request(method, path, body, {"Content-Type": "application/json"})
        return self._stack.enter_context(client.getresponse())

    def post(self, proxy: Proxy, body: dict[str, Any]) -> http.client.HTTPResponse:
        """A request for a model."""
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
def test_a_page_shows_what_all_workers_do(
    proxy: Start, server: Upstream, clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    gate = server.gate()
    held: Script = [SSE, *map(chunked, (ROLE, text("a"))), gate, chunked(finish()), chunked(DONE), LAST]
    whole: Script = [answer(completion("a"))]
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


@pytest.mark.slow
@pytest.mark.once
def test_the_page_works_again_after_its_file_has_broken(
    proxy: Start, server: Upstream, clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    server.play(*[[answer(completion("a"))]] * 1000)
    started = proxy(server.url, "--workers", "2")
    before = shown(started, clients, lambda told: len(told["requests"]) >= 4)
    for file in tmp_path.glob(f"{FILE_NAME}*"):
        if not file.name.endswith(("-shm", ".lock")):
            file.write_bytes(b"no database " * 4096)
    for worker in workers(started):  # what a worker has read stays in its memory
        psutil.Process(worker).terminate()
    after = shown(started, clients, lambda told: told["ring"] != before["ring"] and len(told["requests"]) >= 4)
    assert after["requests"][0]["number"] == 1


def shown(proxy: Proxy, clients: Clients, is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The page's state as soon as this is in it, while requests come."""
    deadline = time.monotonic() + PATIENCE
    while True:
        assert clients.post(proxy, chat()).read()
        told = state(proxy)
        if "error" not in told and is_there(told):
            return told
        assert time.monotonic() < deadline, told


@pytest.mark.once
def test_without_a_runtime_directory_several_workers_share_a_temporary_one(
    proxy: Start, server: Upstream, clients: Clients
) -> None:
    server.play(*[[answer(completion("a"))]] * 100)
    started = proxy(server.url, "--workers", "2")
    shown(started, clients, lambda told: len(told["requests"]) >= 4)
