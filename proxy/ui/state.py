"""The state of the page as JSON: the whole of it, or what is new."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from proxy import __version__
from proxy.activity.activity import Activity
from proxy.activity.ring import MINUTES
from proxy.codec.json_access import objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.repair.text_report import reasons
from proxy.ui.rules_view import rules_in_force
from proxy.worker.snapshot import is_ready
from proxy.worker.state import WorkerState

# Requests that a page has from its beginning.
MAX_SHOWN = 200
# How often, in seconds, it is looked how the servers do, and what rules and settings are in force.
STATUS_SECONDS = 10.0
_NUMBER = re.compile(r"[0-9]{1,15}")


def without_values(summary: JsonObject) -> JsonObject:
    """The record of a request without its values, which may be shown no more: they were kept before a reload."""
    repairs: list[Json] = [
        {name: value for name, value in repair.items() if name not in ("before", "after")}
        for repair in objects_in(summary.get("repairs"))
    ]
    return {**summary, "repairs": repairs, "values": False}


@dataclass(slots=True)
class PageState:
    """The state that one page has, and what is new for it. `last` is the number of the last request that it has."""

    worker: WorkerState
    activity: Activity
    last: int = 0
    ring: str = field(init=False)
    _status_at: float = field(default=float("-inf"))
    _minute: int = 0

    def __post_init__(self) -> None:
        self.ring = self.activity.ring.name()

    @property
    def event_id(self) -> str:
        """The id of the page's last event; one that has lost its connection goes on from there."""
        return f"{self.ring}-{self.last}"

    def go_on(self, event_id: str) -> None:
        """The page has been told all up to this place. It says nothing of another ring, as after a restart."""
        ring, _, number = event_id.rpartition("-")
        if ring == self.ring and _NUMBER.fullmatch(number):
            self.last = int(number)

    def news(self) -> JsonObject:
        """The requests under way, and all else that has changed since the last call."""
        self._look_whose_ring()
        now = time.time()
        live: list[Json] = [*self.activity.ring.live(now)]
        news: JsonObject = {"ring": self.ring, "now": now, "live": live}
        newest = self.activity.ring.newest(self.last, MAX_SHOWN)
        if newest:
            self.last = newest[-1][0]
            requests: list[Json] = [{**self._shown(summary), "number": number} for number, summary in newest]
            news["requests"] = requests
        if newest or int(now // 60) != self._minute:
            self._minute = int(now // 60)
            news["counts"] = self._counts(now)
        if time.monotonic() >= self._status_at:
            self._status_at = time.monotonic() + STATUS_SECONDS
            news["status"] = self._status()
        return news

    def _look_whose_ring(self) -> None:
        """A file that was broken is made anew while pages are open, and its numbers begin again."""
        ring = self.activity.ring.name()
        if ring != self.ring:
            self.ring, self.last, self._minute = ring, 0, 0

    def _shown(self, summary: JsonObject) -> JsonObject:
        """A request as it may be shown now."""
        if self.worker.current().settings.audit_values:
            return summary
        return without_values(summary)

    def _counts(self, seconds: float) -> JsonObject:
        """The counts of each of the last minutes, by group and name: `{"repairs": {"closers": [0, 2, ...]}}`."""
        groups: dict[str, dict[str, list[int]]] = {}
        first = int(seconds // 60) - MINUTES + 1
        for minute, group, name, count in self.activity.ring.counts(seconds):
            numbers = groups.setdefault(group, {}).setdefault(name, [0] * MINUTES)
            if 0 <= minute - first < MINUTES:
                numbers[minute - first] = count
        return {group: {name: [*numbers] for name, numbers in names.items()} for group, names in groups.items()}

    def _status(self) -> JsonObject:
        snapshot = self.worker.current()
        servers: list[Json] = [*_servers(self.worker)]
        return {
            "version": __version__,
            "values": snapshot.settings.audit_values,
            "signed_in": bool(snapshot.keys.admin),
            "lost": self.worker.metrics.numbers()["activity_lost"].get("", 0),
            "reasons": {**reasons()},
            "servers": servers,
            "rules": rules_in_force(self.worker),
        }


def _servers(worker: WorkerState) -> Iterator[JsonObject]:
    """Each model server, and whether it answers."""
    for url, server in worker.current().servers.items():
        yield {"url": url, "ready": is_ready(server)}
