"""A proxy that is a fork ends and refuses as the command does."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import clean_environment
from tests.real.processes import ROOT, answers, free_port
from tests.support import fork_server
from tests.support.scripted import PATIENCE

pytestmark = pytest.mark.once


def test_what_is_refused_at_the_start_ends_with_its_exit_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = fork_server.serve(["--prot", "8004"], ROOT, clean_environment(), log)
    process.join(PATIENCE)
    assert process.exitcode == 2
    assert "No such option '--prot'" in log.read_text()


def test_it_serves_from_its_folder_and_ends_in_order(tmp_path: Path) -> None:
    port = free_port()
    words = ["--upstream", "http://127.0.0.1:9", "--port", str(port)]
    process = fork_server.serve(words, tmp_path, clean_environment(), tmp_path / "log")
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert process.is_alive() and time.monotonic() < deadline
        assert process.pid is not None
        # glibc reads it when a process begins: it must be the fork server's.
        assert psutil.Process(process.pid).environ()["MALLOC_ARENA_MAX"] == "2"
    finally:
        fork_server.end(process)
    assert process.exitcode == 0
    assert "rules: built-in" in (tmp_path / "log").read_text()
