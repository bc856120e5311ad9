"""The metrics: what is counted, under bounded names, in a form that Prometheus reads, right across workers."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys

import pytest

from proxy.worker.shared_counters import SIZE, SharedCounters
from tests.support.scraped import samples, value
from tests.support.scripted import PATIENCE

WORKER = """
import mmap, sys
from proxy.upstream.event_times import EventTimes
from proxy.worker.metrics import STREAMS, RequestSample, count
from proxy.worker.shared_counters import SIZE, SharedCounters
fd = int(sys.argv[1])
counters = SharedCounters(mmap.mmap(fd, SIZE), 0, fd)
counters.acquire_slots(STREAMS, 2)
times = EventTimes()
times.gap.add(0.2)
times.gap.add(0.3)
for number in range(100):
    about = {"dialect": "chat", "model": "m", "status": 200, "seconds": 1.0, "first_byte": 0.5, "times": times}
    count(counters, RequestSample(**about, fixes={"finish": 1}))
"""


def test_workers_count_together_and_what_they_counted_outlives_them() -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, SIZE)
    try:
        command = [sys.executable, "-c", WORKER, str(fd)]
        workers = [subprocess.Popen(command, pass_fds=[fd]) for _ in range(3)]
        assert [worker.wait(PATIENCE) for worker in workers] == [0, 0, 0]
        found = samples(SharedCounters(mmap.mmap(fd, SIZE), 0, fd), "m")
    finally:
        os.close(fd)
    assert value(found, "requests_total", dialect="chat", model="m", status="200") == 300
    assert value(found, "repairs_total", fix="finish") == 300
    assert value(found, "time_to_first_byte_seconds_count", dialect="chat") == 300
    assert value(found, "upstream_event_gap_seconds_count", dialect="chat") == 600
    assert value(found, "upstream_event_gap_seconds_bucket", dialect="chat", le="0.25") == 300
    assert value(found, "upstream_event_gap_seconds_sum", dialect="chat") == pytest.approx(150)
    assert value(found, "active_streams") == 0  # their streams ended with them
