"""The file of stored responses on a full disk."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.real.processes import ROOT

FULL = f"""
import resource, sys
from proxy.errors import Unavailable
from proxy.server.shared_file import ResponseStore
from proxy.server.shared_file import SharedFile

kept = ResponseStore(SharedFile(sys.argv[1]), "a")
kept.keep({{"id": "resp_1"}}, [])
resource.setrlimit(resource.RLIMIT_FSIZE, (262144, {resource.RLIM_INFINITY}))
try:
    kept.keep({{"id": "resp_2", "output": "x" * 1_000_000}}, [])
except Unavailable as error:
    print(error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, ({resource.RLIM_INFINITY}, {resource.RLIM_INFINITY}))
print(kept.response("resp_1"), kept.response("resp_2"))
"""


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    """The process continues, and the store works again once there is space."""
    command = [sys.executable, "-c", FULL, str(tmp_path / "kept.db")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told, rest = done.stdout.splitlines()
    assert "the file that the workers share cannot be used" in told
    assert rest == "{'id': 'resp_1'} None"
