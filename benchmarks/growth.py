"""Cost as work grows: `python -m benchmarks.growth [--quick] [--folder FOLDER]`.

Prints four tables and draws each as a PNG: CPU per event by number of streams, added time by size of the history and by
number of tools, and the worker's memory by size of one argument. Below each is the steepest growth of cost relative to
work. matplotlib is installed in a separate environment; without it, only the tables are printed.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import body, measure, others, processes, run, targets
from benchmarks.targets import ROOT, Target, Unavailable

LIMIT_SECONDS = 900
_DRAW = Path(__file__).with_name("draw.py")
# Total events per second. Small numbers of streams have 50 events per second each.
_EVENTS_PER_SECOND = 4_000
_RATE = 50.0
# Size in bytes of the pieces of a large argument.
_PIECE = 4_096
# Raise the limit for one call to the measured sizes; the default is 4 MB.
_LARGE_CALLS = ("--max-held", str(64 * 1024 * 1024))
KB, MB = 1_024, 1_024 * 1_024


@dataclass(frozen=True, slots=True)
class Sweep:
    """One measurement at several sizes. The quick run uses the first few."""

    name: str
    size: str
    cost: str
    sizes: tuple[int, ...]
    cost_of: Callable[[int, int], float]


def cpu_per_event(port: int, streams: int) -> float:
    """Return the CPU microseconds per event of running streams, without the cost of requests."""
    rate = min(_RATE, _EVENTS_PER_SECOND / streams)
    with targets.proxy(("--max-streams", "2100"))(port) as target:
        measure.warm(target)
        return measure.cpu_under_way(target, streams, rate)


def added_by_history(port: int, size: int) -> float:
    """Return the milliseconds that the proxy adds to a whole response, with a history of `size` bytes."""
    said = "The tests pass now, and the loop decides what to send next by the earliest deadline. " * 12
    turns: list[dict[str, Any]] = []
    while len(turns) * len(said) < size:
        turns.append({"role": ("user", "assistant")[len(turns) % 2], "content": said})
    asked = body.request({}, stream=False)
    asked["messages"] = [asked["messages"][0], *turns, asked["messages"][1]]
    return _added(port, asked)


def added_by_tools(port: int, count: int) -> float:
    """Return the milliseconds that the proxy adds to a whole response, with `count` tools."""
    known = body.tools()
    asked = body.request({}, stream=False)
    asked["tools"] = []
    for number in range(count):
        tool = known[number % len(known)]
        function = {**tool["function"], "name": f"{tool['function']['name']}_{number}"}
        asked["tools"].append({**tool, "function": function})
    return _added(port, asked)


def memory_of_argument(port: int, size: int) -> float:
    """Return the peak growth in MB of the worker's memory, for a call with an argument of `size` bytes."""
    events = max(20, size // _PIECE + 20)
    with targets.proxy(_LARGE_CALLS)(port) as target:
        measure.warm(target)
        before = target.worker_rss()
        measure.ask_for_call(target, events, min(_PIECE, size))
        return max(0, _highest(target) - before) / 1e6


def _highest(target: Target) -> int:
    """Return the peak memory of the target's worker in bytes."""
    assert target.pid is not None
    pids = processes.family(target.pid)
    return max(processes.rss(pid, highest=True) for pid in pids[1:] or pids)


def _added(port: int, asked: dict[str, Any]) -> float:
    """Return the median milliseconds of a whole response through the proxy minus the median without it."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file, targets.proxy()(port) as target:
        json.dump(asked, file)
        file.flush()
        measure.warm(target)
        through = measure.time_of_body(target, file.name)
        return through - measure.time_of_body(Target("direct", port), file.name)


SWEEPS = (
    Sweep("streams", "streams", "CPU us per event", (1, 10, 50, 100, 300, 1_000, 2_000), cpu_per_event),
    Sweep("history", "bytes of history", "ms added", (10 * KB, 100 * KB, MB, 4 * MB, 8 * MB), added_by_history),
    Sweep("tools", "tools", "ms added", (1, 10, 50, 200, 500), added_by_tools),
    Sweep("argument", "bytes of one argument", "MB more", (KB, 64 * KB, MB, 4 * MB, 16 * MB), memory_of_argument),
)


def main() -> int:
    """Measure, print, draw; return 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description="cost as work grows")
    parser.add_argument("--quick", action="store_true", help="the two smallest sizes of each, for a first look")
    parser.add_argument("--folder", default=str(ROOT / ".cache" / "benchmarks"), help="where the PNGs go")
    options = parser.parse_args()
    run.bounded()
    signal.alarm(LIMIT_SECONDS)
    found: dict[str, list[tuple[int, float]]] = {}
    try:
        with targets.upstream(LIMIT_SECONDS) as port:
            for sweep in SWEEPS:
                sizes = sweep.sizes[:2] if options.quick else sweep.sizes
                found[sweep.name] = [(size, sweep.cost_of(port, size)) for size in sizes]
                print("\n".join(table(sweep, found[sweep.name])), flush=True)
    except (measure.Failed, Unavailable) as error:
        print(f"a measurement failed: {error}", file=sys.stderr)
        return 1
    _draw(found, Path(options.folder))
    return 0


def table(sweep: Sweep, points: Sequence[tuple[int, float]]) -> list[str]:
    """Return the lines of a table, including the steepest growth."""
    lines = [f"| {sweep.size} | {sweep.cost} |", "| ---: | ---: |"]
    lines += [f"| {size:,} | {cost:.2f} |" for size, cost in points]
    power, size, more = steepest(points)
    said = f"the cost grew by the work's power {power:.2f} at most, from {size:,} to {more:,}"
    return [*lines, f"\n{sweep.name}: {said}\n"]


def steepest(points: Sequence[tuple[int, float]]) -> tuple[float, int, int]:
    """Return the largest growth exponent between neighbouring sizes, and the two sizes; 1 is linear."""
    return max((_power(one, other), one[0], other[0]) for one, other in pairwise(points))


def _power(one: tuple[int, float], other: tuple[int, float]) -> float:
    """Return the growth exponent between two points; 0 if a cost is not positive."""
    (size, cost), (more, most) = one, other
    if cost <= 0 or most <= 0:
        return 0.0
    return math.log(most / cost) / math.log(more / size)


def _draw(found: dict[str, list[tuple[int, float]]], folder: Path) -> None:
    """Draw the results if matplotlib is available."""
    try:
        programs = others.environment("bench-plots", "matplotlib")
    except Unavailable as error:
        print(f"no plots: {error}", file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    plots = [
        {"file": str(folder / f"{sweep.name}.png"), "x": sweep.size, "y": sweep.cost, "points": found[sweep.name]}
        for sweep in SWEEPS
    ]
    command = [str(programs / "python"), str(_DRAW)]
    done = subprocess.run(command, input=json.dumps(plots), text=True, check=False)
    if done.returncode == 0:
        print(f"plots: {folder}")


if __name__ == "__main__":
    sys.exit(main())
