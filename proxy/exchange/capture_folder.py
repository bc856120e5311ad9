"""The folder of captures: each a file of its own, written whole or not at all, and bounded in number, size and age.

Only files that the proxy made are ever removed: those with such a name, plain, and of the same user. Where the workers
of a proxy write into one folder, each removes what is over the bounds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from proxy.limits import CAPTURE_SECONDS, CAPTURES_MAX

log = logging.getLogger("proxy")

# Files in one folder.
MAX_CAPTURES = 1000
# What was begun so long ago, in seconds, and is not finished, never will be.
UNFINISHED_SECONDS = 3600.0

# What becomes of captures, as the metrics count it.
WRITTEN, REMOVED, LOST = "written", "removed", "lost"

_NAME = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6})Z-[A-Za-z0-9._-]{1,64}\.capture(\.part)?")
_MOMENT = "%Y%m%dT%H%M%S.%f"
# The folders whose failure was told already.
_logged: set[str] = set()


def count_nothing(what: str, number: int) -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that the proxy made; `at` is when, in seconds since 1970."""

    path: str
    at: float
    size: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class CaptureFolder:
    """The folder at `path`; `count` is told what became of how many captures."""

    path: str
    count: Callable[[str, int], None] = count_nothing

    def keep(self, id_: str, data: bytes) -> None:
        """Write a capture of the request of this id. What cannot be written is logged, once per folder, and counted."""
        try:
            self._write(f"{datetime.now(UTC):{_MOMENT}Z}-{id_}.capture", data)
        except Exception as error:  # the outermost boundary: a capture is never worth a request
            self.lose(error)
            return
        self.count(WRITTEN, 1)
        self.tidy()

    def lose(self, error: Exception) -> None:
        """A capture could not be made."""
        self.count(LOST, 1)
        if self.path in _logged:
            return
        _logged.add(self.path)
        expected = isinstance(error, OSError)
        log.error("no capture can be written to %s: %s", self.path, error, exc_info=None if expected else error)

    def tidy(self) -> None:
        """Remove what is over the bounds, the oldest first."""
        removed = 0
        with contextlib.suppress(OSError):
            for path in _over(sorted(self._files(), key=_newest_first), time.time()):
                with contextlib.suppress(FileNotFoundError):  # another worker was faster
                    os.unlink(path)
                    removed += 1
        if removed:
            self.count(REMOVED, removed)

    def _write(self, name: str, data: bytes) -> None:
        """One new file, for its owner alone; it has its name once it is whole."""
        folder = Path(self.path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = folder / f"{name}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(unfinished, flags, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            unfinished.rename(folder / name)
        except OSError:
            with contextlib.suppress(OSError):  # half a capture is none
                unfinished.unlink()
            raise

    def _files(self) -> Iterator[_File]:
        """The files that the proxy made."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                match = _NAME.fullmatch(entry.name)
                if match is None or not entry.is_file(follow_symlinks=False):
                    continue
                about = entry.stat(follow_symlinks=False)
                at = _moment(match[1])
                if at is not None and about.st_uid == os.geteuid():
                    yield _File(entry.path, at, about.st_size, is_whole=not match[2])


def _newest_first(file: _File) -> tuple[float, str]:
    return -file.at, file.path


def _moment(text: str) -> float | None:
    """When a file says that it was made; None for digits that are no time."""
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _over(files: list[_File], now: float) -> Iterator[str]:
    """The paths of what is over the bounds; `files` begins with the newest."""
    count, size = 0, 0
    for file in files:
        if not file.is_whole:
            if file.at < now - UNFINISHED_SECONDS:
                yield file.path
            continue
        count += 1
        size += file.size
        is_old = file.at < now - CAPTURE_SECONDS
        if is_old or count > MAX_CAPTURES or size > CAPTURES_MAX:
            yield file.path
