"""Load generator: `python -m benchmarks.load --url http://127.0.0.1:8003 --streams 100`.

One thread, one epoll. Opens streams, reads them to the end, counts their events and compares each event with the
schedule of `benchmarks.upstream`. Prints one line of JSON. With `--idle` it prints `{"ready": N}` once every stream has
received its first content event, and holds the streams open until standard input is closed; for each line of input it
prints the longest gap since the previous line. With `--told` it prints `{"ready": 0}` and starts on a line of input.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import socket
import sys
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import fronts
from benchmarks.reply import Events, Reply

_RECEIVE = 1 << 18


@dataclass(slots=True)
class Tally:
    """Totals of all streams; times in seconds. `content` counts the events with text."""

    events: int = 0
    content: int = 0
    first: array[float] = field(default_factory=lambda: array("d"))
    gaps: array[float] = field(default_factory=lambda: array("d"))
    lateness: array[float] = field(default_factory=lambda: array("d"))
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Job:
    """Request to send, its front, and the expected events and their rate per stream (rate 0: no schedule).

    `counts`: the server sends token counts in every chunk.
    """

    address: tuple[str, int]
    request: bytes
    front: str
    stream: bool
    events: int
    rate: float
    counts: bool
    piece: int = 0


class Gaps:
    """Times between the events of one stream, in seconds."""

    def __init__(self) -> None:
        """Start before the first event."""
        self._last = 0.0
        self._longest = 0.0

    def event(self, now: float) -> float | None:
        """Add an event at time `now`; return the time since the previous event, None for the first."""
        gap = now - self._last if self._last else None
        self._last = now
        self._longest = max(self._longest, gap or 0.0)
        return gap

    def longest(self, now: float) -> float:
        """Return the longest gap since the last call, including the current wait."""
        longest, self._longest = self._longest, 0.0
        return max(longest, now - self._last) if self._last else longest


class Stream:
    """One request and its response."""

    def __init__(self, job: Job, tally: Tally) -> None:
        """Start connecting; the time to the first event counts from here."""
        self.opened = time.monotonic()
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.connect_ex(job.address)
        self.unsent = job.request
        self._job, self._tally = job, tally
        self._reply, self._events = Reply(), Events()
        self._reading = fronts.reading(job.front, job.events, job.counts, job.piece)
        self._answer = b""
        self.gaps = Gaps()

    @property
    def content(self) -> int:
        """Return the number of content events received so far."""
        return self._reading.content

    def send(self) -> bool:
        """Write the request; return whether all of it has been sent."""
        try:
            self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            return False
        return not self.unsent

    def receive(self) -> bool:
        """Read available data; return whether the response is complete."""
        try:
            data = self.sock.recv(_RECEIVE)
        except BlockingIOError:
            return False
        now = time.monotonic()
        if not data:
            self._reply.eof()
            return True
        text = self._reply.feed(data)
        if self._job.stream:
            for event in self._events.feed(text):
                self._count(event, now)
        elif text:
            self._answer += text
            if self.gaps.event(now) is None:
                self._tally.first.append(now - self.opened)
        return self._reply.done

    def error(self) -> str | None:
        """Return the error in a completed stream; None if it is correct."""
        if self._reply.status != 200:
            return f"status {self._reply.status}"
        if not self._reply.done:
            return "broke off"
        if self._job.stream:
            return self._reading.error()
        return fronts.whole_error(self._job.front, self._answer)

    def _count(self, event: bytes, now: float) -> None:
        """Count one event and compare it with the previous event and the schedule."""
        tally = self._tally
        tally.events += 1
        gap = self.gaps.event(now)
        if gap is None:
            tally.first.append(now - self.opened)
        else:
            tally.gaps.append(gap)
        if not self._reading.take(event):
            return
        tally.content += 1
        began, rate = self._reading.began, self._job.rate
        if rate and began is not None:
            tally.lateness.append(now - began - self._reading.content / rate)


class Load:
    """Load run: opens `streams` streams, at most `parallel` at the same time, and reads them all."""

    def __init__(self, job: Job, streams: int, parallel: int, spread: float) -> None:
        """`spread`: seconds over which the first streams are opened, at random times that are the same in every run."""
        self.tally = Tally()
        self._job, self._parallel = job, parallel
        moments = random.Random(1)
        self._starts = sorted((moments.uniform(0.0, spread) for _ in range(streams)), reverse=True)
        self._epoll = select.epoll()
        self._open: dict[int, Stream] = {}
        self._waiting = streams
        self._stop = False

    def run(self, limit: float, idle: bool) -> dict[str, Any]:
        """Run to the end, for at most `limit` seconds, and return the results."""
        began, used = time.monotonic(), time.process_time()
        if idle:
            self._epoll.register(sys.stdin.fileno(), select.EPOLLIN)
        while (self._starts or self._open) and not self._stop and time.monotonic() - began < limit:
            pause = self._start(began)
            for descriptor, mask in self._epoll.poll(pause):
                self._ready(descriptor, mask)
            if idle and self._waiting == 0:
                self._waiting = -1
                print(json.dumps({"ready": len(self._open)}), flush=True)
        if not (idle and self._stop):
            self.tally.errors["time limit"] += len(self._starts) + len(self._open)
        elapsed = time.monotonic() - began
        return results(self.tally, elapsed, (time.process_time() - used) / elapsed)

    def _start(self, began: float) -> float:
        """Open the streams that are due; return the seconds until the next one, at most 0.1."""
        while self._starts and len(self._open) < self._parallel:
            wait = began + self._starts[-1] - time.monotonic()
            if wait > 0:
                return min(wait, 0.1)
            self._starts.pop()
            stream = Stream(self._job, self.tally)
            self._open[stream.sock.fileno()] = stream
            self._epoll.register(stream.sock.fileno(), select.EPOLLOUT)
        return 0.1

    def _ready(self, descriptor: int, mask: int) -> None:
        """Handle the epoll events of one descriptor."""
        stream = self._open.get(descriptor)
        if stream is None:
            self._told(os.read(descriptor, 1024))
            return
        before = stream.content
        try:
            if stream.unsent:
                if stream.send():
                    self._epoll.modify(descriptor, select.EPOLLIN)
                return
            over = stream.receive()
        except (OSError, ValueError, IndexError) as error:
            self._end(stream, f"{type(error).__name__}: {error}")
            return
        self._waiting -= stream.content > 0 and before == 0
        if over:
            self._over(stream)

    def _told(self, line: bytes) -> None:
        """Handle standard input: a line requests the longest gap since the previous line, end of file stops the run."""
        if not line:
            self._stop = True
            return
        now = time.monotonic()
        longest = max((stream.gaps.longest(now) for stream in self._open.values()), default=0.0)
        print(json.dumps({"streams": len(self._open), "gap_ms": round(longest * 1e3, 3)}), flush=True)

    def _over(self, stream: Stream) -> None:
        """Check a completed stream. An unparsable response is an error, too."""
        try:
            error = stream.error()
        except (ValueError, KeyError, IndexError, TypeError) as broken:
            error = f"an answer that cannot be read: {type(broken).__name__}: {broken}"
        self._end(stream, error)

    def _end(self, stream: Stream, error: str | None) -> None:
        """Close a completed stream and record its error."""
        del self._open[stream.sock.fileno()]
        stream.sock.close()
        if error:
            self.tally.errors[error] += 1


def results(tally: Tally, elapsed: float, busy: float) -> dict[str, Any]:
    """Return the figures: milliseconds, events/s, and `generator`, the share of one core used by this process."""
    return {
        "events": tally.events,
        "content": tally.content,
        "seconds": round(elapsed, 3),
        "events_per_s": round(tally.events / elapsed, 1),
        "answers": len(tally.first),
        "first_ms": quantile(tally.first, 0.5),
        "first_p99_ms": quantile(tally.first, 0.99),
        "gap_ms": quantile(tally.gaps, 0.5),
        "gap_p99_ms": quantile(tally.gaps, 0.99),
        "gap_max_ms": quantile(tally.gaps, 1.0),
        "late_ms": quantile(tally.lateness, 0.5),
        "late_p99_ms": quantile(tally.lateness, 0.99),
        "generator": round(busy, 3),
        "errors": {reason: count for reason, count in tally.errors.items() if count},
    }


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile of times, converted from seconds to milliseconds; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3, 3)


def job(options: argparse.Namespace) -> Job:
    """Return the job described by the command line."""
    target = urlsplit(options.url)
    bench = json.loads(options.bench)
    path, text = fronts.request(options.front, bench, stream=not options.whole, counts=options.counts)
    if options.body:
        text = Path(options.body).read_bytes()
        bench = json.loads(text).get("bench", {})
    # Messages clients send the version of the API.
    version = "Anthropic-Version: 2023-06-01\r\n" if options.front == "messages" else ""
    host, port = target.hostname or "127.0.0.1", target.port or 80
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\n{version}Content-Length: {len(text)}\r\n\r\n"
    )
    events, rate = int(bench.get("events", 50)), float(bench.get("rate", 50.0))
    piece = int(bench.get("piece", 0))
    asked = head.encode() + text
    return Job((host, port), asked, options.front, not options.whole, events, rate, options.counts, piece)


def main() -> None:
    """Read the command line, run, print the results."""
    parser = argparse.ArgumentParser(description="load generator")
    parser.add_argument("--url", required=True, help="http://host:port of the target")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=0, help="streams open at once at most; 0: all")
    parser.add_argument("--spread", type=float, default=0.0, help="seconds over which the streams are opened")
    parser.add_argument("--bench", default="{}", help="what the upstream shall answer, as JSON")
    parser.add_argument("--body", help="a file with the request to send instead of the built-in one")
    fronts_known = ("chat", "messages", "responses", "call", "printed", "found", "unescaped", "repaired")
    parser.add_argument("--front", choices=fronts_known, default="chat", help="which API is asked")
    parser.add_argument("--counts", action="store_true", help="token counts in every chunk are asked for, or expected")
    parser.add_argument("--whole", action="store_true", help="ask without streaming")
    parser.add_argument("--idle", action="store_true", help="hold the streams open until standard input closes")
    parser.add_argument("--told", action="store_true", help="begin at a line on standard input")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds until it ends by itself")
    options = parser.parse_args()
    load = Load(job(options), options.streams, options.parallel or options.streams, options.spread)
    if options.told:
        print(json.dumps({"ready": 0}), flush=True)
        sys.stdin.readline()
    print(json.dumps(load.run(options.limit, options.idle)))


if __name__ == "__main__":
    main()
