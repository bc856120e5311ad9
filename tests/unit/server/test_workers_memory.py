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


def test_a_master_makes_its_own_when_it_has_another_ones_or_one_of_another_size(env: dict[str, str]) -> None:
    another = os.memfd_create("another")
    os.ftruncate(another, BYTES // 2)
    for told in (f"1:{another}", f"{os.getpid()}:{another}"):
        env[VARIABLE] = told
        count_reload(env)
        made = descriptor(env)
        assert made != another and Memory(made).reload_requested() == 1
        os.close(made)
    env[VARIABLE] = f"{os.getpid()}:{another}"


def test_what_the_master_asks_for_is_done_once_and_asked_again(env: dict[str, str]) -> None:
    memory = Memory(descriptor(env))
    assert memory.reload_requested() == 0
    for _ in range(2):
        count_reload(env)
        count_reload(env)
        asked = memory.reload_requested()
        count_reload(env)  # while the file is being read
        memory.acknowledge_reload(asked)
        again = memory.reload_requested()
        assert 0 < asked < again
        memory.acknowledge_reload(again)
        assert memory.reload_requested() == 0
