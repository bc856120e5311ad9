"""Stored responses: their owners and their limits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import Unavailable
from proxy.server import shared_file as module
from proxy.server.shared_file import ResponseStore, SharedFile

ASKED: list[Any] = [{"type": "message", "role": "user", "content": "Hi"}]
MIB = 1024 * 1024


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "kept.db"


def made(number: int, text: str = "ü\ud800") -> dict[str, Any]:
    return {"id": f"resp_{number}", "output": [{"id": f"msg_{number}_0", "text": text}]}


def numbers(kept: ResponseStore, count: int) -> list[int]:
    return [number for number in range(count) if kept.response(f"resp_{number}") is not None]


def test_the_oldest_responses_above_the_number_limit_are_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is shared by all keys."""
    monkeypatch.setattr(module, "STORE_RESPONSES", 3)
    file = SharedFile(str(path))
    ResponseStore(file, "b").keep(made(9), [])
    kept = ResponseStore(file, "a")
    for number in range(3):
        kept.keep(made(number), [])
    assert ResponseStore(file, "b").response("resp_9") is None and numbers(kept, 3) == [0, 1, 2]


def test_the_oldest_responses_above_the_size_limit_are_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input counts, too, and the file stays near the limit."""
    monkeypatch.setattr(module, "STORE_BYTES", MIB)
    kept = ResponseStore(SharedFile(str(path)), "a")
    for number in range(100):
        kept.keep(made(number, "x" * 50_000), ["y" * 50_000])
    assert numbers(kept, 100) == [*range(90, 100)]
    assert path.stat().st_size < 1.2 * MIB
    kept.keep(made(100, "x" * 900_000), [])
    assert numbers(kept, 101) == [99, 100]


def test_a_response_larger_than_the_store_is_refused_and_removes_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STORE_BYTES", MIB)
    kept = ResponseStore(SharedFile(str(path)), "a")
    kept.keep(made(0), ASKED)
    for response, given in ((made(1, "x" * MIB), ""), (made(1), "y" * MIB)):
        with pytest.raises(Unavailable, match="at most 1,048,576 are kept"):
            kept.keep(response, [given])
    assert numbers(kept, 2) == [0]


def test_a_response_expires_after_a_day(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    kept = ResponseStore(SharedFile(str(path)), "a")
    kept.keep(made(1), ASKED)
    now[0] += 86_400
    assert kept.response("resp_1") is not None
    now[0] += 1
    assert (kept.response("resp_1"), kept.input_of("resp_1"), kept.delete("resp_1")) == (None, [], False)
    kept.keep(made(2), [])
    now[0] -= 2
    assert kept.response("resp_1") is None, "it is removed when the next one is stored"
