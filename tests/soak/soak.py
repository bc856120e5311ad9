"""The soak itself: the proxy as a child process, clients, faults, reloads, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import random
import re
import signal
import statistics
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.conftest import Proxy, start
from tests.soak.clients import Line, Result
from tests.soak.plans import OK, Plan, make
from tests.soak.upstream import Upstream
from tests.support.scripted import PATIENCE

# Timeouts in seconds for a silent model server, and for streams that began before a reload. The soak's patience
# multiplies them.
TIMES = {"--idle-timeout": 3, "--graceful-timeout": 15}
FLAGS = ("--heartbeat", "0.5", "MAX_EVENT=1048576", "--max-body", "1048576")
# Times of the reloads with new workers, as shares of the run. The workers in between are measured.
EARLY, LATE = (0.02, 0.05, 0.08), (0.95, 0.98)
# Seconds until the workers are warm: each thread's memory arena has held the largest answers.
WARM = 200.0
# In runs of fewer minutes, growth is printed but not judged.
LONG_ENOUGH = 6.0
# The proxy disconnects from the model server within 100 ms after a client leaves. 200 clients on two cores take longer.
RELEASE_TIME = 5.0
# Seconds until everything has ended after the last client: longer than the timeout for a silent model server.
IDLE = 20.0
# Descriptors that a worker may have in addition to those before its first request.
FEW = 6
SHOWN = 20
_LINE = re.compile(r" id=(soak-\d+) method=")
MIB = 2**20
# Allowed growth from the first to the last third: a share, and a number. The allocator's memory after large answers
# varies by the minute; a leak of 1 kB per request is 60 MiB in ten minutes. Threads and descriptors vary with the
# number of running requests; a leak of one descriptor per hundred requests is hundreds.
MARGINS = {"memory, MiB": (0.03, 16.0), "threads": (0.1, 16.0), "descriptors": (0.1, 24.0)}


@dataclass(frozen=True)
class Sample:
    """All workers together at one moment."""

    moment: float
    values: tuple[float, float, float]


@dataclass
class Counts:
    """Counts of the results. `unexpected` has a line for each failed check."""

    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    clients: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    releases: list[float] = field(default_factory=list)
    reloads: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    stale: int = 0


class Soak:
    """One run. `patience` multiplies all timeouts, for busy machines."""

    def __init__(self, folder: Path, *, minutes: float, clients: int, seed: int, patience: int = 1) -> None:
        self._folder, self._minutes, self._clients = folder, minutes, clients
        self._patience = patience
        self._rng = random.Random(seed)
        self._plans: dict[str, Plan] = {}
        self._upstream = Upstream(self._plans)
        self._counts = Counts()
        self._samples: list[Sample] = []
        self._answered: set[str] = set()
        self._left: dict[str, float] = {}

    async def run(self, workers: int) -> int:
        rules = self._folder / "rules.yaml"
        rules.write_text("settings: {max_tool_calls: 0}\n")
        times = (part for name, most in TIMES.items() for part in (name, str(most * self._patience)))
        flags = (*FLAGS, *times, f"STALL_SECONDS={10 * self._patience}")
        flags = (*flags, "--workers", str(workers), "--rules", str(rules))
        with self._upstream, ExitStack() as stack:
            await self._start(flags, stack)
            before = self._descriptors()
            await self._load()
            await self._idle(before)
            try:
                await asyncio.to_thread(stack.close)
            except AssertionError as wrong:  # its log shows a defect
                self._unexpected("log", str(wrong)[-3000:])
        self._check_requests()
        return self._verdict()

    async def _start(self, flags: tuple[str, ...], stack: ExitStack) -> None:
        folder = self._folder / "proxy"
        self._proxy: Proxy = await asyncio.to_thread(
            lambda: start(self._upstream.url, *flags, folder=folder, stack=stack)
        )
        master = psutil.Process((await asyncio.to_thread(self._proxy.health))["worker"]).parent()
        assert master is not None
        self._master = master
        self._began = time.monotonic()
        self._seconds = self._minutes * 60

    def _unexpected(self, what: str, why: str) -> None:
        self._counts.unexpected.append(f"{what}: {why}")

    def _descriptors(self) -> tuple[int, int]:
        """Return the descriptors of the master, and the most that one worker has."""
        return self._master.num_fds(), max(each.num_fds() for each in self._master.children())

    async def _load(self) -> None:
        """Run the clients, reloads and refusals for the whole time."""
        clients = [self._client(random.Random(self._rng.random())) for _ in range(self._clients)]
        around = [
            asyncio.create_task(each) for each in (self._reload(), self._hang_up(), self._refuse(), self._sample())
        ]
        await asyncio.gather(*clients, *around)

    @property
    def _over(self) -> bool:
        return time.monotonic() >= self._began + self._seconds

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but no longer than the remaining time."""
        await asyncio.sleep(max(0.0, min(seconds, self._began + self._seconds - time.monotonic())))

    async def _client(self, rng: random.Random) -> None:
        line = Line(self._proxy.port, rng)
        while not self._over:
            await self._sleep(rng.random() * 0.6)
            self._counts.requests += 1
            plan = make(self._counts.requests, rng)
            self._plans[plan.id] = plan
            result = await line.run(plan)
            self._note(plan, result)
            del self._plans[plan.id]
        self._counts.stale += line.stale
        self._counts.kept += line.reused
        line.close()

    def _note(self, plan: Plan, result: Result) -> None:
        counts = self._counts
        counts.faults[plan.fault] += 1
        counts.clients[plan.leave.value] += 1
        counts.outcomes[result.outcome] += 1
        if result.left_at:
            self._left[plan.id] = result.left_at
        elif not result.again:
            self._answered.add(plan.id)
        down = self._upstream.was_down(result.began, time.monotonic())
        if result.outcome not in plan.expected | (frozenset(("status 502",)) if down else frozenset()):
            self._unexpected(repr(plan), f"{result.outcome} {result.why}")

    async def _reload(self) -> None:
        """Reload settings and rules every few seconds."""
        while not self._over:
            await self._sleep(5)
            self._counts.reloads[f"/_reload {await asyncio.to_thread(self._posted)}"] += 1

    def _posted(self) -> int:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._proxy.port, timeout=PATIENCE)) as client:
            client.request("POST", "/_reload")
            return client.getresponse().status

    async def _hang_up(self) -> None:
        for share in (*EARLY, *LATE):
            await self._sleep(self._began + share * self._seconds - time.monotonic())
            self._master.send_signal(signal.SIGHUP)
            self._counts.reloads["SIGHUP"] += 1

    async def _refuse(self) -> None:
        """Close the model server's port now and then."""
        while not self._over:
            await self._sleep(5 + 10 * self._rng.random())
            self._upstream.refuse()
            await asyncio.sleep(0.1 + 0.3 * self._rng.random())
            self._upstream.listen()

    async def _sample(self) -> None:
        """Measure the workers, once a second."""
        while not self._over:
            await self._sleep(1)
            now = time.monotonic() - self._began
            if 0.1 * self._seconds <= now < LATE[0] * self._seconds:
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._samples.append(Sample(now, measured(self._master.children())))

    async def _idle(self, before: tuple[int, int]) -> None:
        """Check that nothing is running or open soon after the last client has left."""
        deadline = time.monotonic() + IDLE * self._patience
        while (left := await asyncio.to_thread(self._under_way, before)) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        if left:
            self._unexpected("at the end", left)

    def _under_way(self, before: tuple[int, int]) -> str:
        """Return a description of requests and descriptors that are still open, or ""."""
        workers = {each.pid for each in self._master.children()}
        healths = {}
        for _ in range(50):
            health = self._proxy.health()
            healths[health["worker"]] = health["active_requests"]
        after = self._descriptors()
        if healths.keys() != workers or any(healths.values()) or self._upstream.open:
            return f"requests by worker: {healths} of {workers}; open at the model server: {self._upstream.open}"
        if after[0] > before[0] + FEW or after[1] > before[1] + FEW:
            return f"descriptors of the master and of a worker: {after}, at the start {before}"
        return ""

    def _check_requests(self) -> None:
        """Check that each request was sent upstream at most once and has one line in a log without errors."""
        for id_, count in self._upstream.requests.items():
            if count > 1 and id_ in self._answered:
                self._unexpected(id_, f"the model server received {count} requests")
        lines: Counter[str] = Counter()
        with self._proxy.log.open(errors="replace") as log:
            for line in log:
                found = _LINE.search(line)
                if found:
                    lines[found[1]] += 1
                if "ERROR" in line:
                    self._unexpected("log", line.strip())
        for id_ in self._answered | self._left.keys():
            if lines[id_] > 1 or (id_ in self._answered and not lines[id_]):
                self._unexpected(id_, f"{lines[id_]} lines in the log")
        asked, closed = self._upstream.arrived, self._upstream.closed
        at_it = {each: at for each, at in self._left.items() if asked.get(each, at) < at < closed.get(each, at)}
        self._counts.releases = sorted(closed[each] - at for each, at in at_it.items())
        if self._counts.releases and self._counts.releases[-1] > RELEASE_TIME * self._patience:
            self._unexpected("released late", f"after {self._counts.releases[-1]:.1f} s")

    def _verdict(self) -> int:
        """Print the results. Return 0 if all checks passed."""
        if not self._counts.outcomes[OK]:
            self._unexpected("outcomes", "nothing went well")
        judged = self._minutes >= LONG_ENOUGH
        warm = [each for each in self._samples if each.moment >= WARM or not judged]
        counts, grown = self._counts, growth(warm)
        print(f"{self._clients} clients, {self._minutes:g} minutes, {counts.requests:,} requests")
        print(table("faults:", counts.faults))
        print(table("clients:", counts.clients))
        print(table("outcomes:", counts.outcomes))
        print(table("reloads:", counts.reloads), f"and {len(self._upstream.down)} times without a listener")
        print(f"on a kept connection: {counts.kept:,}, of them stale and retried: {counts.stale}")
        if counts.releases:
            middle, most = statistics.median(counts.releases), counts.releases[-1]
            left = f"{len(counts.releases)} clients that left in the middle of an answer"
            print(f"released after {left}: median {middle * 1000:.1f} ms, at most {most * 1000:.0f} ms")
        for name, first, last, flat in grown:
            said = "flat" if flat else "NOT FLAT"
            print(f"{name}, all workers: {first:.0f} -> {last:.0f} ({said if judged else 'too short to tell'})")
        print(f"memory over time: {curve(self._samples)}; judged from {WARM:g} s on")
        print(f"unexpected: {len(counts.unexpected)}")
        for each in counts.unexpected[:SHOWN]:
            print(f"  {each}")
        return 0 if not counts.unexpected and (not judged or all(flat for *_, flat in grown)) else 1


def measured(workers: list[psutil.Process]) -> tuple[float, float, float]:
    """Return the sums of memory (MiB), threads and descriptors of these processes."""
    return (
        sum(each.memory_info().rss for each in workers) / MIB,
        float(sum(each.num_threads() for each in workers)),
        float(sum(each.num_fds() for each in workers)),
    )


def growth(samples: list[Sample]) -> list[tuple[str, float, float, bool]]:
    """Return for each value the medians of the first and last third, and whether the growth is allowed."""
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
    """Return the memory over time as this number of medians."""
    size = max(1, len(samples) // points)
    parts = [samples[at : at + size] for at in range(0, size * points, size)]
    return " ".join(f"{statistics.median(each.values[0] for each in part):.0f}" for part in parts if part)


def table(title: str, counted: Counter[str]) -> str:
    """Return the names and counts, the most frequent first, four per line."""
    cells = [f"{name}: {number:,}" for name, number in counted.most_common()]
    lines = [", ".join(cells[at : at + 6]) for at in range(0, len(cells), 6)]
    return "\n    ".join([title, *lines])
