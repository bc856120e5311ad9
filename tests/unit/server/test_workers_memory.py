"""The memory that a master makes for its workers, and how it is told."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from proxy.server.workers_memory import BYTES, VARIABLE, count_reload, descriptor
from proxy.worker.shared_memory import Memory

pytestmark = pytest.mark.once


@pytest.fixture(name="env")
def _env() -> Iterator[dict[str, str]]:
    """A master's environment; what was made for it is closed."""
    env: dict[str, str] = {}
    yield env
    os.close(int(env[VARIABLE].partition(":")[2]))


def test_a_master_makes_it_once(env: dict[str, str]) -> None:
    made = descriptor(env)
    assert env == {VARIABLE: f"{os.getpid()}:{made}"}
    assert os.fstat(made).st_size == BYTES
    assert descriptor(env) == made


def test_another_masters_is_left_alone(env: dict[str, str]) -> None:
    env[VARIABLE] = "1:0"
    made = descriptor(env)
    assert made != 0 and env == {VARIABLE: f"{os.getpid()}:{made}"}


def test_a_reload_is_counted_and_the_memory_made_for_it(env: dict[str, str]) -> None:
    count_reload(env)
    count_reload(env)
    memory = Memory(descriptor(env))
    assert memory.reload_requested() == 2
