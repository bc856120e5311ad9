"""The demo and what it stands on: the scripted model, the real server, the replay, and the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.demo.cases import CASES, Case
from tests.demo.client import ask
from tests.real import llama, processes
from tests.real.replay import ReplayServer
from tests.support.scripted import PATIENCE

SCRIPTS = llama.load_scripts()
FORMS = [case.script for case in CASES]


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    """A real llama.cpp server that says the project's scripts."""
    with llama.LlamaServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def replay() -> Iterator[str]:
    """A server that replays what the real one sent to the demo's agents."""
    with ReplayServer() as server:
        yield server.url


def post(url: str, body: dict[str, object]) -> requests.Response:
    """Send a chat request."""
    return requests.post(f"{url}/v1/chat/completions", json=body, timeout=PATIENCE)


def chat(script: str, *more: dict[str, object]) -> dict[str, object]:
    """Return a chat request that picks `script`."""
    return {"messages": [{"role": "user", "content": f"Go on. [[script:{script}]]"}, *more]}


class TestParrot:
    """The model says its scripts and nothing else."""

    def test_the_file_is_built_once(self, tmp_path: Path) -> None:
        """The same scripts find the model that is there; other scripts get their own."""
        first = llama.model({"one": ["Hello there."]}, tmp_path)
        written = first.stat().st_mtime_ns
        assert first.read_bytes()[:4] == b"GGUF"
        assert llama.model({"one": ["Hello there."]}, tmp_path) == first
        assert first.stat().st_mtime_ns == written
        assert llama.model({"one": ["Good bye."]}, tmp_path) != first


class TestRealServer:
    """llama.cpp's server, with the parrot in it."""

    def test_a_tool_result_brings_the_next_turn(self, real: str) -> None:
        """The results after the marker count the turns."""
        call = {"id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": "{}"}}
        history: list[dict[str, object]] = [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "written"},
        ]
        answer = post(real, chat("hermes", *history)).json()
        assert answer["choices"][0]["message"]["content"] == SCRIPTS["hermes"][1]

    @pytest.mark.parametrize("case", CASES, ids=FORMS)
    def test_the_recordings_are_what_it_sends(self, real: str, replay: str, case: Case) -> None:
        """But for ids and times, the replay tells an agent what the server tells it today."""
        now, recorded = ask(real, case.agent, case.script), ask(replay, case.agent, case.script)
        assert (now.text, now.finish) == (recorded.text, recorded.finish)
        assert [(call.name, call.arguments) for call in now.calls] == [
            (call.name, call.arguments) for call in recorded.calls
        ]
        assert now.error.partition(":")[0] == recorded.error.partition(":")[0]

    @pytest.mark.parametrize("script", [name for name in FORMS if name.endswith("_xml")])
    def test_xml_makes_it_fail(self, real: str, script: str) -> None:
        """The XML cases show the proxy's second request: the server answers the first with an error."""
        case = next(case for case in CASES if case.script == script)
        assert "empty grammar stack" in ask(real, case.agent, script).error


class TestThroughTheProxy:
    """The whole demo, as `make demo` runs it."""

    @pytest.mark.slow
    @pytest.mark.parametrize("upstream", ["real", "replay"])
    def test_every_agent_gets_its_calls(self, upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It ends well and in time, and names the server it stands on."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # without a trained model
        command = [sys.executable, "-m", "tests.demo", "--upstream", upstream]
        done = subprocess.run(command, cwd=processes.ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert upstream.upper() in done.stdout.partition("\n")[0]
