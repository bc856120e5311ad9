"""The benchmarks run: what they print is a measurement, not a test; that they can be made at all is one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.scanner import BOUNDS, CASES
from benchmarks.targets import nginx_program
from benchmarks.write_call import BOUNDS as WRITE_CALL_BOUNDS
from benchmarks.write_call import ROWS
from tests.real.processes import ROOT


@pytest.mark.benchmarks
def test_one_run_measures_direct_nginx_and_proxy() -> None:
    """Every answer through every target was right, and each of the figures is there."""
    targets = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else []), "proxy"]
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--targets", ",".join(targets)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][1:] == targets
    figures = {row[0]: row[-1] for row in rows[2:]}
    for name in ("time to first event, median", "CPU us per event", "events/s", "gap p99", "KiB per idle stream"):
        found = [value for label, value in figures.items() if name in label]
        assert found and all(float(value) >= 0 for value in found)


@pytest.mark.benchmarks
def test_a_long_write_call_is_measured_live_and_whole() -> None:
    """Every answer held the very arguments, or the repaired ones; live they leave in pieces, whole in one."""
    command = [sys.executable, "-m", "benchmarks.write_call", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    names = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else [])]
    assert rows[0][1:] == [*names, "live", "whole", "repaired", "text"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in ROWS]
    figures = {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}
    events = figures["flat out: events at the client"]
    assert float(events["whole"]) < 10
    assert float(events["live"]) > 1_000
    first = figures["paced: first byte of content, median ms after it was due"]
    assert float(first["live"]) < float(first["whole"])
    assert all(bound.what in done.stdout for bound in WRITE_CALL_BOUNDS)


@pytest.mark.benchmarks
def test_the_scanner_is_measured_with_every_text() -> None:
    """None of them holds a call, and each has its speed and how it grows."""
    command = [sys.executable, "-m", "benchmarks.scanner", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert [row[0] for row in rows[2:]] == [case.name for case in CASES]
    assert all(float(value) > 0 for row in rows[2:] for value in row[1:])
    assert all(bound.what in done.stdout for bound in BOUNDS)
