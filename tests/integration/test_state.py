"""A worker's state: what it counts, what /health says, and how its settings and rules change while it serves."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from proxy.config.load import RulesText, load
from proxy.config.settings import Settings
from proxy.worker import state as module
from proxy.worker.state import Published, WorkerState, start_worker
from tests.support.worker_state import make_state, read_rules
from tests.unit.worker.test_state import (
    _rules,  # noqa: F401
    heartbeat,
)


def service(url: str, **settings: Any) -> WorkerState:
    return make_state(Settings(upstream=url, **settings), read_rules(None))


def test_requests_are_counted_by_many_threads_at_once() -> None:
    worker = service("http://127.0.0.1:1")

    def visit() -> None:
        for _ in range(2000):
            worker.enter()
            worker.take_stream()
            worker.leave()
            worker.return_stream()

    threads = [threading.Thread(target=visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker.enter()
    worker.enter()
    worker.take_stream()
    assert (worker.health()["active_requests"], worker.health()["total_buffers"]) == (1, 1)


def test_a_reload_takes_the_file_and_forgets_what_was_learnt_of_the_upstream(rules: Path) -> None:
    worker = start_worker()
    before = worker.current()
    before.remember("tiny")
    rules.write_text("settings: {heartbeat: 3, upstream: http://other:1}\n")
    assert worker.current() is before
    worker.reload()
    after = worker.current()
    assert (after.settings.heartbeat, after.settings.upstream) == (3.0, "http://other:1")
    assert after.servers.keys() != before.servers.keys() and not after.parses("tiny")
    # What works on the old one goes on with it.
    assert before.settings.heartbeat == 10.0 and before.parses("tiny")


def test_many_requests_that_come_after_a_reload_read_the_text_once(
    rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start_worker()
    loads = list[float]()

    def slow(**given: Any) -> Any:
        loads.append(time.monotonic())
        time.sleep(0.05)
        return load(**given)

    with worker.in_force.locked():
        worker.in_force.publish(Published(7, RulesText(b"settings: {heartbeat: 3}\n", "r.yaml")))
    monkeypatch.setattr(module, "load", slow)
    seen = list[float]()
    threads = [threading.Thread(target=lambda: seen.append(heartbeat(worker))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [3.0] * 8 and len(loads) == 1
