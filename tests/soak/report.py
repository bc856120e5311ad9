"""What the soak counts, and what it measures of the proxy's processes."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

import psutil

MIB = 2**20
# How much more the last third may have than the first one: a share of it, and a number. Memory: what the largest
# answers leave behind in the allocator differs from minute to minute; in ten minutes one kilobyte leaked by each
# request is 60 MiB. Threads and descriptors: how many requests are under way differs from moment to moment; one
# descriptor leaked by each hundredth request is hundreds.
MARGINS = {"memory, MiB": (0.03, 16.0), "threads": (0.1, 16.0), "descriptors": (0.1, 24.0)}


@dataclass(frozen=True)
class Sample:
    """All workers together at one moment."""

    moment: float
    values: tuple[float, float, float]


@dataclass
class Counts:
    """What happened. `unexpected` has a line for each thing that must not be."""

    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    clients: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    let_go: list[float] = field(default_factory=list)
    reloads: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    stale: int = 0


def measured(workers: list[psutil.Process]) -> tuple[float, float, float]:
    """Memory in MiB, threads and descriptors of these processes, in all."""
    return (
        sum(each.memory_info().rss for each in workers) / MIB,
        float(sum(each.num_threads() for each in workers)),
        float(sum(each.num_fds() for each in workers)),
    )


def growth(samples: list[Sample]) -> list[tuple[str, float, float, bool]]:
    """Of each value the median of the first third and of the last one, and whether that is flat."""
    third = max(1, len(samples) // 3)
    found: list[tuple[str, float, float, bool]] = []
    if not samples:
        return found
    for at, (name, (share, margin)) in enumerate(MARGINS.items()):
        first = statistics.median(each.values[at] for each in samples[:third])
        last = statistics.median(each.values[at] for each in samples[-third:])
        found.append((name, first, last, last <= first * (1 + share) + margin))
    return found


def curve(samples: list[Sample], points: int = 10) -> str:
    """The memory over the time, in so many medians."""
    size = max(1, len(samples) // points)
    parts = [samples[at : at + size] for at in range(0, size * points, size)]
    return " ".join(f"{statistics.median(each.values[0] for each in part):.0f}" for part in parts if part)


def table(title: str, counted: Counter[str]) -> str:
    """Names and numbers, the most frequent first, in lines of four."""
    cells = [f"{name}: {number:,}" for name, number in counted.most_common()]
    lines = [", ".join(cells[at : at + 6]) for at in range(0, len(cells), 6)]
    return "\n    ".join([title, *lines])
