"""The audit file: its records, its owner, concurrent writers, rotation, and a full disk."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

from proxy.server.audit_log import AuditFile
from tests.unit.server.test_audit_log import (
    _path,  # noqa: F401
    parsed,
)

WRITER = """
import sys
from proxy.server.audit_log import AuditFile
file = AuditFile(sys.argv[1], 2**20)
for number in range(400):
    assert file.write(f'{{"by": "{sys.argv[2]}", "number": {number}}}\\n'.encode() * 2)
"""


def test_rotation_while_workers_write_loses_no_record(path: Path) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(name)]) for name in range(4)]
    moved = 0
    while any(worker.poll() is None for worker in workers):
        if path.exists():
            moved += 1
            path.rename(path.with_suffix(f".{moved}"))
        time.sleep(0.005)
    assert [worker.wait(60) for worker in workers] == [0] * 4 and moved > 1
    records = [record for name in path.parent.iterdir() for record in parsed(name.read_bytes())]
    assert len(records) == 4 * 400 * 2
    assert {(record["by"], record["number"]) for record in records} == {
        (str(name), number) for name in range(4) for number in range(400)
    }


def test_threads_of_one_worker_lose_no_record(path: Path) -> None:
    file = AuditFile(str(path), 2**20)

    def work() -> None:
        for _ in range(50):
            assert file.write(b"x" * 99 + b"\n")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.stat().st_size == 8 * 50 * 100


def test_a_full_disk_leaves_no_partial_record(path: Path) -> None:
    """A file size limit simulates the full disk: the system writes as much as fits."""
    code = f"""
import resource, signal
from proxy.server.audit_log import AuditFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (150, {resource.getrlimit(resource.RLIMIT_FSIZE)[1]}))
file = AuditFile({str(path)!r}, 4096)
print([file.write(b"x" * 99 + b"\\n") for _ in range(3)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[True, False, False]\n" and done.stderr.count("cannot be written") == 1
    assert path.read_bytes() == b"x" * 99 + b"\n"
