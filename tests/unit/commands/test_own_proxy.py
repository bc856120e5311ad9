"""A proxy beside an agent: where one can be started, and whose log it writes. The rest needs processes."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from proxy.commands.exit_status import CommandError, Status
from proxy.commands.own_proxy import _address_of, _is_of_a_launch, _log_of, _opened, running_proxy


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:8003", ("127.0.0.1", 8003)),
        ("http://localhost:1/", ("localhost", 1)),
        ("http://LOCALHOST", ("localhost", 80)),
        ("http://[::1]:65535", ("::1", 65535)),
    ],
)
def test_a_proxy_is_started_where_its_url_says(url: str, place: tuple[str, int]) -> None:
    assert _address_of(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:8003",
        "http://10.0.0.1:8003",
        "http://localhost.evil:1",
        "http://127.0.0.1/a",
        "http://[::2]:1",
    ],
)
def test_on_another_machine_none_is_started(url: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught, running_proxy(url, "http://gpu:8000", None, {}, tmp_path):
        pytest.fail("nothing runs")
    told = f"--upstream starts a proxy on this machine; {url} is not on it: leave one of the two out"
    assert (caught.value.status, str(caught.value)) == (Status.USAGE, told)
    assert [*tmp_path.iterdir()] == []


def test_each_port_has_a_log_which_is_begun_anew(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    log = _log_of(folder, 8003)
    assert log != _log_of(folder, 8004)
    for text in (b"the first", b"2"):
        with _opened(log) as file:
            file.write(text)
    assert log.read_bytes() == b"2"


def test_a_log_that_is_written_is_that_of_a_launch(tmp_path: Path) -> None:
    log = _log_of(tmp_path, 1)
    assert not _is_of_a_launch(log), "there is none"
    with _opened(log):
        assert _is_of_a_launch(log)
        assert _is_of_a_launch(log), "who looks leaves it as it is"
    assert not _is_of_a_launch(log), "nobody writes it any more"


def test_a_log_that_another_one_still_writes_is_opened_all_the_same(tmp_path: Path) -> None:
    log = _log_of(tmp_path, 1)
    with log.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with _opened(log) as file:
            file.write(b"mine")
    assert log.read_bytes() == b"mine"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    log = _log_of(tmp_path / "state", 1)
    with pytest.raises(CommandError) as caught:
        _opened(log)
    assert (caught.value.status, str(caught.value)) == (Status.NOT_WRITTEN, f"{log} cannot be written (File exists)")
