"""The live page of several workers under gunicorn: every worker shows the requests of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.server.shared_file import FILE_NAME
from tests.conftest import Proxy, Start, until
from tests.support.scripted import Upstream, answer, chat, whole_reply

REQUESTS = 12


def state(proxy: Proxy, after: int = 0) -> dict[str, Any]:
    """Return what is new for an open page."""
    told: dict[str, Any] = json.loads(proxy.get(f"/_ui/state?after={after}")[2])
    return told


@pytest.mark.slow
@pytest.mark.once
def test_a_page_shows_all_workers(proxy: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with Upstream() as server:
        server.play(*[whole_reply("a")] * REQUESTS)
        server.paths["/health"] = [answer({})]
        started = proxy(server.url, "--workers", "2", "--audit-values")
        for _ in range(REQUESTS):
            assert started.ask("POST", "/v1/chat/completions", chat(stream=False))[0] == 200
        seen: dict[int, str] = {}

        def all_shown() -> bool:
            told = state(started, max(seen, default=0))["requests"]
            assert not seen.keys() & {one["number"] for one in told}
            seen.update((one["number"], one["id"]) for one in told)
            return len(seen) >= REQUESTS

        until(all_shown)
        assert len(set(seen.values())) == REQUESTS
        assert state(started)["totals"]["requests"] == REQUESTS
        assert len(started.workers()) == 2
    assert (tmp_path / FILE_NAME).exists()
