"""The ring of requests in a file that several processes share, and a worker's activity, whose one thread writes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from proxy.errors import Unavailable
from proxy.server import activity as activities
from proxy.server.activity import OTHER_MODELS, Activity, ActivityRing, Record, verdict
from proxy.server.shared_file import SharedFile
from tests.support.scripted import PATIENCE

NOW = 1_795_000_000.0


class Told:
    """How many records were lost, as soon as it is said."""

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
    """A ring that says when something came."""

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
def told() -> Told:
    return Told()


@pytest.fixture
def activity(ring: NotedRing, told: Told, monkeypatch: pytest.MonkeyPatch) -> Iterator[Activity]:
    monkeypatch.setattr(activities, "TICK", 0.02)
    ring.look(time.time())
    one = Activity(ring, told.lose, gather=0.01)
    yield one
    one.close()


def names(ring: ActivityRing) -> list[object]:
    return [summary["id"] for _, summary in ring.newest()]


def test_what_waits_at_the_end_is_written(tmp_path: Path, told: Told) -> None:
    path = str(tmp_path / "ring")
    one = Activity(ActivityRing(SharedFile(path).transaction), told.lose)
    for number in range(30):
        one.keep(lambda number=number: Record({"id": number}))  # type: ignore[misc]
    one.close()
    ring = ActivityRing(SharedFile(path).transaction)
    assert names(ring) == [*range(30)] and told.lost == 0


def test_what_finds_no_room_is_lost_and_nobody_waits(activity: Activity, ring: NotedRing, told: Told) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Record:
        begun.set()
        assert go_on.wait(PATIENCE)
        return Record({"id": "slow"})

    activity.keep(slow)
    assert begun.wait(PATIENCE)
    for number in range(activities.MAX_WAITING + 7):
        activity.keep(lambda number=number: Record({"id": number}))  # type: ignore[misc]
    assert told.lost == 7
    go_on.set()
    ring.wait(lambda: len(names(ring)) == activities.MAX_WAITING + 1)


def test_what_waits_is_bounded_in_bytes_until_it_is_written(
    activity: Activity, ring: NotedRing, told: Told, monkeypatch: pytest.MonkeyPatch
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
    assert told.lost == 1
    go_on.set()
    ring.wait(lambda: names(ring) == ["slow", "large"])
    activity.keep(lambda: Record({"id": "again"}), 1)
    ring.wait(lambda: names(ring) == ["slow", "large", "again"])


def test_a_record_that_cannot_be_made_costs_itself_alone(
    activity: Activity, ring: NotedRing, told: Told, logged: pytest.LogCaptureFixture
) -> None:
    def broken() -> Record:
        raise ZeroDivisionError

    activity.keep(broken)
    activity.keep(lambda: Record({"id": "a"}))
    ring.wait(lambda: names(ring) == ["a"])
    assert told.lost == 1
    assert "the record of a request cannot be made" in logged.text


def test_a_file_that_cannot_be_used_is_told_once(told: Told, logged: pytest.LogCaptureFixture) -> None:
    one = Activity(ActivityRing(SharedFile("/nowhere/ring").transaction), told.lose, gather=0.01)
    for count in (1, 2, 3):
        one.keep(lambda: Record({}))
        told.wait(count)
    one.close()
    assert told.lost == 3
    assert len([line for line in logged.messages if "the live page lacks these requests" in line]) == 1


def test_the_thread_survives_that_it_cannot_be_told_whether_somebody_looks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = threading.Semaphore(0)

    class Failing(NotedRing):
        def is_watched(self, now: float) -> bool:
            asked.release()
            raise Unavailable("the file cannot be used")

    activity = Activity(Failing(str(tmp_path / "ring")), Told().lose)
    activity.begin(lambda: {"id": "a"})
    try:
        assert all(asked.acquire(timeout=PATIENCE) for _ in range(2))
    finally:
        activity.close()
    assert caplog.text.count("the file cannot be used") == 1


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], ActivityRing]:
    """Open the same file as another process would."""
    return lambda: ActivityRing(SharedFile(str(tmp_path / "ring")).transaction)


def record(name: str, **parts: bytes) -> Record:
    return Record({"id": name}, parts)


def test_the_oldest_go_by_their_number(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "MAX_REQUESTS", 3)
    for name in "abcde":
        ring.add([record(name, asked=b"x")])
    assert names(ring) == ["c", "d", "e"]
    assert ring.record(2) is None


def test_the_oldest_go_by_their_bytes(ring: ActivityRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "MAX_BYTES", 30)
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
    monkeypatch.setattr(activities, "MAX_MODELS", 2)
    monkeypatch.setattr(activities, "MAX_REQUESTS", 1)
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
