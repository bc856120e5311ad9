"""Cost of the live page: `python -m benchmarks.watched [--quick]`.

Three proxies of this tree run in front of one upstream: one without the live page, one with an open page and metrics
scraped every second, and one that also keeps the content of requests. Each round measures them in turn, so that other
load affects all of them. The median of the rounds counts.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

from benchmarks import measure, targets
from benchmarks.measure import FULL, QUICK, Sizes
from benchmarks.run import bounded
from benchmarks.targets import Target

ROUNDS = 7
QUICK_ROUNDS = 3
# Maximum ratio of CPU per event with the page open to that without it.
BOUND = 1.10
SCRAPE_SECONDS = 1.0
LIFETIME = 480.0
# Proxies by name, with their additional options. All but the first have the page open.
OFF, OPEN, VALUES = "no page", "page open, metrics scraped", "the same, with what was said kept"
PROXIES = {OFF: ("--no-ui",), OPEN: (), VALUES: ("--audit-values",)}


def main() -> int:
    """Measure, print the medians and the ratios; return 1 if a ratio exceeds BOUND."""
    parser = argparse.ArgumentParser(description="what the open live page and the scraped metrics cost, per event")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, for a first look")
    parser.add_argument("--streams", type=int, default=FULL.paced_streams, help="streams at 50 events/s")
    options = parser.parse_args()
    bounded(2 * int(LIFETIME))
    sizes = replace(QUICK if options.quick else replace(FULL, paced_seconds=4.0), paced_streams=options.streams)
    try:
        costs = medians(sizes, QUICK_ROUNDS if options.quick else ROUNDS)
    except (targets.Unavailable, measure.Failed) as error:
        print(error, file=sys.stderr)
        return 1
    for line in report(costs):
        print(line)
    return 0 if costs[OPEN] <= BOUND * costs[OFF] else 1


def report(costs: dict[str, float]) -> Iterator[str]:
    """Yield a line for each proxy: CPU per event, and its ratio to the proxy without a page."""
    for name, cost in costs.items():
        yield f"{name:<36} {cost:7.1f} us of CPU per event, {cost / costs[OFF]:.2f} times"
    verdict = "held" if costs[OPEN] <= BOUND * costs[OFF] else "NOT held"
    yield f"{OPEN}: at most {BOUND:.2f} times: {verdict}"


def medians(sizes: Sizes, rounds: int) -> dict[str, float]:
    """Return the median CPU per event of each proxy, in microseconds."""
    seen: dict[str, list[float]] = {name: [] for name in PROXIES}
    with ExitStack() as stack:
        port = stack.enter_context(targets.upstream(LIFETIME))
        running = {name: stack.enter_context(targets.proxy(flags)(port)) for name, flags in PROXIES.items()}
        for target in running.values():
            measure.warm(target)
        for _ in range(rounds):
            for name, target in running.items():
                seen[name].append(_cost(name, target, sizes))
    return {name: statistics.median(costs) for name, costs in seen.items()}


def _cost(name: str, target: Target, sizes: Sizes) -> float:
    if name == OFF:
        cost = measure.paced(target, sizes)["paced.cpu_us"]
    else:
        with looked_at(target):
            cost = measure.paced(target, sizes)["paced.cpu_us"]
    assert cost is not None, "the proxy is a process"
    return cost


@contextmanager
def looked_at(target: Target) -> Iterator[None]:
    """Keep the live page open and scrape the metrics during the block."""
    over = threading.Event()
    thread = threading.Thread(target=_look, args=(target, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _look(target: Target, over: threading.Event) -> None:
    newest = 0
    while not over.wait(SCRAPE_SECONDS):
        requests = json.loads(_get(target, f"/_ui/state?after={newest}"))["requests"]
        newest = requests[-1]["number"] if requests else newest
        _get(target, "/metrics")


def _get(target: Target, path: str) -> bytes:
    with closing(http.client.HTTPConnection("127.0.0.1", target.port, timeout=measure.LIMIT_SECONDS)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise measure.Failed(f"{path} answered {answer.status}")
        return answer.read()


if __name__ == "__main__":
    sys.exit(main())
