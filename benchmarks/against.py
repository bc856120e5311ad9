"""Two trees beside each other: `python -m benchmarks.run --against COMMIT`.

The older commit is checked out into a folder of its own, and both proxies and nginx run at the same time. They are
measured in turn, round by round, so that whatever else the machine has to do meets all of them; of each figure the
median of the rounds counts.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import measure, report, targets
from benchmarks.measure import Figures, Sizes
from benchmarks.targets import ROOT, Starter, Target

ROUNDS = 3
# The streams of one measurement begin within so many seconds.
SPREAD = 2.0
_FEW = 50

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


def compare(commit: str, sizes: Sizes, extra: Sequence[str], lifetime: float, rounds: int = ROUNDS) -> bool:
    """Measure nginx, the proxy of `commit` and that of this tree; print the table. False if a measurement failed."""
    with ExitStack() as stack:
        port = stack.enter_context(targets.upstream(lifetime))
        older = stack.enter_context(tree_of(commit))
        starters: dict[str, Starter] = {
            "nginx": targets.nginx,
            commit: targets.proxy(extra, root=older),
            "proxy": targets.proxy(extra),
        }
        running = dict(_started(stack, starters, port))
        try:
            rows = [{name: _measure(target, sizes) for name, target in running.items()} for _ in range(rounds)]
        except measure.Failed as error:
            print(f"a measurement failed: {error}", file=sys.stderr)
            return False
    results = {name: medians([row[name] for row in rows]) for name in running}
    _add_ratios(results)
    print("\n".join(report.table(results, ROWS)))
    return True


def medians(rounds: Sequence[Figures]) -> Figures:
    """Return of each figure the median of the rounds that have it."""
    found: Figures = {}
    for name in rounds[0]:
        values = [figures[name] for figures in rounds]
        known = [value for value in values if value is not None]
        found[name] = statistics.median(known) if known else None
    return found


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """Check out a commit beside this tree, as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="bench-tree-") as folder:
        tree = Path(folder, "tree")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def _started(stack: ExitStack, starters: dict[str, Starter], port: int) -> Iterator[tuple[str, Target]]:
    """Start all that can be started here, and let each warm up."""
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
