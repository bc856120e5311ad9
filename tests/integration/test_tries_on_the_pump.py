"""Retry steps that may block run on a thread of their own, never on the pump's thread."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import pytest

from proxy.server.snapshot import Snapshot
from proxy.server.state import WorkerState
from proxy.upstream.client import ModelServer
from proxy.web.answer import HAND_OVER
from tests.conftest import Inside
from tests.integration.test_broken_calls import CALL as BROKEN
from tests.integration.test_broken_calls import RULES, guided
from tests.integration.test_healing import LATE, refused
from tests.integration.test_second_try import CALL, CHAT, SILENT, SWALLOWED, THOUGHT, models, sends
from tests.support.scripted import DONE, WRITE_FILE, Script, Upstream, chat

# The scripts of each case, and the blocking functions that it must call.
TRIES: dict[str, tuple[list[Script], set[str]]] = {
    "refusal": ([refused("System message must be at the beginning."), sends("Hi.", streamed=True)], {"open", "learn"}),
    "only reasoning": ([sends(THOUGHT, streamed=True), sends("Hi.", streamed=True)], {"open"}),
    "three tries": ([SILENT, SWALLOWED, sends(CALL, used=40, streamed=True)], {"open", "learn", "server_kind"}),
    "a broken call": ([sends(BROKEN, streamed=True), guided()], {"open", "server_kind"}),
}
BLOCKING: list[tuple[type, str]] = [(ModelServer, "open"), (WorkerState, "learn"), (Snapshot, "server_kind")]


@pytest.mark.parametrize("name", TRIES)
def test_blocking_steps_run_on_a_thread(inside: Inside, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts, expected = TRIES[name]
    on_pump = False
    done: list[tuple[str, bool]] = []

    def noted(what: str, does: Callable[..., Any]) -> Callable[..., Any]:
        def note(*given: Any, **more: Any) -> Any:
            done.append((what, on_pump))
            return does(*given, **more)

        return note

    with Upstream() as server:
        gate = server.gate()
        server.play([gate, *scripts[0]], *scripts[1:])
        server.paths["/v1/models"] = models("vllm")
        waits: list[Any] = []
        client = inside(server.url, rules=RULES, heartbeat=0.02)
        body = {**chat(tools=[WRITE_FILE]), "messages": LATE}
        # The first heartbeat starts the reply, so the pump drives everything after it.
        with client.post(CHAT, json=body, buffered=False, environ_overrides={HAND_OVER: waits.append}) as response:
            for owner, what in BLOCKING:
                monkeypatch.setattr(owner, what, noted(what, getattr(owner, what)))
            [wait] = waits
            parts: Any = iter(response.response)
            data: bytes = next(parts)
            wait.drive()
            on_pump = True
            gate.open()
            for part in parts:
                data += part
                on_pump = not wait.blocks
                if wait.parked:
                    wait_for_upstream(wait)
    assert data.endswith(DONE) and len(server.seen) == len(scripts)
    assert {what for what, _ in done} == expected
    assert [what for what, by_pump in done if by_pump] == []


def wait_for_upstream(wait: Any) -> None:
    """Wait until the upstream is readable or the next heartbeat is due."""
    poll = select.poll()
    poll.register(wait.descriptor, select.POLLIN)
    if poll.poll(20):
        wait.readable()
