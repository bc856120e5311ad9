"""`setup` and `doctor` on a system without epoll and eventfd, as macOS is."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDING = """
import os, select, sys
for module, start in ((select, "epoll"), (select, "EPOLL"), (os, "eventfd"), (os, "EFD_")):
    for name in [name for name in dir(module) if name.startswith(start)]:
        delattr(module, name)
from proxy.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "command",
    [("doctor", "--upstream", "http://127.0.0.1:1"), ("setup", "sdk", "--url", "http://127.0.0.1:1")],
    ids=lambda words: words[0],
)
def test_a_command_reaches_its_server_without_epoll_and_eventfd(command: tuple[str, ...]) -> None:
    """Nothing listens there, and one sentence says so."""
    words = [sys.executable, "-c", HIDING, *command]
    ended = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 3 and ended.stdout == ""
    assert ended.stderr.startswith("vllm-tool-proxy: error: connection refused at http://127.0.0.1:1; ")
