"""Whose turn it is, while threads compute for some time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from proxy.server.turns import Turn, Turns
from tests.support.scripted import PATIENCE


def on_a_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits does so for as long as a test."""
    for name in ("MOST_SECONDS", "MOST_ROUND_SECONDS", "WAIT_SECONDS", "FIRST_SECONDS"):
        monkeypatch.setattr(f"proxy.server.turns.{name}", PATIENCE)


@pytest.mark.usefixtures("patient")
def test_one_request_computes_at_a_time() -> None:
    turns, computing, most = Turns(), [0], [0]

    def request() -> None:
        turn = Turn(turns, lambda: None)
        for _ in range(20):
            turn.take()
            computing[0] += 1
            most[0] = max(most[0], computing[0])
            time.sleep(0.0001)
            computing[0] -= 1
            turn.give_back()

    threads = [on_a_thread(request) for _ in range(8)]
    for thread in threads:
        thread.join(PATIENCE)
    assert (computing, most) == ([0], [1])


@pytest.mark.usefixtures("patient")
def test_the_pump_comes_before_those_that_stand_in_line() -> None:
    turns, order, begun = Turns(), list[str](), threading.Event()
    first = Turn(turns, lambda: None)
    first.take()

    def request() -> None:
        turn = Turn(turns, lambda: None)
        turn.take()
        order.append("request")
        turn.give_back()

    def pump() -> None:
        begun.set()
        assert turns.begin_round()
        order.append("pump")
        turns.end_round()

    waiting = [on_a_thread(request) for _ in range(4)]
    waiting.append(on_a_thread(pump))
    assert begun.wait(PATIENCE)
    time.sleep(0.5)
    first.give_back()
    for thread in waiting:
        thread.join(PATIENCE)
    # The pump's thread may come late where the machine is busy, but then some of the requests still stand in line.
    assert sorted(order) == ["pump", *["request"] * 4] and order[-1] != "pump"


@pytest.mark.usefixtures("patient")
def test_many_in_line_are_no_reason_to_go_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is how long one has had it."""
    monkeypatch.setattr("proxy.server.turns.MOST_SECONDS", 0.2)
    turns, held = Turns(), list[bool]()

    def request() -> None:
        if turns.take():
            held.append(True)
            time.sleep(0.02)
            turns.give_back()

    threads = [on_a_thread(request) for _ in range(30)]
    for thread in threads:
        thread.join(PATIENCE)
    assert len(held) >= 25  # a busy machine may let one of them sleep for longer
