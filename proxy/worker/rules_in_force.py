"""The rules in force, as a file in the folder that the workers share.

A reload reads and checks the rules file and the keys, and only then publishes their text here. A worker that starts or
looks again takes the published text, whatever the rules file says by then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import msgspec

from proxy.config.api_keys import KeyFiles
from proxy.config.load import RulesText
from proxy.errors import RulesError
from proxy.worker.private_file import check_plain, lock_within, open_private

# gunicorn_conf.py removes the first two when the master starts, and creates the third at a reload (SIGHUP).
FILE_NAME = "rules-in-force"
_REQUEST = "reload-requested"
_PATIENCE = 30.0


class Published(msgspec.Struct, frozen=True):
    """The text of the rules file in force, and the files of keys.

    `number` counts the reloads. `error` says why a newer text is not in force. `lessons` are the healings that a model
    server has taught by refusing requests, by model; a reload forgets them.
    """

    number: int = 0
    text: RulesText = RulesText(b"", "")
    keys: KeyFiles = KeyFiles()
    error: str = ""
    lessons: dict[str, tuple[str, ...]] = {}


class RulesInForce:
    """The published rules in a folder."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, FILE_NAME)
        self._request = os.path.join(folder, _REQUEST)

    def version(self) -> tuple[int, int] | None:
        """Return what tells one publication from the next, or None if nothing is published. Costs one `stat`."""
        try:
            about = os.stat(self._path)
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns

    def read(self) -> Published | None:
        """Return what is published, or None if there is nothing of our own that this release can read."""
        try:
            with open(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                check_plain(os.fstat(file.fileno()))
                return msgspec.msgpack.decode(file.read(), type=Published)
        except (OSError, msgspec.DecodeError):
            return None

    def publish(self, published: Published) -> None:
        """Replace what is published; only while `locked`. Raises RulesError if it cannot be written."""
        new = f"{self._path}.new"
        try:
            with open(open_private(new, os.O_WRONLY | os.O_TRUNC), "wb") as file:
                file.write(msgspec.msgpack.encode(published))
            os.rename(new, self._path)
        except OSError as error:
            raise self._unusable(error) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one thread of one worker at a time publish. Raises RulesError if the folder cannot be used."""
        with contextlib.ExitStack() as opened:
            try:
                file = opened.enter_context(open(open_private(f"{self._path}.lock", os.O_RDWR), "rb"))
                lock_within(file.fileno(), _PATIENCE)
            except OSError as error:
                raise self._unusable(error) from error
            yield

    def reload_requested(self) -> bool:
        """Return whether SIGHUP has asked for a reload, and forget the request; only while `locked`."""
        try:
            os.unlink(self._request)
        except FileNotFoundError:
            return False
        return True

    def _unusable(self, error: OSError) -> RulesError:
        return RulesError(f"{self._path}: the workers cannot share the rules: {error.strerror or error}")
