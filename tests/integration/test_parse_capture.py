"""`vllm-tool-proxy parse --capture`: the same result as serving, printed in lines that are safe for a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli.parse import reread
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.dialects.chat.client_view import ReplyView, view_reply
from proxy.exchange.capture import read_capture
from tests.conftest import Inside
from tests.failures.test_recordings import AGENTS
from tests.support.helpers import RECORDINGS, ends, says
from tests.support.recorded_answers import served
from tests.support.scripted import PATIENCE, WRITE_FILE, Upstream, chat
from tests.support.worker_state import read_rules
from tests.unit.cli.test_capture_report import wire, written

CHAT = "/v1/chat/completions"
FILES = sorted(RECORDINGS.glob("*/*.txt"))


@pytest.mark.parametrize("transport", ["live", "whole"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_captured_recording_is_parsed_as_served(path: Path, transport: str, inside: Inside, tmp_path: Path) -> None:
    """Only the ids of calls found in text differ."""
    raw = "-none-" in path.name and path.parent.name == "llama-server-agents"
    parse = "proxy" if raw else "server"
    text = f'models:\n  - {{match: "*", parse: {parse}, upstream: {transport}, server: llamacpp}}\n'
    script, streamed, status = served(path)
    agent = AGENTS.get(path.name.split("_")[0])
    tools = agent.body["tools"] if agent else [WRITE_FILE]
    request = chat(stream=streamed, tools=tools, stream_options={"include_usage": True})
    with Upstream(script) as server:
        response = inside(server.url, text, capture=str(tmp_path / "captures")).post(CHAT, json=request)
    # The proxy retries a reply without content, and the retry fails here.
    file, *_ = sorted((tmp_path / "captures").iterdir())
    captured = read_capture(file.read_bytes(), str(file))
    assert captured.body == path.read_bytes() and captured.status == status and captured.raw_text is raw
    result = reread(captured, Settings(), parse_rules(text.encode(), "rules.yaml", read_rules(None)))
    served_view = view_reply(response.data, streamed=streamed and response.status_code == 200)
    assert without_ids(result.after) == without_ids(served_view)
    assert served_view.choices or served_view.error


def without_ids(seen: ReplyView) -> tuple[str, list[tuple[str, str, list[tuple[str, str]], str | None]]]:
    """Return a client's view without the ids of calls."""
    choices = [(said.text, said.reasoning, said.calls, said.finish) for said in seen.choices.values()]
    return seen.error, choices


def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    (tmp_path / "a.capture").write_bytes(written(wire(says("ï\n" * 200_000), ends())))
    command = [sys.executable, "-m", "proxy", "parse", "--capture", "a.capture"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin", "PYTHONIOENCODING": "ascii"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout and running.stderr
        assert [running.stdout.readline() for _ in range(4)][3] == b"    \\xef\n"
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(PATIENCE) == 0
