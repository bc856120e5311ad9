"""The exit statuses of `setup` and `launch`."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The exit status; docs/agents.md lists them."""

    DONE = 0
    NOT_WRITTEN = 1  # a file cannot be merged, or was changed since
    USAGE = 2  # the command line leaves something open, or a key is missing or refused
    NOT_THERE = 3  # nothing answers there, or the proxy does not reach its model server
    NO_PROXY = 4  # what answers is no proxy, or talks nonsense
    NOT_INSTALLED = 127  # the agent's program is not on PATH
    INTERRUPTED = 130  # by Ctrl-C, of any command: 128 and the number of the signal, as a shell has it


class CommandError(Exception):
    """A command ends here, with a status; the text is one line for the person."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
