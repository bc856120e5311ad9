"""Messages and Responses compared with chat: `python -m benchmarks.messages [--quick]`.

Measures the CPU per event and per whole request of `POST /v1/messages`, `POST /v1/responses` and `POST
/v1/chat/completions` in turn, with the same proxy, upstream script and load. Token counts in every chunk, which the
proxy requests from vLLM for Messages clients, are on and off. Every response is checked (`fronts.py`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from benchmarks import measure, report, run, targets
from benchmarks.measure import Asking, Figures, Sizes
from benchmarks.report import Row
from benchmarks.targets import Target

LIMIT_SECONDS = 200
FULL = Sizes(paced_streams=100, paced_seconds=2.0, flat_streams=20, flat_events=1_000, whole=200)
QUICK = Sizes(paced_streams=40, paced_seconds=1.0, flat_streams=10, flat_events=500, whole=60)
# Number of rounds for the medians.
ROUNDS = 3
# Model owners reported by the two upstreams. The proxy requests no counts from a server of unknown kind.
UNKNOWN = "somebody"

ROWS: tuple[Row, ...] = (
    ("paced.content_us", "paced: CPU us per event", 1),
    ("paced.ratio", "paced: CPU, times chat", 2),
    ("paced.first_p99_ms", "paced: time to first event, p99 ms", 1),
    ("paced.gap_p99_ms", "paced: gap p99 ms", 1),
    ("paced.late_ms", "paced: lateness median ms", 2),
    ("flat.content_us", "flat out: CPU us per event", 1),
    ("flat.ratio", "flat out: CPU, times chat", 2),
    ("flat.events_per_s", "flat out: events/s", 0),
    ("whole.cpu_ms", "whole: CPU ms per request", 2),
    ("whole.ratio", "whole: CPU, times chat", 2),
    ("whole.ms", "whole: time to answer, median ms", 2),
)
_RATIOS = (("paced.ratio", "paced.content_us"), ("flat.ratio", "flat.content_us"), ("whole.ratio", "whole.cpu_ms"))


@dataclass(frozen=True, slots=True)
class Column:
    """A measurement: the owner of the upstream's models, the request, and the column to compare it with."""

    name: str
    owner: str
    asking: Asking
    beside: str = "chat"


COLUMNS = (
    Column("chat", UNKNOWN, Asking("chat")),
    Column("messages", UNKNOWN, Asking("messages")),
    Column("responses", UNKNOWN, Asking("responses")),
    Column("chat, counts", "vllm", Asking("chat", counts=True)),
    Column("messages, counts", "vllm", Asking("messages", counts=True)),
)


def main() -> int:
    """Measure every column in each round and print the medians; return 1 if a response was wrong."""
    parser = argparse.ArgumentParser(description="the Messages and the Responses front beside the chat front")
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    options = parser.parse_args()
    run.bounded()
    sizes, rounds = (QUICK, 1) if options.quick else (FULL, ROUNDS)
    began = time.monotonic()
    seen: list[report.Results] = []
    with ExitStack() as stack:
        try:
            running = {owner: _started(stack, owner) for owner in dict.fromkeys(each.owner for each in COLUMNS)}
            for _ in range(rounds):
                seen.append({column.name: _figures(running[column.owner], column, sizes) for column in COLUMNS})
                compare(seen[-1])
        except (targets.Unavailable, measure.Failed) as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 1
    results = {column.name: _medians([figures[column.name] for figures in seen]) for column in COLUMNS}
    print("\n".join(report.table(results, ROWS)))
    print(f"\n{rounds} x, {time.monotonic() - began:.0f} s{', quick: the figures are coarse' if options.quick else ''}")
    return 0


def compare(results: report.Results) -> None:
    """Add the CPU ratio to `chat` to each column of a round. Both were measured shortly after each other."""
    for column in COLUMNS:
        if column.name not in results:
            continue
        figures, least = results[column.name], results[column.beside]
        for ratio, figure in _RATIOS:
            cpu, chats = figures.get(figure), least.get(figure)
            figures[ratio] = cpu / chats if cpu is not None and chats else None


def _started(stack: ExitStack, owner: str) -> Target:
    """Start an upstream with this owner and a proxy until the stack closes, and warm up the fronts."""
    port = stack.enter_context(targets.upstream(LIMIT_SECONDS, owner))
    target = stack.enter_context(targets.proxy()(port))
    for column in COLUMNS:
        if column.owner == owner:
            measure.warm(target, column.asking)
    return target


def _figures(target: Target, column: Column, sizes: Sizes) -> Figures:
    """Return the figures of a column in one round."""
    try:
        return {
            **measure.paced(target, sizes, column.asking),
            **measure.flat(target, sizes, column.asking),
            **measure.whole(target, sizes, column.asking),
        }
    except measure.Failed as error:
        raise measure.Failed(f"{column.name}: {error}") from error


def _medians(rounds: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    told = {name: [value for figures in rounds if (value := figures[name]) is not None] for name in rounds[0]}
    return {name: median(values) if values else None for name, values in told.items()}


if __name__ == "__main__":
    sys.exit(main())
