"""Comparison of two trees: `python -m benchmarks.run --against COMMIT`.

The older commit is checked out into a separate folder, and both proxies and nginx run at the same time. Each round
measures them in turn, so that other load on the machine affects all of them. The results are the medians over the
rounds of each figure, and of the ratio between the two trees.
"""

from __future__ import annotations

import argparse
import configparser
import hashlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import measure, others, report, targets
from benchmarks.measure import Figures, Sizes
from benchmarks.progress import Progress
from benchmarks.targets import ROOT, Starter, Target

ROUNDS = 3
# Maximum time of a round; a normal one takes a third of it.
ROUND_SECONDS = 160
# Seconds over which the streams of one measurement start.
SPREAD = 2.0
_FEW = 50
_HELP_SECONDS = 60

ROWS: tuple[report.Row, ...] = (
    ("few.cpu_us", "50 streams x 50/s: CPU us per event", 1),
    ("few.ratio", "50 streams x 50/s: CPU, times nginx", 2),
    ("paced.cpu_us", "100 streams x 50/s: CPU us per event", 1),
    ("paced.ratio", "100 streams x 50/s: CPU, times nginx", 2),
    ("paced.gap_p99_ms", "100 streams x 50/s: gap p99 ms", 1),
    ("paced.late_p99_ms", "100 streams x 50/s: lateness p99 ms", 1),
    ("over.events_per_s", "400 x 50/s begun over 2 s: events/s", 0),
    ("over.cpu_us", "400 x 50/s begun over 2 s: CPU us per event", 1),
    ("over.first_p99_ms", "400 x 50/s begun over 2 s: first event, p99 ms", 1),
    ("over.gap_p99_ms", "400 x 50/s begun over 2 s: gap p99 ms", 1),
    ("over.busy", "400 x 50/s begun over 2 s: load, % of a core", 0),
    ("whole.cpu_ms", "whole answers: CPU ms per request", 2),
)


def compare(commit: str, sizes: Sizes, extra: Sequence[str], lifetime: float, number: int = ROUNDS) -> bool:
    """Measure nginx, the proxy of this tree and the proxy of `commit` in `number` rounds, and print the table.

    Return False if a measurement failed.
    """
    try:
        with ExitStack() as stack:
            port = stack.enter_context(targets.upstream(lifetime))
            older = stack.enter_context(tree_of(commit))
            starters: dict[str, Starter] = {
                "nginx": targets.nginx,
                commit: targets.proxy(extra, root=older, python=python_of(older)),
                "proxy": targets.proxy(extra),
            }
            running = dict(_started(stack, starters, port))
            progress = Progress("benchmarks", number * len(running))
            rows = [_round(each, running, sizes, progress) for each in range(1, number + 1)]
    except (targets.Unavailable, measure.Failed) as error:
        print(f"a measurement failed: {error}", file=sys.stderr)
        return False
    show(rows, ROWS, commit)
    return True


def show(measured: Sequence[report.Results], rows: Sequence[report.Row], commit: str) -> report.Results:
    """Print the medians of the rounds and, if there is an older tree, the ratios to it; return the medians."""
    results = {name: medians([row[name] for row in measured]) for name in measured[0]}
    print("\n".join(report.table(results, rows)))
    if commit in results:
        print(f"\nThis tree, in times of {commit}, the median of {len(measured)} x")
        print("\n".join(report.beside(rows, times(measured, commit, "proxy"))))
    return results


def rounds(text: str) -> int:
    """Parse the number of rounds from the command line."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one")
    return number


def _round(number: int, running: Mapping[str, Target], sizes: Sizes, progress: Progress) -> dict[str, Figures]:
    """Measure each target once."""
    row: dict[str, Figures] = {}
    for name, target in running.items():
        progress.step(f"round {number}, {name}")
        row[name] = _measure(target, sizes)
    _add_ratios(row)
    return row


def medians(measured: Sequence[Figures]) -> Figures:
    """Return the median of each figure over the rounds that have it."""
    found: Figures = {}
    for name in {name: None for figures in measured for name in figures}:
        known = [value for figures in measured if (value := figures.get(name)) is not None]
        found[name] = statistics.median(known) if known else None
    return found


def times(measured: Sequence[report.Results], older: str, newer: str) -> Figures:
    """Return the ratio newer/older of each figure: the median over the rounds that have both."""
    return medians([_times(row[older], row[newer]) for row in measured])


def _times(older: Figures, newer: Figures) -> Figures:
    """Return the ratios of one round, without figures that are missing or zero."""
    pairs = {name: (value, older.get(name)) for name, value in newer.items()}
    return {name: value / other for name, (value, other) in pairs.items() if value is not None and other}


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """Check out a commit into a temporary folder for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="bench-tree-") as folder:
        tree = Path(folder, "tree")
        add = ["git", "worktree", "add", "--quiet", "--detach", str(tree), commit]
        if subprocess.run(add, cwd=ROOT, check=False).returncode:
            raise targets.Unavailable(f"{commit} cannot be checked out")
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def python_of(tree: Path) -> str:
    """Return the Python for an older tree: this one, or another if this one lacks the tree's dependencies."""
    asked = subprocess.run(
        [sys.executable, "-m", "proxy", "--help"], cwd=tree, capture_output=True, timeout=_HELP_SECONDS, check=False
    )
    if asked.returncode == 0:
        return sys.executable
    setup = configparser.ConfigParser()
    setup.read(tree / "setup.cfg")
    needed = setup.get("options", "install_requires", fallback="").split("\n")
    packages = [package.strip() for package in needed if package.strip()]
    digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()
    return str(others.environment(f"bench-tree-{digest[:8]}", *packages) / "python")


def _started(stack: ExitStack, starters: dict[str, Starter], port: int) -> Iterator[tuple[str, Target]]:
    """Start and warm up every target that is available here."""
    for name, start in starters.items():
        try:
            target = stack.enter_context(start(port))
        except targets.Unavailable as error:
            if name != "nginx":
                raise
            print(f"{name}: {error}", file=sys.stderr)
            continue
        measure.warm(target)
        yield name, target


def _measure(target: Target, sizes: Sizes) -> Figures:
    """Return the figures of one round."""
    few = measure.paced(target, replace(sizes, paced_streams=_FEW))
    return {
        "few.cpu_us": few["paced.cpu_us"],
        **measure.paced(target, sizes),
        **measure.over(target, sizes, spread=SPREAD),
        "whole.cpu_ms": measure.whole(target, sizes)["whole.cpu_ms"],
    }


def _add_ratios(results: report.Results) -> None:
    least = results.get("nginx", {})
    for figures in results.values():
        for name in ("few", "paced"):
            cpu, bare = figures.get(f"{name}.cpu_us"), least.get(f"{name}.cpu_us")
            if cpu is not None and bare:
                figures[f"{name}.ratio"] = cpu / bare
