"""The ring: the newest requests of several processes in one file, bounded in number and in bytes."""

from __future__ import annotations

import fcntl
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.activity import ring as rings
from proxy.activity.record import Record
from proxy.activity.ring import ActivityRing, place_of
from proxy.errors import Unavailable

NOW = 1_795_000_000.0


@pytest.fixture(params=["file", "memory"])
def ring(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ActivityRing]:
    one = ActivityRing(place_of(str(tmp_path)) if request.param == "file" else "")
    yield one
    one.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], ActivityRing]]:
    """Opens the same file as another process would."""
    made: list[ActivityRing] = []

    def another() -> ActivityRing:
        made.append(ActivityRing(place_of(str(tmp_path))))
        return made[-1]

    yield another
    for one in made:
        one.close()


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


def test_the_file_is_its_owners_alone(opened: Callable[[], ActivityRing]) -> None:
    one = opened()
    one.add([record("a")], NOW)
    assert stat.S_IMODE(Path(one.path).stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["no folder", "no database", "a folder", "a link"])
def test_a_file_that_cannot_be_used_is_told_in_words(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ring"
    if kind == "no database":
        path.write_bytes(b"hello " * 1000)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path = tmp_path / "missing" / "ring"
    broken = ActivityRing(str(path))
    with pytest.raises(Unavailable, match="the file of the live page cannot be used"):
        broken.add([record("a")], NOW)
    broken.close()
    assert not (tmp_path / "elsewhere").exists()


def overwrite(ring: ActivityRing) -> None:
    """Something else stands in the file, and what waits to be moved there is cut off."""
    for end in ("", "-wal"):
        path = Path(ring.path + end)
        if path.exists():
            with path.open("r+b") as file:
                file.write(b"no database " * (path.stat().st_size // 12 + 1))


def added(ring: ActivityRing, name: str) -> bool:
    try:
        ring.add([record(name)], NOW)
    except Unavailable:
        return False
    return True


def add_until_it_is_there(ring: ActivityRing, name: str) -> None:
    """A process that finds the file broken a moment before another one has made it anew adds in vain."""
    assert any(added(ring, name) for _ in range(10))


def test_a_file_that_breaks_is_made_anew_and_what_it_held_is_counted(opened: Callable[[], ActivityRing]) -> None:
    one = opened()
    lost: list[int] = []
    one.lose = lost.append
    one.add([record("a"), record("b")], NOW)
    before = one.name()
    overwrite(one)
    one.close()
    assert not added(one, "c") and added(one, "d")
    assert (names(one), lost) == (["d"], [2])
    assert one.name() != before


def test_one_of_several_makes_it_anew_and_the_others_take_that(opened: Callable[[], ActivityRing]) -> None:
    several = [opened() for _ in range(3)]
    lost: list[int] = []
    for one in several:
        one.lose = lost.append
        one.add([record("a")], NOW)
    overwrite(several[0])
    for one in several:
        add_until_it_is_there(one, "b")
    assert len({one.name() for one in several}) == 1
    assert {"a"} & {*names(several[0])} == set()
    assert len(lost) == 1


def test_many_that_find_it_broken_at_once_make_it_anew_once(opened: Callable[[], ActivityRing]) -> None:
    several = [opened() for _ in range(8)]
    lost: list[int] = []
    for one in several:
        one.lose = lost.append
    several[0].add([record("a")], NOW)
    several[0].close()
    overwrite(several[0])

    threads = [threading.Thread(target=add_until_it_is_there, args=(one, "b")) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lost) == 1
    assert all(names(one) == ["b"] * 8 for one in several)


def test_who_comes_late_to_the_broken_file_leaves_the_new_one(
    opened: Callable[[], ActivityRing], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file may have the number that the broken one had, once nobody has that open any more."""
    one, other = opened(), opened()
    lost: list[int] = []
    one.lose = other.lose = lost.append
    other.add([record("a")], NOW)
    other.close()
    overwrite(other)
    locks = iter(range(1000))
    lock_at_once = fcntl.flock

    def flock(file: int, how: int) -> None:
        if next(locks) == 1:  # the first is for the opening, the second for the removal
            add_until_it_is_there(other, "b")
        lock_at_once(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    add_until_it_is_there(one, "c")
    assert names(one) == names(other) == ["b", "c"]
    assert len(lost) == 1


def test_a_file_that_is_gone_is_made_anew_for_all(opened: Callable[[], ActivityRing]) -> None:
    one, other = opened(), opened()
    one.add([record("a")], NOW)
    other.add([record("b")], NOW)
    Path(one.path).unlink()
    one.add([record("c")], NOW)
    other.add([record("d")], NOW)
    assert names(one) == names(other) == ["c", "d"]


def test_names_that_are_known_and_how_many_were_answered_are_counted_whatever_else_there_is(
    ring: ActivityRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, "MAX_NAMES", 2)
    ring.add([Record({}, counts={("repairs", name): 1}) for name in "ab"], NOW)
    ring.add([Record({}, counts={("repairs", name): 1 for name in "cab"} | {("requests", "answered"): 1})], NOW)
    counted = {(group, name): count for _, group, name, count in ring.counts(NOW)}
    assert counted == {("repairs", "a"): 2, ("repairs", "b"): 2, ("requests", "answered"): 1}
