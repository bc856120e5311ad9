"""The benchmarks can be run. Their figures are not checked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import held
from benchmarks.targets import nginx_program
from tests.real.processes import ROOT


def ran(name: str, *words: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
    """Run a benchmark. Return the process and the cells of its tables."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line[:1] == "|"]
    return done, [[cell.strip() for cell in cells] for cells in lines]


@pytest.mark.slow
@pytest.mark.benchmarks
def test_one_run_measures_direct_nginx_and_proxy() -> None:
    """Every answer is correct for every target, and each figure is present."""
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
def test_targets_are_measured_against_nginx_and_another_tree() -> None:
    """Every answer is correct, and each figure is marked as met, not met or not measured."""
    done, rows = ran("held", "--quick", "--without", "aiohttp,LiteLLM", "--against", "HEAD")
    assert rows[0][-2:] == ["HEAD", "proxy"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in held.ROWS]
    figures = {figure: row[-2:] for (figure, _, _), row in zip(held.ROWS, rows[2:], strict=True)}
    # A difference of two measurements may be negative.
    coarse = (".ratio", ".litellm", ".more_ms")
    measured = [cells for figure, cells in figures.items() if not figure.endswith(coarse)]
    assert all(float(value) >= 0 for cells in measured for value in cells)
    assert all(figures[f"{name}.more_ms"][-1] != "-" for name in ("burst", "repair"))
    assert "\nThis tree, in times of HEAD" in done.stdout
    assert "benchmarks: 1/" in done.stderr
    said = done.stdout.partition("Numbers to hold\n")[2].splitlines()[: len(held.BOUNDS)]
    assert all(line.endswith(("met", "NOT MET", "not measured")) for line in said)
