"""The ring of requests in a shared file, and a worker's activity, which one thread writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from proxy.server import activity as activities
from proxy.server.activity import OTHER_MODELS, Activity, ActivityRing, Record, verdict
from proxy.server.shared_file import SharedFile
from tests.support.scripted import PATIENCE


class LostCount:
    """The number of lost records, which a test can wait for."""

    def __init__(self) -> None:
        self.lost = 0
        self._changed = threading.Condition()

    def lose(self, count: int) -> None:
        with self._changed:
            self.lost += count
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.lost >= count, PATIENCE)


class NotedRing(ActivityRing):
    """A ring that reports additions."""

    def __init__(self, path: str) -> None:
        super().__init__(SharedFile(path).transaction)
        self.changed = threading.Condition()

    def add(self, records: Iterable[Record]) -> None:
        super().add(records)
        with self.changed:
            self.changed.notify_all()

    def wait(self, is_there: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_there, PATIENCE)


@pytest.fixture
def ring(tmp_path: Path) -> NotedRing:
    return NotedRing(str(tmp_path / "noted"))


@pytest.fixture
def losses() -> LostCount:
    return LostCount()


@pytest.fixture
def activity(ring: NotedRing, losses: LostCount) -> Iterator[Activity]:
    one = Activity(ring, losses.lose, gather=0.01)
    yield one
    one.close()


def names(ring: ActivityRing) -> list[object]:
    return [summary["id"] for _, summary in ring.newest()]


def test_waiting_records_are_written_on_close(tmp_path: Path, losses: LostCount) -> None:
    path = str(tmp_path / "ring")
    one = Activity(ActivityRing(SharedFile(path).transaction), losses.lose)
    for number in range(30):
        one.keep(lambda number=number: Record({"id": number}))  # type: ignore[misc]
    one.close()
    ring = ActivityRing(SharedFile(path).transaction)
    assert names(ring) == [*range(30)] and losses.lost == 0


def test_records_above_the_queue_limit_are_lost(activity: Activity, ring: NotedRing, losses: LostCount) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Record:
        begun.set()
        assert go_on.wait(PATIENCE)
        return Record({"id": "slow"})

    activity.keep(slow)
    assert begun.wait(PATIENCE)
    for number in range(activities.MAX_WAITING + 7):
        activity.keep(lambda number=number: Record({"id": number}))  # type: ignore[misc]
    assert losses.lost == 7
    go_on.set()
    ring.wait(lambda: len(names(ring)) == activities.MAX_WAITING + 1)


def test_waiting_records_are_limited_in_bytes_until_written(
    activity: Activity, ring: NotedRing, losses: LostCount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities, "MAX_WAITING_BYTES", 100)
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Record:
        begun.set()
        assert go_on.wait(PATIENCE)
        return Record({"id": "slow"})

    activity.keep(slow, 60)
    assert begun.wait(PATIENCE)
    activity.keep(lambda: Record({"id": "large"}), 1000)
    activity.keep(lambda: Record({"id": "lost"}), 1)
    assert losses.lost == 1
    go_on.set()
    ring.wait(lambda: names(ring) == ["slow", "large"])
    activity.keep(lambda: Record({"id": "again"}), 1)
    ring.wait(lambda: names(ring) == ["slow", "large", "again"])


def test_a_record_that_cannot_be_created_loses_only_itself(
    activity: Activity, ring: NotedRing, losses: LostCount, logged: pytest.LogCaptureFixture
) -> None:
    def broken() -> Record:
        raise ZeroDivisionError

    activity.keep(broken)
    activity.keep(lambda: Record({"id": "a"}))
    ring.wait(lambda: names(ring) == ["a"])
    assert losses.lost == 1
    assert "the record of a request cannot be made" in logged.text


def test_an_unusable_file_is_reported_once(losses: LostCount, logged: pytest.LogCaptureFixture) -> None:
    one = Activity(ActivityRing(SharedFile("/nowhere/ring").transaction), losses.lose, gather=0.01)
    for count in (1, 2, 3):
        one.keep(lambda: Record({}))
        losses.wait(count)
    one.close()
    assert losses.lost == 3
    assert len([line for line in logged.messages if "the live page lacks these requests" in line]) == 1


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], ActivityRing]:
    """Return a function that opens the file like another process."""
    return lambda: ActivityRing(SharedFile(str(tmp_path / "ring")).transaction)


def record(name: str, **parts: bytes) -> Record:
    return Record({"id": name}, parts)


def test_the_oldest_records_above_the_limit_are_removed(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "MAX_REQUESTS", 3)
    for name in "abcde":
        ring.add([record(name, asked=b"x")])
    assert names(ring) == ["c", "d", "e"]
    first, *_ = ring.newest()
    assert ring.record(first[0] - 1) is None


def test_the_oldest_records_above_the_size_are_removed(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "MAX_BYTES", 30)
    ring.add([record(name, asked=b"1234") for name in "abc"])
    assert names(ring) == ["b", "c"]
    ring.add([record("large", asked=b"x" * 17)])
    assert names(ring) == []
    ring.add([record("said in the summary alone", sent=b"")])
    assert names(ring) == []
    ring.add([record("d", asked=b"1234")])
    assert names(ring) == ["d"]


def test_totals_are_kept_forever_for_a_limited_number_of_models(
    ring: ActivityRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities, "MAX_MODELS", 2)
    monkeypatch.setattr(activities, "MAX_REQUESTS", 1)
    ring.add([Record({"model": name, "tokens": {"prompt": 5}}) for name in "abacda"])
    assert {model: (each["requests"], each["tokens_in"]) for model, each in ring.totals().items()} == {
        **{"a": (3, 15), "b": (1, 5)},
        OTHER_MODELS: (2, 10),
    }
    assert verdict(ring.totals()["b"]) == "1 request, 0 rescued, 0 rejected, 0 failed"


def test_processes_that_open_a_new_file_together_lose_nothing(opened: Callable[[], ActivityRing]) -> None:
    several = [opened() for _ in range(8)]
    threads = [threading.Thread(target=one.add, args=([record("a")] * 5,)) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(several[0].newest()) == 40
