"""Measurements. Each takes a running target and returns its figures by name."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import truediv
from typing import Any

from benchmarks import processes
from benchmarks.targets import ROOT, Target

Figures = dict[str, float | None]

# Streams start at random times within a second, so that their events do not coincide.
SPREAD = 1.0
# Time limit of a measurement; the longest normal one takes a third of it.
LIMIT_SECONDS = 35.0
# Number of simultaneous requests, of streams next to them, and of chunks of a call of 100 kB.
AT_ONCE = 50
_BESIDE = 50
_REPAIR_EVENTS = 2_300
# Duration of the streams next to which gaps are measured, longer than any preparation may take.
_BESIDE_SECONDS = 120.0


class Failed(Exception):
    """A response was wrong, so the measurement is void."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the measurements."""

    first: int = 100
    paced_streams: int = 100
    paced_seconds: float = 10.0
    flat_streams: int = 50
    flat_events: int = 2_000
    over_streams: int = 400
    over_seconds: float = 4.0
    rate: float = 50.0
    whole: int = 500
    idle: int = 1_000
    bursts: int = 5
    window: float = 1.5


@dataclass(frozen=True, slots=True)
class Asking:
    """The front to test: `chat`, `messages` or `responses`. For chat, a kind of response instead: a `call`, a call
    `printed` as text that stays text or is `found`, or a call without escapes that stays `unescaped` or is `repaired`.

    `counts`: the server sends token counts in every chunk. A chat client requests that itself. For a Messages client,
    the proxy requests it if the server is vLLM.
    """

    front: str = "chat"
    counts: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Return the load generator's options."""
        return ("--front", self.front, *(("--counts",) if self.counts else ()))


CHAT = Asking()
MESSAGES = Asking("messages", counts=True)
FULL = Sizes()
QUICK = Sizes(
    first=20,
    paced_streams=50,
    paced_seconds=1.2,
    flat_streams=20,
    flat_events=600,
    over_streams=100,
    over_seconds=0.8,
    whole=40,
    idle=200,
    bursts=2,
    window=0.5,
)


def warm(target: Target, asking: Asking = CHAT) -> None:
    """Warm up a target with a few requests."""
    _load(target, 20, {"events": 20, "rate": 0}, *asking.options, parallel=4)
    _load(target, 10, {}, "--whole", *asking.options, parallel=1)


def first_event(target: Target, sizes: Sizes) -> Figures:
    """Return the milliseconds from connecting to the first event, one stream at a time."""
    seen = _load(target, sizes.first, {"events": 5, "rate": 0}, parallel=1)
    return {"first.ms": seen["first_ms"], "first.p99_ms": seen["first_p99_ms"]}


def paced(target: Target, sizes: Sizes, asking: Asking = CHAT) -> Figures:
    """Return CPU per event, gaps and lateness of streams at a normal rate."""
    events = int(sizes.paced_seconds * sizes.rate)
    bench = {"events": events, "rate": sizes.rate}
    seen, cpu = _load_and_cpu(target, sizes.paced_streams, bench, "--spread", str(SPREAD), *asking.options)
    return {
        "paced.cpu_us": _per(cpu, seen["events"], 1e6),
        "paced.content_us": _per(cpu, seen["content"], 1e6),
        "paced.first_p99_ms": seen["first_p99_ms"],
        "paced.gap_p99_ms": seen["gap_p99_ms"],
        "paced.late_ms": seen["late_ms"],
        "paced.late_p99_ms": seen["late_p99_ms"],
        "paced.busy": _per(cpu, seen["seconds"], 100.0),
    }


def cpu_per_event(target: Target, sizes: Sizes, asking: Asking, *, call: str = "") -> float | None:
    """Return the CPU microseconds per upstream event, including the whole cost of the request.

    `call`: the kind of call that the upstream writes, `right` or `printed`; text if empty.
    """
    events = int(sizes.paced_seconds * sizes.rate)
    bench: dict[str, Any] = {"events": events, "rate": sizes.rate}
    if call:
        bench["call"] = call
    _, cpu = _load_and_cpu(target, sizes.paced_streams, bench, "--spread", str(SPREAD), *asking.options)
    return _per(cpu, sizes.paced_streams * events, 1e6)


def cpu_under_way(target: Target, streams: int, rate: float) -> float:
    """Return the CPU microseconds per event of streams that are already running."""
    spread = max(1.0, streams / 200)
    settled, window = spread + 2.0, 4.0
    bench = {"events": int((settled + window + 2.0) * rate), "rate": rate}
    process = _generator(target, streams, bench, "--spread", str(spread), "--limit", str(4 * (settled + window)))
    try:
        time.sleep(settled)
        began, before = time.monotonic(), target.cpu()
        time.sleep(window)
        used, seconds = target.cpu() - before, time.monotonic() - began
        _checked(process.communicate(timeout=LIMIT_SECONDS + 5 * settled)[0])
    except subprocess.TimeoutExpired as error:
        raise Failed("the load generator did not end") from error
    finally:
        processes.stop(process)
    return used / (streams * rate * seconds) * 1e6


def ask_for_call(target: Target, events: int, piece: int) -> None:
    """Request a call in `events` events, most of them with `piece` characters of its content."""
    _load(target, 1, {"events": events, "rate": 0, "call": "right", "piece": piece}, "--front", "call")


def time_of_body(target: Target, file: str) -> float:
    """Return the median milliseconds of the whole response to the request in a file."""
    seen = _load(target, 15, {}, "--whole", "--body", file, parallel=1)
    return float(seen["first_ms"])


def flat(target: Target, sizes: Sizes, asking: Asking = CHAT) -> Figures:
    """Return the throughput when the upstream writes as fast as the sockets allow."""
    bench = {"events": sizes.flat_events, "rate": 0}
    seen, cpu = _load_and_cpu(target, sizes.flat_streams, bench, *asking.options)
    return _saturated("flat", seen, cpu)


def over(target: Target, sizes: Sizes, spread: float = 0.0) -> Figures:
    """Return the throughput under a paced load above one worker's target.

    `spread`: seconds over which the streams start.
    """
    bench = {"events": int(sizes.over_seconds * sizes.rate), "rate": sizes.rate}
    # A target with a fifth of the throughput is slow, but it does not fail.
    limit = max(LIMIT_SECONDS, 6 * sizes.over_seconds)
    seen, cpu = _load_and_cpu(target, sizes.over_streams, bench, "--spread", str(spread), limit=limit)
    return {**_saturated("over", seen, cpu), "over.late_p99_ms": seen["late_p99_ms"]}


def whole(target: Target, sizes: Sizes, asking: Asking = CHAT) -> Figures:
    """Return CPU and time of responses that are not streamed, one at a time."""
    seen, cpu = _load_and_cpu(target, sizes.whole, {}, "--whole", *asking.options, parallel=1)
    return {"whole.cpu_ms": _per(cpu, seen["answers"], 1e3), "whole.ms": seen["first_ms"]}


def burst(target: Target, sizes: Sizes) -> Figures:
    """Return the time of simultaneous whole responses, and its ratio to the same number of sequential ones: to their
    total time, and to their number times the median of one. Figures are medians of alternating pairs.
    """
    pairs = [(_whole_answers(target, at_once=False), _whole_answers(target, at_once=True)) for _ in range(sizes.bursts)]
    longest = [at_once["first_p99_ms"] for _, at_once in pairs]
    all_ms = [alone["seconds"] * 1e3 for alone, _ in pairs]
    medians = [AT_ONCE * alone["first_ms"] for alone, _ in pairs]
    return {
        "burst.p99_ms": statistics.median(longest),
        "burst.times": statistics.median(map(truediv, longest, all_ms)),
        "burst.medians": statistics.median(map(truediv, longest, medians)),
    }


def _whole_answers(target: Target, *, at_once: bool) -> dict[str, Any]:
    """Return the load generator's results for the whole responses of a burst."""
    return _load(target, AT_ONCE, {}, "--whole", parallel=0 if at_once else 1)


def gap_beside_burst(target: Target, sizes: Sizes) -> Figures:
    """Return the increase in the longest gap of paced streams while short streams start simultaneously."""
    return {"burst.more_ms": _longer_gap(target, sizes, AT_ONCE, {"events": 5, "rate": 0}, CHAT)}


def gap_beside_repair(target: Target, sizes: Sizes, asking: Asking) -> Figures:
    """Return the increase in the longest gap next to a call of 100 kB without backslashes; `asking`: its outcome."""
    bench = {"events": _REPAIR_EVENTS, "rate": 0, "call": "unescaped"}
    return {"repair.more_ms": _longer_gap(target, sizes, 1, bench, asking)}


def messages_paced(target: Target, sizes: Sizes) -> Figures:
    """Return the `paced` figures for Messages clients; none for targets without that front."""
    return _messages(paced, target, sizes, ("paced.content_us", "paced.gap_p99_ms", "paced.late_ms"))


def messages_whole(target: Target, sizes: Sizes) -> Figures:
    """Return the `whole` figures for Messages clients; none for targets without that front."""
    return _messages(whole, target, sizes, ("whole.cpu_ms", "whole.ms"))


def memory(target: Target, sizes: Sizes) -> Figures:
    """Return the worker's memory with idle streams open, and the time to the first byte of one more."""
    before = target.worker_rss()
    # 250 streams per second: the measurement is about memory, not speed.
    spread = max(1.0, sizes.idle / 250)
    silent = {"events": 1, "hold": 20.0 + 3.0 * spread}
    with _held_open(target, sizes.idle, silent, spread=spread, limit=15.0 + 3.0 * spread):
        time.sleep(0.3)
        during = target.worker_rss()
        more = _load(target, 1, {"events": 1, "rate": 0})
    known = target.pid is not None
    return {
        "idle.streams": sizes.idle,
        "idle.before_mb": before / 1e6 if known else None,
        "idle.during_mb": during / 1e6 if known else None,
        "idle.kib_per_stream": (during - before) / 1024 / sizes.idle if known else None,
        "idle.next_ms": more["first_ms"],
    }


def _longer_gap(target: Target, sizes: Sizes, streams: int, bench: dict[str, Any], asking: Asking) -> float:
    """Return the increase (ms) in the longest gap of paced streams next to other streams.

    Gaps from other causes, such as the upstream and the generator, occur in both measurements.
    """
    paced = {"events": int(_BESIDE_SECONDS * sizes.rate), "rate": sizes.rate}
    # Start the generator first: a starting Python process would cause gaps.
    beside = _generator(target, streams, bench, "--told", "--limit", str(LIMIT_SECONDS), *asking.options)
    try:
        assert beside.stdout is not None
        _checked(beside.stdout.readline())
        with _held_open(target, _BESIDE, paced, spread=SPREAD, limit=_BESIDE_SECONDS) as longest_gap:
            longest_gap()
            time.sleep(sizes.window)
            alone = longest_gap()
            until = time.monotonic() + sizes.window
            _ended(beside, "\n")
            time.sleep(max(0.0, until - time.monotonic()))
            return longest_gap() - alone
    finally:
        processes.stop(beside)


def _messages(
    how: Callable[[Target, Sizes, Asking], Figures], target: Target, sizes: Sizes, names: Sequence[str]
) -> Figures:
    """Return some figures of a measurement made through the Messages front."""
    if target.name != "proxy":
        return {}
    warm(target, MESSAGES)
    found = how(target, sizes, MESSAGES)
    return {f"messages.{name}": found[name] for name in names}


def _saturated(name: str, seen: dict[str, Any], cpu: float | None) -> Figures:
    """Return the figures of a run at full load, with names that begin with `name`."""
    return {
        f"{name}.first_p99_ms": seen["first_p99_ms"],
        f"{name}.events_per_s": seen["events_per_s"],
        f"{name}.cpu_us": _per(cpu, seen["events"], 1e6),
        f"{name}.content_us": _per(cpu, seen["content"], 1e6),
        f"{name}.gap_p99_ms": seen["gap_p99_ms"],
        f"{name}.gap_max_ms": seen["gap_max_ms"],
        f"{name}.busy": _per(cpu, seen["seconds"], 100.0),
        f"{name}.generator": seen["generator"] * 100.0,
    }


def _per(cpu: float | None, count: float, scale: float) -> float | None:
    """Return CPU seconds divided by `count`, times `scale`; None if the CPU was not measured."""
    return None if cpu is None else cpu / count * scale


def _load_and_cpu(
    target: Target,
    streams: int,
    bench: dict[str, Any],
    *more: str,
    parallel: int = 0,
    limit: float = LIMIT_SECONDS,
) -> tuple[dict[str, Any], float | None]:
    """Run the load generator; return its results and the CPU seconds used by the target."""
    before = target.cpu()
    seen = _load(target, streams, bench, *more, parallel=parallel, limit=limit)
    return seen, target.cpu() - before if target.pid else None


def _load(
    target: Target,
    streams: int,
    bench: dict[str, Any],
    *more: str,
    parallel: int = 0,
    limit: float = LIMIT_SECONDS,
) -> dict[str, Any]:
    """Run the load generator for at most `limit` seconds. Raise Failed if a response was wrong."""
    process = _generator(target, streams, bench, "--parallel", str(parallel), "--limit", str(limit), *more)
    try:
        return _ended(process, limit=limit)
    finally:
        processes.stop(process)


def _ended(process: subprocess.Popen[str], told: str | None = None, *, limit: float = LIMIT_SECONDS) -> dict[str, Any]:
    """Send `told` to a load generator, wait for its end, and return its results. Raise Failed on errors."""
    try:
        output, _ = process.communicate(told, timeout=limit + 5.0)
    except subprocess.TimeoutExpired as error:
        raise Failed("the load generator did not end") from error
    if process.returncode != 0:
        raise Failed(f"the load generator ended with {process.returncode}")
    return _checked(output)


@contextmanager
def _held_open(
    target: Target, streams: int, bench: dict[str, Any], *, spread: float, limit: float
) -> Iterator[Callable[[], float]]:
    """Hold streams open during the block; yield a function that returns the longest gap (ms) since its last call."""
    process = _generator(target, streams, bench, "--idle", "--spread", str(spread), "--limit", str(limit))
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def longest_gap() -> float:
        try:
            stdin.write("\n")
            stdin.flush()
        except OSError as error:
            raise Failed("the load generator has ended") from error
        told = _checked(stdout.readline())
        if told.get("streams") != streams:
            raise Failed(f"{told.get('streams', 0)} of {streams} streams are still open")
        return float(told["gap_ms"])

    try:
        opened = _checked(stdout.readline()).get("ready", 0)
        if opened != streams:
            raise Failed(f"{opened} of {streams} streams were opened")
        yield longest_gap
        process.stdin.close()
        _checked(process.stdout.readline())
    finally:
        processes.stop(process)


def _generator(target: Target, streams: int, bench: dict[str, Any], *more: str) -> subprocess.Popen[str]:
    """Start the load generator."""
    options: Sequence[str] = ("--url", target.url, "--streams", str(streams), "--bench", json.dumps(bench), *more)
    command = [sys.executable, "-m", "benchmarks.load", *options]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _checked(line: str) -> dict[str, Any]:
    """Return the results in a line. Raise Failed if it contains errors."""
    results: dict[str, Any] = json.loads(line or "{}")
    if results.get("errors"):
        raise Failed(", ".join(f"{count} x {reason}" for reason, count in results["errors"].items()))
    return results
