"""The demo and its parts: the scripted model, the real server, the replay, and the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.cases import CASES, Case
from tests.real import llama, processes
from tests.real.replay import ReplayServer

FORMS = [case.script for case in CASES]


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    with llama.LlamaServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def replay() -> Iterator[str]:
    with ReplayServer() as server:
        yield server.url


class TestRealServer:
    @pytest.mark.parametrize("case", CASES, ids=FORMS)
    def test_the_recordings_match_the_server(self, real: str, replay: str, case: Case) -> None:
        """Apart from ids and times, the replay sends what the real server sends."""
        now, recorded = case.ask(real), case.ask(replay)
        assert (now.text, now.finish, now.calls) == (recorded.text, recorded.finish, recorded.calls)
        assert now.error.partition(":")[0] == recorded.error.partition(":")[0]


class TestThroughTheProxy:
    @pytest.mark.slow
    @pytest.mark.parametrize("upstream", ["real", "replay"])
    def test_every_agent_gets_its_calls(self, upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The run succeeds in time and names the server that it uses."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # without a trained model
        command = [sys.executable, "-m", "tests.demo", "--upstream", upstream]
        done = subprocess.run(command, cwd=processes.ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert upstream.upper() in done.stdout.partition("\n")[0]
