"""The scenes, in order. Each but the last restores the cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, cycle

from tests.cluster.boxes import Cluster, until
from tests.cluster.client import Asked, Kind, Outcome, Wanted, ask, ask_as_sdks_do, get, request

# A long answer takes ten seconds; servers fail while 200 of them are running.
CHUNKS, PAUSE = 40, 0.25
WHOLES = 24
# Outcomes of running answers.
ENDS = ("ok", "cut", "error event", "error status 502")
CONVERSATIONS = 45
ALL_UP = ("UP", "UP", "UP")
# A proxy's answer in each dialect if HAProxy has no model server left: status and Retry-After.
_NO_SERVER = {"chat": "503 5", "messages": "529 5", "responses": "503 5"}


@dataclass
class Report:
    """The table: one line per check. `failed` are the failed checks."""

    failed: list[str] = field(default_factory=list)
    checked: int = 0

    @property
    def holds(self) -> bool:
        """Return whether there were checks, and all passed."""
        return self.checked > 0 and not self.failed

    def title(self, words: str) -> None:
        print(f"\n{words}", flush=True)

    def note(self, words: str, value: object) -> None:
        """Print a figure that is not checked."""
        print(f"          {words:<72} {value}", flush=True)

    def check(self, words: str, value: object, expected: object = True) -> None:
        """Report a check, which passes if the value is as expected."""
        holds = value == expected
        self.checked += 1
        if not holds:
            self.failed.append(words)
        shown = "" if expected is True or value in ([], "") else value
        verdict = "ok" if holds else "FAILED"
        print(f"  {verdict:<8} {words:<72} {shown if holds else f'{value!r}, not {expected!r}'}".rstrip(), flush=True)

    def summary(self) -> str:
        failed = "".join(f"\n  failed: {words}" for words in self.failed)
        return f"{self.checked - len(self.failed)} of {self.checked} checks passed{failed}"


@dataclass
class Play:
    """All scenes, in front of one cluster."""

    cluster: Cluster
    report: Report
    dialects: list[str]
    streams: int
    _ids: count[int] = field(default_factory=count)
    _sent: list[Wanted] = field(default_factory=list)
    _tries: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        await self.cluster.start()
        await self._paths()
        await self._leaving()
        await self._by_header()
        before = await self._sticky("Conversations while all servers are up", repeat=2)
        await self._failing()
        await self._returning(before)
        await self._rolling(before, drained=True)
        await self._rolling(before, drained=False)
        self._once()
        await self._all_down()

    def _wanted(self, conversation: str = "", **more: object) -> Wanted:
        """Return a request with a new id; dialects rotate."""
        number = next(self._ids)
        more.setdefault("dialect", self.dialects[number % len(self.dialects)])
        wanted = Wanted(f"r{number}", conversation or f"other-{number}", **more)  # type: ignore[arg-type]
        self._sent.append(wanted)
        return wanted

    async def _ask(self, wanted: Wanted) -> Outcome:
        self._tries[wanted.id] += 1
        return await ask(self.cluster.port, wanted)

    async def _paths(self) -> None:
        self.report.title("Paths that HAProxy forwards")
        for path in ("/_ready", "/v1/models", "/for/openclaw/v1/models"):
            self.report.check(f"GET {path} is answered", (await get(self.cluster.port, path))[0], 200)
        for method, path in (("POST", "/_reload"), ("GET", "/metrics"), ("GET", "/health"), ("POST", "/v2/../_reload")):
            status, _, body = await get(self.cluster.port, path, method)
            known = status == 404 and json.loads(body)["error"]["type"] == "not_found_error"
            self.report.check(f"{method} {path} reaches no proxy", known)

    async def _leaving(self) -> None:
        """One client leaves in the middle of a stream, one before a whole answer."""
        self.report.title("The model server is released when a client leaves")
        for stream in (True, False):
            wanted = self._wanted(stream=stream, chunks=CHUNKS, pause=PAUSE)
            self._tries[wanted.id] += 1
            _, writer = await asyncio.open_connection("127.0.0.1", self.cluster.port)
            writer.write(request(wanted))
            await until(lambda: self._open(1), "the model server has the request")
            writer.close()
            took = await until(lambda: self._open(0), "the model server is released")
            where = "in a stream" if stream else "while it waits for a whole answer"
            self.report.check(f"{where}, within 1 s", took < 1)

    async def _open(self, number: int) -> bool:
        servers = self.cluster.servers.values()
        return sum([await server.under_way() for server in servers]) == number

    async def _by_header(self) -> None:
        """Send requests like a proxy's to the model servers behind HAProxy: only the conversation's header decides."""
        self.report.title("The model server of a request")
        homes = {key: {await self._home(key) for _ in range(4)} for key in map(str, range(CONVERSATIONS))}
        self.report.check("all requests with one X-Conversation-Key go to one server", _several(homes), {})
        self.report.check("and different ones to both", {min(home) for home in homes.values()}, {"A", "B"})
        self.report.check("requests without it alternate", {await self._home("") for _ in range(4)}, {"A", "B"})

    async def _home(self, key: str) -> str:
        """Return the model server that answers requests with this key."""
        headers = f"X-Conversation-Key: {key}\r\n" if key else ""
        _, told, _ = await get(self.cluster.models, "/v1/models", headers=headers)
        return told["x-served-by"]

    async def _sticky(self, title: str, repeat: int) -> dict[str, str]:
        """Send requests of conversations one by one, so that load does not move them. Return the servers of each."""
        self.report.title(title)
        homes: dict[str, set[str]] = {}
        outcomes = Counter[Kind]()
        for _ in range(repeat):
            for number in range(CONVERSATIONS):
                await until(self._quiet, "HAProxy has no running requests")
                outcome = await self._ask(self._wanted(f"c{number}", stream=number % 3 > 0))
                outcomes[outcome.kind] += 1
                homes.setdefault(f"c{number}", set()).add(outcome.served)
        self.report.check("every request is answered", dict(outcomes), {Kind.OK: repeat * CONVERSATIONS})
        words = "every turn of a conversation goes to the same proxy and model server"
        self.report.check(words, _several(homes), {})
        self.report.note("conversations at each", _shown(Counter(min(home) for home in homes.values())))
        return {conversation: min(home) for conversation, home in homes.items()}

    async def _quiet(self) -> bool:
        return self.cluster.balancer.running() == 0

    async def _failing(self) -> None:
        """Kill a proxy, and a model server of the others, during streams."""
        under_way = f"{self.streams} streams and {WHOLES} whole answers are running"
        self.report.title(f"{under_way}; proxy 1 and model server B are killed")
        asked = [self._wanted(chunks=CHUNKS, pause=PAUSE) for _ in range(self.streams)]
        asked += [self._wanted(stream=False, chunks=CHUNKS, pause=PAUSE) for _ in range(WHOLES)]
        running = [asyncio.ensure_future(self._ask(wanted)) for wanted in asked]
        await until(lambda: self._open(len(asked)), "the model servers have all requests")
        await asyncio.sleep(CHUNKS * PAUSE / 3)
        self.report.check("none had ended yet", sum(task.done() for task in running), 0)
        load = self.cluster.load()
        self.cluster.proxies[0].kill()
        self.cluster.servers["B"].kill()
        new = await self._stream_of_requests(12.0)
        outcomes = await asyncio.gather(*running)
        self._judge_cut(asked, outcomes)
        self.report.check("new requests are answered", {one.outcome.kind for one in new}, {Kind.OK})
        self.report.check("and at the first try", [outcome for one in new for outcome in one.tries], [])
        self.report.check("proxy 1 received no more requests", self.cluster.load()["A/p1"], load["A/p1"])
        serve, live = ([*self.cluster.balancer.states(backend).values()] for backend in ("proxies", "alive"))
        self.report.check("HAProxy sees which proxies can serve", serve, ["DOWN", "UP", "UP"])
        self.report.check("HAProxy sees which proxies are alive", live, ["DOWN", "UP", "UP"])
        models = [*self.cluster.balancer.states("models").values()]
        self.report.check("HAProxy sees which model servers are up", models, ["UP", "DOWN"])

    def _judge_cut(self, asked: list[Wanted], outcomes: list[Outcome]) -> None:
        """Check the outcomes of running requests by their model server and proxy."""
        ways = {id_: served[0] for id_, served in self.cluster.seen().items()}
        table = Counter(
            (ways[wanted.id], "stream" if wanted.stream else "whole", _described(outcome))
            for wanted, outcome in zip(asked, outcomes, strict=True)
        )
        for (way, how, told), number in sorted(table.items()):
            self.report.note(f"{way}, {how}", f"{number} {told}")
        expected = {(way, how, _expected(way, how)) for way, how, _ in table}
        self.report.check("proxy 1's are cut, server B's end in errors, all others succeed", {*table}, expected)
        self.report.check("all kinds of outcomes occurred", {_expected(way, how) for way, how, _ in table}, {*ENDS})

    async def _stream_of_requests(self, seconds: float) -> list[Asked]:
        """Send new requests for `seconds`, 20 per second, each with the retries of SDKs."""
        tasks, ends, ways = [], time.monotonic() + seconds, cycle((True, False, True))
        while time.monotonic() < ends:
            wanted = self._wanted(stream=next(ways), pause=0.05)
            tasks.append(asyncio.ensure_future(self._ask_again(wanted)))
            await asyncio.sleep(0.05)
        return await asyncio.gather(*tasks)

    async def _ask_again(self, wanted: Wanted) -> Asked:
        asked = await ask_as_sdks_do(self.cluster.port, wanted)
        self._tries[wanted.id] += 1 + len(asked.tries)
        return asked

    async def _returning(self, before: dict[str, str]) -> None:
        await self.cluster.servers["B"].start()
        await self.cluster.balancer.sees("UP", "UP", backend="models")
        await self.cluster.balancer.sees("DOWN", "UP", "UP")
        without = await self._sticky("Server B is back, proxy 1 is not", repeat=2)
        moved = {name: (home, without[name]) for name, home in before.items() if without[name] != home}
        self.report.check("only conversations of proxy 1 have moved", {home[2:] for home, _ in moved.values()}, {"p1"})
        self.report.check("to both other proxies", {home[2:] for _, home in moved.values()}, {"p2", "p3"})
        self.report.check("with the same model server", [two for two in moved.values() if two[0][0] != two[1][0]], [])
        await self.cluster.proxies[0].start()
        await self.cluster.balancer.sees(*ALL_UP)
        after = await self._sticky("Proxy 1 is back", repeat=1)
        self.report.check("every conversation is where it was at first", _moved(before, after), {})

    async def _rolling(self, before: dict[str, str], *, drained: bool) -> None:
        """Stop and start proxy 2, after draining it or not."""
        how = "it is drained first" if drained else "it is not drained first"
        self.report.title(f"Proxy 2 is stopped by SIGTERM under load; {how}")
        balancer, proxy = self.cluster.balancer, self.cluster.proxies[1]
        here = [name for name, home in before.items() if home.endswith("p2")]
        asked = [self._wanted(name, chunks=CHUNKS, pause=PAUSE) for name in here]
        running = [asyncio.ensure_future(self._ask(wanted)) for wanted in asked]
        await until(lambda: self._open(len(asked)), "the model servers have all requests")
        if drained:
            balancer.drain("proxy2")
        load = asyncio.ensure_future(self._stream_of_requests(6.0))
        await asyncio.sleep(0.5)
        proxy.stop()
        new, outcomes = await load, await asyncio.gather(*running)
        self.report.check("running streams succeed", {outcome.kind for outcome in outcomes}, {Kind.OK})
        self.report.check("new requests are answered", {asked.outcome.kind for asked in new}, {Kind.OK})
        self.report.check("and at the first try", sum(len(asked.tries) for asked in new), 0)
        took = await until(proxy.ended, "proxy 2 has exited")
        self.report.check("it exits after its last stream, within 10 s", took < 10)
        await proxy.start()
        if drained:
            balancer.take_back("proxy2")
        await balancer.sees(*ALL_UP)
        after = await self._sticky("Proxy 2 is back", repeat=1)
        self.report.check("every conversation is where it was at first", _moved(before, after), {})

    def _once(self) -> None:
        """Check that each try reached a model server at most once: only clients retry."""
        self.report.title("Requests at the model servers")
        seen = self.cluster.seen()
        twice = [id_ for id_, ways in seen.items() if len(ways) > self._tries[id_]]
        self.report.check("no try reached a model server twice", twice, [])
        self.report.note("requests; tries; requests at the model servers", self._counts())

    def _counts(self) -> str:
        return f"{len(self._sent)}; {self._tries.total()}; {self.cluster.load().total()}"

    async def _all_down(self) -> None:
        """Kill all model servers, then all proxies."""
        self.report.title("All model servers are killed, then all proxies")
        for server in self.cluster.servers.values():
            server.kill()
        await self.cluster.balancer.sees("DOWN", "DOWN", backend="models")
        await self.cluster.balancer.sees("DOWN", "DOWN", "DOWN")
        self.report.check("HAProxy's /_ready reports it", (await get(self.cluster.port, "/_ready"))[0], 503)
        told = {(dialect, stream): _NO_SERVER[dialect] for dialect in self.dialects for stream in (True, False)}
        self.report.check("a proxy answers in the client's dialect", await self._errors(), told)
        for proxy in self.cluster.proxies:
            proxy.kill()
        await self.cluster.balancer.sees("DOWN", "DOWN", "DOWN", backend="alive")
        self.report.check(
            "HAProxy answers in a form that each dialect can read", await self._errors(), dict.fromkeys(told, "503 5")
        )

    async def _errors(self) -> dict[tuple[str, bool], str]:
        found = {}
        for dialect in self.dialects:
            for stream in (True, False):
                outcome = await self._ask(self._wanted(dialect=dialect, stream=stream))
                known = outcome.kind is Kind.STATUS
                found[dialect, stream] = f"{outcome.status} {outcome.retry_after}" if known else _described(outcome)
        return found


def _expected(way: str, how: str) -> str:
    """Return the outcome of an answer that was running when proxy 1 and model server B were killed."""
    if way != "A/p1" and way.startswith("A"):
        return "ok"
    if how == "whole":
        return "error status 502"
    return "cut" if way.endswith("p1") else "error event"


def _described(outcome: Outcome) -> str:
    return f"{outcome.kind.value} {outcome.status}" if outcome.kind is Kind.STATUS else outcome.kind.value


def _several(homes: dict[str, set[str]]) -> dict[str, set[str]]:
    return {conversation: home for conversation, home in homes.items() if len(home) != 1 or "" in home}


def _moved(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (home, after[name]) for name, home in before.items() if after[name] != home}


def _shown(numbers: Counter[str] | Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in sorted(dict(numbers).items()))
