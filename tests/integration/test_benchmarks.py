"""The benchmarks run: what they print is a measurement, not a test; that they can be made at all is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import growth, held
from benchmarks.hostile import BOUNDS as HOSTILE_BOUNDS
from benchmarks.hostile import KINDS as HOSTILE_KINDS
from benchmarks.messages import COLUMNS
from benchmarks.messages import ROWS as MESSAGES_ROWS
from benchmarks.scanner import BOUNDS, CASES
from benchmarks.targets import nginx_program
from benchmarks.write_call import BOUNDS as WRITE_CALL_BOUNDS
from benchmarks.write_call import ROWS
from tests.real.processes import ROOT


def ran(name: str, *words: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
    """A benchmark that ended well, and the cells of its tables."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line[:1] == "|"]
    return done, [[cell.strip() for cell in cells] for cells in lines]


@pytest.mark.slow
@pytest.mark.benchmarks
def test_one_run_measures_direct_nginx_and_proxy() -> None:
    """Every answer through every target was right, and each of the figures is there."""
    targets = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else []), "proxy"]
    done, rows = ran("run", "--quick", "--targets", ",".join(targets))
    assert rows[0][1:] == targets
    steps = [line for line in done.stderr.splitlines() if line.startswith("benchmarks: ")]
    assert steps[0].startswith(f"benchmarks: 1/{len(steps)} ") and len(steps) == 8 * len(targets)
    figures = {row[0]: row[-1] for row in rows[2:]}
    names = ("time to first event, median", "CPU us per event", "events/s", "gap p99", "KiB per idle stream")
    for name in (*names, "Messages, paced: CPU, times (b)", "Messages, whole: CPU, times (d)"):
        found = [value for label, value in figures.items() if name in label]
        assert found and all(float(value) >= 0 for value in found)


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_what_is_held_is_measured_beside_nginx_and_an_older_tree() -> None:
    """Every answer was right, a live call's as well, and each number is told as met, as not met, or not measured."""
    done, rows = ran("held", "--quick", "--without", "aiohttp,LiteLLM", "--against", "HEAD")
    assert rows[0][-2:] == ["HEAD", "proxy"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in held.ROWS]
    figures = {figure: row[-2:] for (figure, _, _), row in zip(held.ROWS, rows[2:], strict=True)}
    # What is measured as a difference may be less than nothing.
    coarse = (".ratio", ".litellm", ".more_ms")
    measured = [cells for figure, cells in figures.items() if not figure.endswith(coarse)]
    assert all(float(value) >= 0 for cells in measured for value in cells)
    assert all(figures[f"{name}.more_ms"][-1] != "-" for name in ("burst", "repair"))
    assert "\nThis tree, in times of HEAD" in done.stdout
    assert "benchmarks: 1/" in done.stderr
    said = done.stdout.partition("Numbers to hold\n")[2].splitlines()[: len(held.BOUNDS)]
    assert all(line.endswith(("met", "NOT MET", "not measured")) for line in said)


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_growth_is_measured(tmp_path: Path) -> None:
    """Every answer was right; what cannot be drawn here is told in numbers all the same."""
    command = [sys.executable, "-m", "benchmarks.growth", "--quick", "--folder", str(tmp_path)]
    nowhere = {**os.environ, "BENCH_ENVIRONMENTS": "/dev/null"}
    done = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no plots: " in done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    sizes = [size for sweep in growth.SWEEPS for size in (sweep.size, "---:", *(f"{n:,}" for n in sweep.sizes[:2]))]
    assert rows == sizes


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_a_long_write_call_is_measured() -> None:
    """Every answer held the very arguments, or the repaired ones; they leave in pieces."""
    done, rows = ran("write_call", "--quick")
    names = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else [])]
    assert rows[0][1:] == [*names, "live", "repaired", "text"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in ROWS]
    figures = {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}
    events = figures["flat out: events at the client"]
    assert float(events["live"]) > 1_000
    assert all(bound.what in done.stdout for bound in WRITE_CALL_BOUNDS)


@pytest.mark.benchmarks
def test_the_scanner_is_measured_with_every_text() -> None:
    """None of them holds a call, and each has its speed and how it grows."""
    done, rows = ran("scanner", "--quick")
    assert [row[0] for row in rows[2:]] == [case.name for case in CASES]
    assert all(float(value) > 0 for row in rows[2:] for value in row[1:])
    assert all(bound.what in done.stdout for bound in BOUNDS)


@pytest.mark.slow
@pytest.mark.benchmarks
def test_hostile_text_is_measured_by_kind() -> None:
    """None of it holds a call, and each kind has its speed."""
    done, rows = ran("hostile", "--quick")
    rows = [cells[-3:] for cells in rows]
    assert len(rows) == 2 + len(HOSTILE_KINDS)
    assert all(float(value) > 0 for row in rows[2:] for value in row)
    assert all(bound.what in done.stdout for bound in HOSTILE_BOUNDS)


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_the_messages_front_is_measured_beside_the_chat_front() -> None:
    """Every answer was right, with counts and without, and what a column costs beside `chat` is told."""
    rows = ran("messages", "--quick")[1]
    assert rows[0][1:] == [column.name for column in COLUMNS]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in MESSAGES_ROWS]
    figures = {row[0]: row[1:] for row in rows[2:]}
    for what in ("paced", "flat out", "whole"):
        ratios = figures[f"{what}: CPU, times chat"]
        assert ratios[0] == "1.00"
        assert all(float(ratio) > 0 for ratio in ratios)
