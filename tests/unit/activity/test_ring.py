"""The ring: the newest requests of several processes in one file, bounded in number and in bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.activity import ring as rings
from proxy.activity.record import Record
from proxy.activity.ring import ActivityRing
from proxy.worker.shared_file import SharedFile

NOW = 1_795_000_000.0


@pytest.fixture(params=["file", "memory"])
def ring(request: pytest.FixtureRequest, tmp_path: Path) -> ActivityRing:
    return ActivityRing(SharedFile(str(tmp_path / "ring") if request.param == "file" else "").transaction)


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
        ring.add([record(name, asked=b"x")], NOW)
    assert names(ring) == ["c", "d", "e"]
    assert ring.story(2) is None


def test_the_oldest_go_by_their_bytes(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "MAX_BYTES", 30)
    ring.add([record(name, asked=b"1234") for name in "abc"], NOW)
    assert names(ring) == ["b", "c"]
    ring.add([record("large", asked=b"x" * 17)], NOW)
    assert names(ring) == []
    ring.add([record("said in the summary alone", sent=b"")], NOW)
    assert names(ring) == []
    ring.add([record("d", asked=b"1234")], NOW)
    assert names(ring) == ["d"]


def test_a_minute_has_so_many_names(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "MAX_NAMES", 2)
    ring.add([Record({}, counts={("repairs", name): 1}) for name in "abcd"], NOW)
    assert [name for _, _, name, _ in ring.counts(NOW)] == ["a", "b"]


def test_what_is_under_way_is_that_of_all_workers_while_they_say_so(ring: ActivityRing) -> None:
    ring.show_live(1, [{"id": "a"}, {"id": "b"}], NOW)
    ring.show_live(2, [{"id": "c"}], NOW + 3)
    assert [row["id"] for row in ring.live(NOW + 4)] == ["a", "b", "c"]
    assert [row["id"] for row in ring.live(NOW + 6)] == ["c"]
    ring.show_live(2, [], NOW + 7)
    assert ring.live(NOW + 7) == []


def test_a_session_holds_for_its_time_and_until_it_is_ended(ring: ActivityRing) -> None:
    ring.begin_session(b"one", NOW + 10)
    ring.begin_session(b"two", NOW + 10)
    assert ring.has_session(b"one", NOW) and not ring.has_session(b"three", NOW)
    assert not ring.has_session(b"one", NOW + 10)
    ring.end_session(b"one")
    assert not ring.has_session(b"one", NOW) and ring.has_session(b"two", NOW)


def test_there_are_so_many_sessions(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "MAX_SESSIONS", 2)
    for at, digest in enumerate((b"a", b"b", b"c")):
        ring.begin_session(digest, NOW + at)
    assert [ring.has_session(digest, NOW - 1) for digest in (b"a", b"b", b"c")] == [False, True, True]


def test_several_processes_write_and_read_the_same_ring(opened: Callable[[], ActivityRing]) -> None:
    one, other = opened(), opened()
    one.add([record("a")], NOW)
    other.add([record("b")], NOW)
    assert names(one) == names(other) == ["a", "b"]
    assert one.name() == other.name()


def test_many_that_open_a_new_file_at_once_lose_nothing(opened: Callable[[], ActivityRing]) -> None:
    several = [opened() for _ in range(8)]
    threads = [threading.Thread(target=one.add, args=([record("a")] * 5, NOW)) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(several[0].newest()) == 40


def test_each_ring_has_a_name_of_its_own(ring: ActivityRing) -> None:
    assert ring.name() == ring.name() != ActivityRing(SharedFile().transaction).name()


def test_names_that_are_known_and_how_many_were_answered_are_counted_whatever_else_there_is(
    ring: ActivityRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, "MAX_NAMES", 2)
    ring.add([Record({}, counts={("repairs", name): 1}) for name in "ab"], NOW)
    ring.add([Record({}, counts={("repairs", name): 1 for name in "cab"} | {("requests", "answered"): 1})], NOW)
    counted = {(group, name): count for _, group, name, count in ring.counts(NOW)}
    assert counted == {("repairs", "a"): 2, ("repairs", "b"): 2, ("requests", "answered"): 1}
