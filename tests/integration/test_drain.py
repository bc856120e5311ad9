"""A worker that shuts down lets its streams finish, and long streams have a limit (P1)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack

import psutil
import pytest

from tests.conftest import Start
from tests.support.dialects import DIALECTS
from tests.support.messages_client import serving
from tests.support.scripted import DONE, HELD, ROLE, Client, chat, stream, text, text_reply, whole_reply

pytestmark = pytest.mark.once


def test_a_stream_that_finishes_in_time_is_unchanged(proxy: Start) -> None:
    with serving() as upstream:
        gate = upstream.gate()
        upstream.play(text_reply("So", gate))
        front = proxy(upstream.url, "--graceful-timeout", f"{HELD:.0f}")
        with Client.post(front.port, chat()) as client, client.answer() as response:
            data = response.read1()
            os.kill(psutil.Process(front.health()["worker"]).parent().pid, signal.SIGTERM)
            time.sleep(0.2)
            gate.open()
            assert (data + response.read()).endswith(DONE)


def test_streams_hold_no_thread_and_max_streams_is_enforced(proxy: Start) -> None:
    with serving() as upstream, ExitStack() as stack:
        models, gate = upstream.paths, upstream.gate()
        upstream.play(*[stream(ROLE, text("So"), gate, ended=False)] * 9, whole_reply("So."))
        upstream.paths = models
        front = proxy(upstream.url, "THREADS=4", "RESERVED_THREADS=1", "--max-streams", "9")
        for _ in range(9):
            client = stack.enter_context(Client.post(front.port, chat()))
            assert stack.enter_context(client.answer()).read1()
        stack.callback(gate.open)
        for dialect in DIALECTS.values():
            asked = dialect.ask(streamed=True, tools=True)
            with Client.post(front.port, asked, dialect.path) as client, client.answer() as refused:
                assert refused.status == dialect.status(503)
                assert refused.getheader("Retry-After") and b"max_streams" in refused.read()
        assert len(upstream.seen) == 9
        with Client.post(front.port, chat(stream=False)) as client, client.answer() as whole:
            assert whole.status == 200
        gate.open()
        assert front.idle()


def test_a_stream_that_takes_too_long_ends_in_an_error(proxy: Start) -> None:
    with serving() as upstream:
        models, gate = upstream.paths, upstream.gate()
        upstream.play(stream(ROLE, text("So"), gate, ended=False))
        upstream.paths = models
        front = proxy(upstream.url, "REPLY_SECONDS=0.5")
        with Client.post(front.port, chat()) as client, client.answer() as response:
            data = response.read()
        assert b"total_timeout" in data and DONE not in data
