"""Process figures from /proc, and the end of processes that we started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

# Low bits of the id of a process's CPU clock (clock_getcpuclockid(3)), which includes threads that have ended.
_CPU_CLOCK = 2


def family(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU time, user and system, that these processes have used so far.

    `/proc/PID/stat` counts ticks of 10 ms, which is too coarse: nginx needs three or four of them for 300 responses.
    """
    used = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has ended
            used += time.clock_gettime(~pid << 3 | _CPU_CLOCK)
    return used


def rss(pid: int, *, highest: bool = False) -> int:
    """Return the resident bytes of a process, or their peak with `highest`; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    name = "VmHWM:" if highest else "VmRSS:"
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def stop(process: subprocess.Popen[str], patience: float = 5.0) -> None:
    """Terminate a process that we started. After `patience` seconds, kill it and its children by pid."""
    pids = family(process.pid) if process.poll() is None else []
    if pids:
        process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # The master stops its workers. Kill any that remain.
    until = time.monotonic() + 2.0
    while (left := [pid for pid in pids if _stat(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty if the process has ended or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    # The process name before them is in parentheses and may contain spaces.
    fields = text.rpartition(")")[2].split()
    return [] if fields[0] == "Z" else fields
