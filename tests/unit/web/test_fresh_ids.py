"""Ids and seeds: none like another, in whatever thread or process, and none that could be guessed from another."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from proxy.web import headers as fresh_ids
from proxy.web.headers import fresh_bytes, fresh_id


def test_they_are_as_long_as_was_asked_for() -> None:
    for size in (1, 12, 16, 64):
        assert len(fresh_bytes(size)) == size and len(bytes.fromhex(fresh_id(size))) == size


def test_no_two_of_them_are_alike_in_any_thread() -> None:
    made: deque[bytes] = deque()
    threads = [threading.Thread(target=lambda: made.extend(fresh_bytes(16) for _ in range(2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len({*made}) == 8000


def test_they_need_a_key_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    source = fresh_ids._FreshBytes()
    others = fresh_ids._FreshBytes()
    assert source.next(16) != others.next(16)
    monkeypatch.setattr(others, "_key", source._key)
    assert source.next(16) == others.next(16)
