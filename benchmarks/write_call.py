"""Latency of a long `write` call, token by token: `python -m benchmarks.write_call [--quick]`.

Measures the time to the first byte of `content`, the lateness of later bytes, the total time and the CPU per event:
directly, through nginx, and through the proxy. Every response is checked: its arguments must be the bytes that were
sent, or their repaired form.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median
from typing import Any

from benchmarks import body, report, run, script, targets
from benchmarks.fronts import STAMP
from benchmarks.load import quantile
from benchmarks.measure import Failed, Figures
from benchmarks.reply import Events, Reply
from benchmarks.report import Bound
from benchmarks.targets import Starter, Target

TOKENS = 10_000
RATE = 200.0
TOGETHER = 20
TIMEOUT_SECONDS = 30.0
_RECEIVE = 1 << 18

ROWS = (
    ("paced.first_ms", "paced: first byte of content, median ms after it was due", 2),
    ("paced.first_most_ms", "paced: first byte of content, the most", 2),
    ("paced.late_ms", "paced: lateness of the others, median ms", 2),
    ("paced.late_p99_ms", "paced: lateness of the others, p99 ms", 2),
    ("paced.cpu_us", "paced: CPU us per event", 1),
    ("together.cpu_us", "paced, 20 calls at once: CPU us per event", 1),
    ("flat.first_ms", "flat out: first byte of content, ms after the request", 1),
    ("flat.total_ms", "flat out: all of it, ms after the request", 0),
    ("flat.cpu_us", "flat out: CPU us per event", 1),
    ("flat.events", "flat out: events at the client", 0),
)
BOUNDS = (Bound("first byte of a string parameter", "paced.first_most_ms", most=20.0, unit="ms"),)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the measurements: calls, and tokens per call."""

    paced_calls: int = 10
    paced_tokens: int = 300
    flat_calls: int = 5
    flat_tokens: int = TOKENS


FULL = Sizes()
QUICK = Sizes(paced_calls=3, paced_tokens=60, flat_calls=2, flat_tokens=2_000)


@dataclass(frozen=True, slots=True)
class Column:
    """A measurement: a target, and the upstream's response: a `right` call, a `wrong` one, or text if empty."""

    name: str
    start: Starter
    call: str = "right"


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected response, and the end position of each event's part of the content.

    `before` is the number of characters before the content, `first` the number of the content's first event.
    """

    text: str
    before: int
    first: int
    ends: tuple[int, ...]


@dataclass(slots=True)
class Seen:
    """One response as received: its text, the arrival times of its parts, and the other fields."""

    opened: float
    closed: float = 0.0
    text: str = ""
    lengths: list[tuple[float, int]] = field(default_factory=list)
    events: int = 0
    begun: float = 0.0
    names: list[str] = field(default_factory=list)
    finish: str = ""
    done: bool = False


def main() -> int:
    """Measure every column, print the table and the verdict; return 1 if a response was wrong."""
    parser = argparse.ArgumentParser(description="a long write call, live and whole")
    parser.add_argument("--quick", action="store_true", help="shorter calls, for a first look")
    sizes = QUICK if parser.parse_args().quick else FULL
    run.bounded()
    results: report.Results = {}
    began = time.monotonic()
    columns = _columns()
    with targets.upstream(run.LIMIT_SECONDS) as port:
        for column in columns:
            try:
                with column.start(port) as target:
                    results[column.name] = _figures(target, column, sizes)
            except (targets.Unavailable, Failed) as error:
                print(f"{column.name}: {error}", file=sys.stderr)
                if column.name != "nginx" or isinstance(error, Failed):
                    return 1
    print("\n".join(report.table(results, ROWS)))
    print("\nNumber to hold, live")
    print("\n".join(report.held(BOUNDS, results["live"])))
    print(f"\n{time.monotonic() - began:.0f} s{', quick: the figures are coarse' if sizes is QUICK else ''}")
    return 0


def _columns() -> tuple[Column, ...]:
    """Return the measurements."""
    live = targets.proxy()
    return (
        Column("direct", targets.direct),
        Column("nginx", targets.nginx),
        Column("live", live),
        Column("repaired", live, call="wrong"),
        Column("text", live, call=""),
    )


def _figures(target: Target, column: Column, sizes: Sizes) -> Figures:
    """Return all figures of a column."""
    return {
        **_paced(target, column, sizes),
        **_together(target, column, sizes),
        **_flat(target, column, sizes),
    }


def _paced(target: Target, column: Column, sizes: Sizes) -> Figures:
    """Return the lateness of the content and the CPU per event, with one call at a time."""
    bench = {"events": sizes.paced_tokens, "rate": RATE, "call": column.call}
    seen, cpu = _series(target, bench, sizes.paced_calls)
    expected = _expected(column.call, sizes.paced_tokens)
    late = [[*_lateness(one, expected)] for one in seen]
    return {
        "paced.first_ms": median(one[0] for one in late) * 1e3,
        "paced.first_most_ms": max(one[0] for one in late) * 1e3,
        "paced.late_ms": quantile([moment for one in late for moment in one[1:]], 0.5),
        "paced.late_p99_ms": quantile([moment for one in late for moment in one[1:]], 0.99),
        "paced.cpu_us": _per_event(cpu, sizes.paced_calls * sizes.paced_tokens),
    }


def _together(target: Target, column: Column, sizes: Sizes) -> Figures:
    """Return the CPU per event with concurrent calls whose events do not coincide."""
    bench = {"events": sizes.paced_tokens, "rate": RATE, "call": column.call}
    expected = _expected(column.call, sizes.paced_tokens)
    before = target.cpu()
    with ThreadPoolExecutor(TOGETHER) as pool:
        answers = []
        for _ in range(TOGETHER):
            answers.append(pool.submit(_answer, target, bench))
            time.sleep(1 / RATE / TOGETHER)
        seen = [answer.result() for answer in answers]
    cpu = target.cpu() - before if target.pid else None
    for one in seen:
        _checked(one, column.call, expected)
    return {"together.cpu_us": _per_event(cpu, TOGETHER * sizes.paced_tokens)}


def _flat(target: Target, column: Column, sizes: Sizes) -> Figures:
    """Return the time of a call and the CPU per event, as fast as the sockets allow."""
    seen, cpu = _series(target, {"events": sizes.flat_tokens, "rate": 0, "call": column.call}, sizes.flat_calls)
    expected = _expected(column.call, sizes.flat_tokens)
    first = [next(when for when, length in one.lengths if length > expected.before) - one.opened for one in seen]
    return {
        "flat.first_ms": median(first) * 1e3,
        "flat.total_ms": median(one.closed - one.opened for one in seen) * 1e3,
        "flat.cpu_us": _per_event(cpu, sizes.flat_calls * sizes.flat_tokens),
        "flat.events": median(one.events for one in seen),
    }


def _series(target: Target, bench: dict[str, Any], calls: int) -> tuple[list[Seen], float | None]:
    """Return the responses to sequential calls, and the CPU seconds that the target used."""
    expected = _expected(bench["call"], bench["events"])
    # The first call warms up the target and is not measured.
    _checked(_answer(target, {**bench, "rate": 0}), bench["call"], expected)
    before = target.cpu()
    seen = [_answer(target, bench) for _ in range(calls)]
    cpu = target.cpu() - before if target.pid else None
    for one in seen:
        _checked(one, bench["call"], expected)
    return seen, cpu


def _expected(call: str, events: int) -> Expected:
    """Return the expected response with `events` events. A `wrong` call must be repaired."""
    if not call:
        texts = tuple(script.words(number) for number in range(1, events + 1))
        return Expected("".join(texts), 0, 1, tuple(accumulate(map(len, texts))))
    fragments = script.call_fragments(events, wrong=False)
    ends = tuple(accumulate(map(len, fragments)))
    opening = len(script.CALL_OPENING)
    # The name is a separate event before the fragments.
    content = ends[opening : len(ends) - len(script.CALL_CLOSING)]
    return Expected("".join(fragments), ends[opening - 1], opening + 2, content)


def _answer(target: Target, bench: dict[str, Any]) -> Seen:
    """Send a request and return the response, parsed after its end to keep reading fast."""
    request = _request(target, bench)
    reply = Reply()
    arrived: list[tuple[float, bytes]] = []
    opened = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", target.port), TIMEOUT_SECONDS) as sock:
            sock.sendall(request)
            while not reply.done and (data := sock.recv(_RECEIVE)):
                arrived.append((time.monotonic(), reply.feed(data)))
    except OSError as error:
        raise Failed(f"the answer did not come: {error}") from error
    if reply.status != 200 or not reply.done:
        raise Failed(f"status {reply.status}" if reply.done else "the answer broke off")
    return _read(opened, arrived)


def _request(target: Target, bench: dict[str, Any]) -> bytes:
    """Return an HTTP request that offers `write` and the other tools."""
    asked = body.call_request(bench)
    text = json.dumps(asked, separators=(",", ":")).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def _read(opened: float, arrived: list[tuple[float, bytes]]) -> Seen:
    """Return the parsed response with its arrival times."""
    seen, events = Seen(opened), Events()
    texts: list[str] = []
    length = 0
    for when, data in arrived:
        for event in events.feed(data):
            texts.append(_said(seen, event))
            length += len(texts[-1])
        seen.lengths.append((when, length))
    seen.text, seen.closed = "".join(texts), arrived[-1][0]
    return seen


def _said(seen: Seen, event: bytes) -> str:
    """Return the text or arguments in one event, and record its other fields."""
    seen.events += 1
    if event[5:].strip() == b"[DONE]":
        seen.done = True
        return ""
    if not seen.begun and (stamp := STAMP.search(event)):
        seen.begun = int(stamp[1]) / 1e9
    text = ""
    chunk = json.loads(event[5:])
    if "error" in chunk:
        raise Failed(f"the answer ended in an error: {chunk['error']}")
    for choice in chunk["choices"]:
        delta = choice["delta"]
        seen.finish = choice["finish_reason"] or seen.finish
        text += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            seen.names += [call["function"]["name"]] if "name" in call["function"] else []
            text += call["function"].get("arguments", "")
    return text


def _checked(seen: Seen, call: str, expected: Expected) -> None:
    """Raise Failed if the response differs from the expected one."""
    if seen.text != expected.text:
        raise Failed(f"{len(seen.text)} characters that are not the {len(expected.text)} that were expected")
    if (seen.names, seen.finish, seen.done) != ((["write"], "tool_calls", True) if call else ([], "stop", True)):
        raise Failed(f"calls {seen.names}, finish {seen.finish!r}, done {seen.done}")


def _lateness(seen: Seen, expected: Expected) -> Iterator[float]:
    """Yield the lateness of each part of the content, in seconds after it was due."""
    told = 0
    for when, length in seen.lengths:
        until = bisect_right(expected.ends, length)
        for number in range(told, until):
            yield when - seen.begun - (expected.first + number) / RATE
        told = max(told, until)


def _per_event(cpu: float | None, events: int) -> float | None:
    """Return the CPU microseconds per upstream event; None if the CPU was not measured."""
    return None if cpu is None else cpu / events * 1e6


if __name__ == "__main__":
    sys.exit(main())
