"""The files of captures that a command is given, and how many of them came out how."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.errors import RulesError
from proxy.exchange.capture import Captured, read_capture
from proxy.limits import MAX_CAPTURE

_ENDING = ".capture"
# Stars are as long as what they stand for; the record of what became of the answer is no longer than the answer.
_MOST = 2 * MAX_CAPTURE
_NEEDED = "give a file that serve --capture DIR wrote, or a folder of such files"


def is_folder(path: str) -> bool:
    """True for a folder."""
    try:
        return os.path.isdir(path)
    except ValueError:  # a NUL in it
        return False


def files_of(paths: Sequence[str]) -> list[str]:
    """The captures that are meant: the files as they are, of a folder all that it holds, the oldest first.

    Raises RulesError for a folder that holds none.
    """
    files: list[str] = []
    for path in paths:
        files += _inside(path) if is_folder(path) else [path]
    return files


def _inside(folder: str) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_ENDING))
    except OSError as error:
        raise _unreadable(folder, error) from error
    if not names:
        raise RulesError(f"{folder!r} holds no captures (*{_ENDING}); {_NEEDED}")
    # A pipe in it has no end.
    files = [os.path.join(folder, name) for name in names]
    return [file for file in files if not os.path.exists(file) or os.path.isfile(file)]


def read_file(path: str) -> Captured:
    """Read a capture. Raises RulesError if it cannot be read, or is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if len(data) > _MOST:
        raise RulesError(f"{path!r} is longer than any capture; {_NEEDED}")
    return read_capture(data, path)


def _unreadable(path: str, error: Exception) -> RulesError:
    reason = getattr(error, "strerror", None) or error
    return RulesError(f"{path!r} cannot be read ({reason}); {_NEEDED}")


@dataclass(slots=True)
class Total:
    """The numbers of captures by result; of those that are `unrecorded` nothing is known, `bad` are none."""

    same: int = 0
    changed: int = 0
    unrecorded: int = 0
    bad: int = 0

    def add(self, recorded: bool, *, changed: bool) -> None:
        """One more capture, of which something is recorded or not."""
        if not recorded:
            self.unrecorded += 1
        elif changed:
            self.changed += 1
        else:
            self.same += 1

    @property
    def exit_code(self) -> int:
        """The exit code of a command over all of them."""
        if self.bad:
            return 2
        return 1 if self.changed else 0

    def __str__(self) -> str:
        """`3 captures: 2 as recorded, 1 changed`"""
        count = self.same + self.changed + self.unrecorded + self.bad
        parts = [f"{self.same} as recorded", f"{self.changed} changed"]
        if self.unrecorded:
            parts.append(f"{self.unrecorded} of which nothing was recorded")
        if self.bad:
            parts.append(f"{self.bad} no captures")
        return f"{count} capture{'' if count == 1 else 's'}: {', '.join(parts)}"
