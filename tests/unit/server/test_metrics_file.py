"""The files in which workers count, on a full disk and with damaged content."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from proxy.server.metrics import Metrics, MetricsFile

Make = Callable[[Path], MetricsFile]


@pytest.fixture(name="make")
def _make() -> Iterator[Make]:
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(contextlib.closing(MetricsFile(str(path))))


def _key(number: int = 0) -> str:
    return str(mmap_key("tool_proxy_heartbeats", "tool_proxy_heartbeats_total", ["n"], [str(number)], "Sent."))


def _write(file: MetricsFile, number: int, value: float = 1.0) -> None:
    file.write_value(_key(number), value, 0.0)  # type: ignore[no-untyped-call]


def _values(file: MmapedDict) -> list[float]:
    return [value for _, value, _ in file.read_all_values()]  # type: ignore[no-untyped-call]


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_all_blocks_are_allocated_even_when_the_file_grows(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "counter_1.db"
    file = make(path)
    for number in range(500):
        _write(file, number)
        about = path.stat()
        assert about.st_blocks * 512 >= about.st_size
    assert len(_values(file)) == 500


def test_a_worker_that_starts_on_a_full_disk_counts_in_memory(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", _full)
    file = make(tmp_path / "counter_1.db")
    for number in range(2000):
        _write(file, number)
    assert (len(_values(file)), [*tmp_path.iterdir()]) == (2000, [])
    assert "No space left on device" in caplog.text


def test_a_file_that_cannot_grow_goes_on_in_memory(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "counter_1.db"
    file = make(path)
    _write(file, 0)
    monkeypatch.setattr(os, "posix_fallocate", _full)
    for number in range(1, 500):
        _write(file, number)
    assert _values(file) == [1.0] * 500
    assert path.stat().st_size == 8192


@pytest.mark.parametrize("data", [b"", b"garbage", b"\xff" * 100, b"\x40\0\0\0\0\0\0\0\xff\xff\0\0" + b"x" * 100])
def test_a_broken_file_is_omitted(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    for number in range(2):
        _write(make(tmp_path / f"counter_{number}.db"), 7, 2.0)
    metrics = Metrics()
    (tmp_path / "counter_9.db").write_bytes(data)
    found = [metrics.exposition(rules_in_force=True) for _ in range(2)]
    assert all(b'tool_proxy_heartbeats_total{n="7"} 4.0' in each for each in found)
    assert caplog.text.count("counter_9.db") == (data not in (b"", b"\xff" * 100))
    (tmp_path / "counter_9.db").unlink()
    _write(make(tmp_path / "counter_9.db"), 7, 2.0)
    assert b'{n="7"} 6.0' in metrics.exposition(rules_in_force=True)


def test_a_new_worker_continues_the_counts_of_the_one_it_replaces(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "counter_0.db"
    for count in (1.0, 2.0):
        file = make(path)
        _write(file, 7, file.read_value(_key(7))[0] + 1)  # type: ignore[no-untyped-call]
        assert _values(make(path)) == [count]


def test_a_worker_starts_even_if_its_predecessors_file_is_broken(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "counter_0.db"
    path.write_bytes(b"x" * 100)
    _write(make(path), 7)
    assert "counter_0.db cannot be used" in caplog.text and not path.exists()
