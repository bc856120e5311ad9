"""A worker that is about to end: its streams end in order, in their dialect's own words, and nobody hangs (P1)."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Proxy, Start
from tests.support.messages_checker import check_stream
from tests.support.scripted import (
    DONE,
    HELD,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Action,
    Client,
    Gate,
    Upstream,
    answer,
    chat,
    chunked,
    finish,
    text,
    whole_reply,
)

pytestmark = pytest.mark.once

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
TOOL = {"name": "write_file", "input_schema": WRITE_FILE["function"]["parameters"]}
ASKED: dict[str, Callable[..., dict[str, Any]]] = {
    CHAT: lambda **more: chat(tools=[WRITE_FILE], **more),
    MESSAGES: lambda **more: {
        **{"model": "tiny", "max_tokens": 9, "stream": True, "tools": [TOOL]},
        **{"messages": [{"role": "user", "content": "Hi"}], **more},
    },
}
TEXT = chunked(ROLE), chunked(text("So"))


def master(proxy: Proxy) -> psutil.Process:
    return psutil.Process(proxy.health()["worker"]).parent()


def ends_in_an_error(path: str, data: bytes) -> bool:
    """Return whether a strict client of the path's dialect reads the stream as failed."""
    if path == MESSAGES:
        told = check_stream(data)["error"]
        return bool(told["type"] == "overloaded_error" and "about to end" in told["message"])
    last = data.rstrip(b"\n").rpartition(b"\n\n")[2]
    return json.loads(last.removeprefix(b"data: "))["error"]["code"] == 503 and DONE not in data


def serving(stack: ExitStack, *scripts: list[Action]) -> Upstream:
    upstream = stack.enter_context(Upstream(*scripts))
    upstream.paths["/v1/models"] = [answer({"object": "list", "data": [{"id": "tiny", "owned_by": "vllm"}]})]
    return upstream


def test_a_stream_that_ends_in_time_is_not_touched(proxy: Start) -> None:
    gate = Gate()
    with ExitStack() as stack:
        upstream = serving(stack, [SSE, *TEXT, gate, chunked(finish()), chunked(DONE), LAST])
        front = proxy(upstream.url, "--graceful-timeout", f"{HELD:.0f}")
        client = stack.enter_context(Client.post(front.port, chat()))
        with client.answer() as response:
            data = response.read1()
            os.kill(master(front).pid, signal.SIGTERM)
            time.sleep(0.2)
            gate.open()
            data += response.read()
        assert data.endswith(DONE)


def test_streams_hold_no_thread_and_those_over_max_streams_are_refused_at_once(proxy: Start) -> None:
    gate = Gate()
    with ExitStack() as stack:
        script: list[Action] = [SSE, *TEXT, gate]
        upstream = serving(stack, *[script] * 9, whole_reply("So."))
        front = proxy(upstream.url, "THREADS=4", "RESERVED_THREADS=1", "--max-streams", "9")
        for _ in range(9):
            client = stack.enter_context(Client.post(front.port, chat()))
            response = stack.enter_context(client.answer())
            assert response.read1()
        stack.callback(gate.open)
        for path in (CHAT, MESSAGES):
            client = stack.enter_context(Client.post(front.port, ASKED[path](), path))
            with client.answer() as refused:
                assert refused.status == (529 if path == MESSAGES else 503)
                assert refused.getheader("Retry-After") and b"max_streams" in refused.read()
        assert len(upstream.seen) == 9
        client = stack.enter_context(Client.post(front.port, chat(stream=False)))
        with client.answer() as whole:
            assert whole.status == 200
        gate.open()
        assert front.idle()


def test_what_takes_too_long_in_all_ends(proxy: Start, tmp_path: Path) -> None:
    gate = Gate()
    with ExitStack() as stack:
        upstream = serving(stack, [SSE, *TEXT, gate])
        stack.callback(gate.open)
        front = proxy(upstream.url, "REPLY_SECONDS=0.5")
        client = stack.enter_context(Client.post(front.port, chat()))
        with client.answer() as response:
            data = response.read()
        assert b"total_timeout" in data
        assert DONE not in data
