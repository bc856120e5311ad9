"""All measurements in one run: `python -m benchmarks.run [--quick]`; `--help` names the options."""

from __future__ import annotations

import argparse
import resource
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from benchmarks import against, measure, report, targets
from benchmarks.measure import Figures, Sizes
from benchmarks.progress import Progress
from benchmarks.targets import Starter, Target

FILES = 16_384
LIMIT_SECONDS = 240
Measurement = Callable[[Target, Sizes], Figures]

_ON_ONE: tuple[Measurement, ...] = (
    measure.first_event,
    measure.paced,
    # Directly after the figures they are compared with: a worker's earlier work changes its costs.
    measure.messages_paced,
    measure.flat,
    measure.over,
    measure.whole,
    measure.messages_whole,
)
# Memory is measured in a fresh process, because leftovers of other measurements would hide the memory of a stream.
_RUNS = (_ON_ONE, (measure.memory,))


def main() -> int:
    """Run the requested measurements and print table and verdicts; return 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description="benchmarks of the proxy beside nginx and the bare upstream")
    parser.add_argument("--quick", action="store_true", help="shorter measurements, for a first look")
    parser.add_argument("--targets", default="direct,nginx,proxy", help="which of them, with commas between")
    parser.add_argument("--proxy-args", default="", help="further options for the proxy's command line")
    parser.add_argument("--against", metavar="COMMIT", help="run the proxy of an older commit, and nginx, beside this")
    parser.add_argument("--rounds", type=against.rounds, default=against.ROUNDS, help="with --against: how many")
    options = parser.parse_args()
    bounded()
    known: dict[str, Starter] = {
        "direct": targets.direct,
        "nginx": targets.nginx,
        "proxy": targets.proxy(shlex.split(options.proxy_args)),
    }
    names = options.targets.split(",")
    if unknown := set(names) - set(known):
        parser.error(f"unknown target: {', '.join(sorted(unknown))}")
    sizes = measure.QUICK if options.quick else measure.FULL
    if options.against:
        limit = max(against.ROUNDS, options.rounds) * against.ROUND_SECONDS
        signal.alarm(limit)
        sizes = replace(sizes, paced_seconds=min(sizes.paced_seconds, 4.0), whole=min(sizes.whole, 200))
        extra = shlex.split(options.proxy_args)
        return 0 if against.compare(options.against, sizes, extra, limit, options.rounds) else 1
    began = time.monotonic()
    steps = len(names) * sum(map(len, _RUNS))
    progress = Progress("benchmarks", steps)
    with targets.upstream(LIMIT_SECONDS) as port:
        seen = {name: _measure(name, known[name], port, sizes, progress) for name in names}
    _print({name: figures for name, (figures, _) in seen.items()})
    print(f"\n{time.monotonic() - began:.0f} s{', quick: the figures are coarse' if options.quick else ''}")
    return 0 if all(good for _, good in seen.values()) else 1


def _measure(name: str, start: Starter, port: int, sizes: Sizes, progress: Progress) -> tuple[Figures, bool]:
    """Return the figures of one target, and whether all its measurements succeeded."""
    figures: Figures = {}
    good = True
    for measurements in _RUNS:
        try:
            with start(port) as target:
                measure.warm(target)
                for one in measurements:
                    progress.step(f"{name}, {one.__name__}")
                    good &= _one(one, target, sizes, figures)
        except (targets.Unavailable, measure.Failed) as error:
            print(f"{name}: {error}", file=sys.stderr)
            # A machine without nginx can still measure the proxy.
            return figures, isinstance(error, targets.Unavailable) and name != "proxy"
    return figures, good


def _one(one: Measurement, target: Target, sizes: Sizes, figures: Figures) -> bool:
    """Add the figures of one measurement; return whether it succeeded."""
    began = time.monotonic()
    try:
        figures.update(one(target, sizes))
    except measure.Failed as error:
        print(f"{target.name}, {one.__name__}: {error}", file=sys.stderr)
        return False
    print(f"{target.name}, {one.__name__}: {time.monotonic() - began:.1f} s", file=sys.stderr)
    return True


def _print(results: report.Results) -> None:
    """Print the table and the verdicts."""
    report.compare(results)
    print("\n".join(report.table(results)))
    print("\nNumbers to hold")
    print("\n".join(report.verdicts(results.get("proxy", {}))))


def bounded(seconds: int = LIMIT_SECONDS) -> None:
    """Raise the limit of open files for 1,000 streams, and end the run and its processes after `seconds`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _end)
    signal.alarm(seconds)


def _end(number: int, frame: FrameType | None) -> None:
    """Raise an exception, so that every block stops the processes it started."""
    raise SystemExit(f"ended by {signal.Signals(number).name}")


if __name__ == "__main__":
    sys.exit(main())
