"""The effect of one stream's long step, or failure, on other streams of the pump."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest

from proxy.server import pumped_stream
from proxy.server.pump import QUIET_SWITCH_SECONDS, SWITCH_SECONDS, Pump
from tests.support.scripted import PATIENCE

pytestmark = pytest.mark.once


class Parts:
    """Body of a stream with long steps, and its wait object."""

    parked = blocks = computes = False

    def __init__(self, *steps: Callable[[], bytes]) -> None:
        self._steps = steps

    def drive(self) -> None:
        """Do nothing when the pump takes over."""

    def body(self) -> Iterator[bytes]:
        for step in self._steps:
            self.computes = True
            yield b""
            self.computes = False
            yield step()


def test_a_long_step_runs_on_its_own_thread_in_short_slices() -> None:
    """Another stream gets its turns meanwhile, and a second long step waits for the first."""
    usual = sys.getswitchinterval()
    seen: list[tuple[str, float]] = []
    other_ended = threading.Event()

    def first() -> bytes:
        seen.append((threading.current_thread().name, sys.getswitchinterval()))
        assert other_ended.wait(PATIENCE)
        return b"first"

    def second() -> bytes:
        seen.append((threading.current_thread().name, sys.getswitchinterval()))
        return b"second"

    with driven_by_a_pump() as begin:
        long, also_long, quick = Parts(first), Parts(second), Parts()
        ends = [begin(long, long.body()), begin(also_long, also_long.body()), begin(quick, iter([b"quick"]))]
        assert ends[2].result(PATIENCE) == (True, b"5\r\nquick\r\n0\r\n\r\n")
        other_ended.set()
        assert ends[0].result(PATIENCE) == (True, b"5\r\nfirst\r\n0\r\n\r\n")
        assert ends[1].result(PATIENCE) == (True, b"6\r\nsecond\r\n0\r\n\r\n")
    assert [name for name, _ in seen] == ["long step_0"] * 2
    assert [round(interval, 6) for _, interval in seen] == [SWITCH_SECONDS] * 2
    assert sys.getswitchinterval() == usual


def test_the_interpreter_lock_is_released_sooner_while_there_are_streams() -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []

    def body() -> Iterator[bytes]:
        seen.append(round(sys.getswitchinterval(), 6))
        yield b"quick"

    try:
        with driven_by_a_pump() as begin:
            for _ in range(3):
                assert begin(Parts(), body()).result(PATIENCE)[0]
                seen.append(round(sys.getswitchinterval(), 6))
        assert seen == [SWITCH_SECONDS, QUIET_SWITCH_SECONDS] * 3
    finally:
        sys.setswitchinterval(usual)


def test_a_failing_stream_does_not_affect_the_others() -> None:
    """An uncaught error ends its own stream without a proper end."""

    def body(fails: bool) -> Iterator[bytes]:
        yield b"So"
        if fails:
            raise ValueError("a defect")
        yield b" it is"

    with driven_by_a_pump("a stream has failed") as begin:
        ends = [begin(Parts(), body(number == 1)).result(PATIENCE) for number in range(3)]
    assert ends[1] == (False, b"2\r\nSo\r\n")
    assert ends[0] == ends[2] == (True, b"2\r\nSo\r\n6\r\n it is\r\n0\r\n\r\n")


@contextmanager
def driven_by_a_pump(*logged: str) -> Iterator[Callable[[Parts, Iterator[bytes]], Future[tuple[bool, bytes]]]]:
    """Yield a function that drives a stream. It returns whether the stream ended properly, and the client's bytes."""
    drain = os.eventfd(0)
    told: list[str] = []
    log = SimpleNamespace(exception=told.append, error=told.append)
    pump = Pump(log, drain, lambda: told.append("dead"))
    pump.start()
    with ExitStack() as stack:

        def begin(wait: Parts, body: Iterator[bytes]) -> Future[tuple[bool, bytes]]:
            near, far = socket.socketpair()
            stack.callback(near.close)
            stack.callback(far.close)
            ended: Future[tuple[bool, bytes]] = Future()

            def finished(whole: bool) -> None:
                ended.set_result((whole, far.recv(4096)))

            stream = pumped_stream.PumpedStream(body, wait, near, finished, chunked=True, idle=5.0)
            assert pump.add(stream)
            return ended

        yield begin
    pump.stop()
    pump.join(PATIENCE)
    os.close(drain)
    assert told == [*logged]
