"""Whose turn it is: the pump's first, then one request's after the other, and nobody waits for who keeps it."""

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


def test_nobody_waits_for_who_keeps_it() -> None:
    turns = Turns()
    keeper, other = Turn(turns, lambda: None), Turn(turns, lambda: None)
    keeper.take()
    began = time.monotonic()
    other.take()
    other.give_back()
    assert not turns.begin_round()
    assert time.monotonic() - began < PATIENCE / 2
    keeper.give_back()
    assert turns.begin_round()
    turns.end_round()


def test_it_is_taken_and_given_back_once() -> None:
    turns = Turns()
    turn = Turn(turns, lambda: None)
    turn.give_back()
    turn.take()
    turn.take()
    turn.give_back()
    turn.give_back()
    assert turns.begin_round()
    turns.end_round()


def test_nobody_waits_for_long_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.server.turns.MOST_SECONDS", 0.01)
    monkeypatch.setattr("proxy.server.turns.MOST_ROUND_SECONDS", PATIENCE)
    monkeypatch.setattr("proxy.server.turns.WAIT_SECONDS", 0.05)
    turns, taken = Turns(), list[bool]()
    assert turns.begin_round()
    waiting = on_a_thread(lambda: taken.append(turns.take()))
    waiting.join(PATIENCE)
    assert taken == [False]
    turns.end_round()


def test_the_thread_of_the_pump_does_not_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started it closes a response itself."""
    for name in ("MOST_SECONDS", "MOST_ROUND_SECONDS", "WAIT_SECONDS"):
        monkeypatch.setattr(f"proxy.server.turns.{name}", 2 * PATIENCE)
    turns, taken = Turns(), list[bool]()

    def pump() -> None:
        assert turns.begin_round()
        taken.append(turns.take())
        turns.end_round()

    on_a_thread(pump).join(PATIENCE)
    assert taken == [False]


def test_the_poll_takes_it_where_somebody_would_be_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.server.turns.FIRST_SECONDS", 0)
    turns = Turns()
    assert not turns.begin_poll()
    turns.streams_begin()
    assert turns.begin_poll()
    assert not turns.begin_round()  # so the pump waits for it
    turns.end_round()
    turns.streams_end()
    assert not turns.begin_poll()
    turns._in_line.append(None)
    assert turns.begin_poll()
    turns.end_round()
