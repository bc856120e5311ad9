"""The ring: the newest requests of several processes in one file, bounded in number and in bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.server import activity as rings
from proxy.server.activity import OTHER_MODELS, ActivityRing, Record, verdict
from proxy.server.shared_file import SharedFile

NOW = 1_795_000_000.0


@pytest.fixture
def ring(tmp_path: Path) -> ActivityRing:
    return ActivityRing(SharedFile(str(tmp_path / "ring")).transaction)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], ActivityRing]:
    """Open the same file as another process would."""
    return lambda: ActivityRing(SharedFile(str(tmp_path / "ring")).transaction)


def record(name: str, **parts: bytes) -> Record:
    return Record({"id": name}, parts)


def names(ring: ActivityRing, after: int = 0) -> list[object]:
    return [summary["id"] for _, summary in ring.newest(after)]


def test_the_oldest_go_by_their_number(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "MAX_REQUESTS", 3)
    for name in "abcde":
        ring.add([record(name, asked=b"x")])
    assert names(ring) == ["c", "d", "e"]
    assert ring.record(2) is None


def test_the_oldest_go_by_their_bytes(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "MAX_BYTES", 30)
    ring.add([record(name, asked=b"1234") for name in "abc"])
    assert names(ring) == ["b", "c"]
    ring.add([record("large", asked=b"x" * 17)])
    assert names(ring) == []
    ring.add([record("said in the summary alone", sent=b"")])
    assert names(ring) == []
    ring.add([record("d", asked=b"1234")])
    assert names(ring) == ["d"]


def test_totals_are_kept_by_model_up_to_so_many_and_for_ever(
    ring: ActivityRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, "MAX_MODELS", 2)
    monkeypatch.setattr(rings, "MAX_REQUESTS", 1)
    ring.add([Record({"model": name, "tokens": {"prompt": 5}}) for name in "abacda"])
    assert {model: (each["requests"], each["tokens_in"]) for model, each in ring.totals().items()} == {
        **{"a": (3, 15), "b": (1, 5)},
        OTHER_MODELS: (2, 10),
    }
    assert verdict(ring.totals()["b"]) == "1 request, 0 rescued, 0 rejected, 0 failed"


def test_a_page_is_open_for_a_while_after_it_asked(ring: ActivityRing) -> None:
    assert not ring.is_watched(NOW)
    ring.look(NOW)
    assert ring.is_watched(NOW + 4) and not ring.is_watched(NOW + 6)
    assert ring.live(NOW) == []


def test_what_is_under_way_is_that_of_all_workers_while_they_say_so(ring: ActivityRing) -> None:
    ring.show_live(1, [{"id": "a"}, {"id": "b"}], NOW)
    ring.show_live(2, [{"id": "c"}], NOW + 3)
    assert [row["id"] for row in ring.live(NOW + 4)] == ["a", "b", "c"]
    assert [row["id"] for row in ring.live(NOW + 6)] == ["c"]
    ring.show_live(2, [], NOW + 7)
    assert ring.live(NOW + 7) == []


def test_many_that_open_a_new_file_at_once_lose_nothing(opened: Callable[[], ActivityRing]) -> None:
    several = [opened() for _ in range(8)]
    threads = [threading.Thread(target=one.add, args=([record("a")] * 5,)) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(several[0].newest()) == 40
