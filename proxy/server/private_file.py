"""Files for this user alone: the audit file, and those that the workers share."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time

_FLAGS = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PAUSE = 0.005


def open_private(path: str, flags: int) -> int:
    """Open the file at `path` with mode 0600, create it if needed, and return its descriptor.

    Raises OSError for a symlink and for anything that `check_plain` rejects: other users may be able to write to the
    folder.
    """
    try:
        file = os.open(path, flags | _FLAGS, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError("it is a symlink") from None
        raise
    try:
        about = os.fstat(file)
        check_plain(about)
        if about.st_mode & 0o077:
            os.fchmod(file, 0o600)
    except OSError:
        os.close(file)
        raise
    return file


def check_plain(about: os.stat_result) -> None:
    """Raise OSError unless this is a regular file of this user with one link."""
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_nlink > 1:
        raise OSError("it is not a plain file of this user's own")


def lock_within(file: int, seconds: float) -> None:
    """Lock a file against other processes (`flock`). Raises OSError if it is still locked after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError("another process keeps it locked") from None
            time.sleep(_PAUSE)
