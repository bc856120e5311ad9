"""The live page of several workers under gunicorn: every worker shows the requests of all."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from proxy.server.shared_file import FILE_NAME
from tests.conftest import Proxy, Start, until
from tests.support.scripted import Client, Upstream, answer, chat, text_reply, whole_reply

REQUESTS = 12


def state(proxy: Proxy, place: str = "none") -> dict[str, Any]:
    """Return what is new for an open page."""
    told: dict[str, Any] = json.loads(proxy.get(f"/_ui/state?after={place}")[2])
    return told


@pytest.mark.slow
@pytest.mark.once
def test_a_page_shows_all_workers(proxy: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with Upstream() as server, ExitStack() as stack:
        gate = server.gate()
        server.play(*[whole_reply("a")] * REQUESTS, *[text_reply("a", gate)] * 4)
        server.paths["/health"] = [answer({})]
        started = proxy(server.url, "--workers", "2", "--audit-values")
        for _ in range(REQUESTS):
            assert started.ask("POST", "/v1/chat/completions", chat(stream=False))[0] == 200
        clients = [stack.enter_context(Client.post(started.port, chat())) for _ in range(4)]
        streams = [stack.enter_context(client.answer()) for client in clients]
        seen: list[str] = []
        place, live = "none", list[dict[str, Any]]()

        def all_shown() -> bool:
            nonlocal place, live, seen
            told = state(started, place)
            place, live = told["place"], told["live"]
            seen += [one["id"] for one in told["requests"]]
            return len(live) == 4 and len(seen) >= REQUESTS

        until(all_shown)
        assert len(set(seen)) == len(seen) == REQUESTS
        assert {row["phase"] for row in live} == {"answering"}
        for stream in streams:
            gate.open()
            assert b"[DONE]" in stream.read()
        until(lambda: not (told := state(started))["live"] and told["totals"]["requests"] == REQUESTS + 4)
        assert len(started.workers()) == 2
    assert (tmp_path / FILE_NAME).exists()
