"""`vllm-tool-proxy parse`: what it prints of a text, and its one line about bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.helpers import OFFERED
from tests.support.scripted import PATIENCE


@pytest.mark.slow
def test_the_command_runs_as_a_module_and_ends_quietly_when_nobody_reads(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(OFFERED))
    (tmp_path / "reply.txt").write_text("x\n" * 200_000)
    command = [sys.executable, "-m", "proxy", "parse", "reply.txt", "--tools", "tools.json"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout and running.stderr
        assert running.stdout.readline() == b"no call\n"
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(PATIENCE) == 0
