"""Exit statuses, and what commands print for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from proxy import __file__ as _package_file
from proxy.display import escaped

NAME = "vllm-tool-proxy"
# The folder that holds the package, for programs that import it. Symlinks are kept.
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(_package_file)))


class Status(IntEnum):
    """Exit statuses of `setup` and `launch`; their --help lists them."""

    DONE = 0
    NOT_WRITTEN = 1  # a file cannot be merged or written, or --undo found it changed
    USAGE = 2  # wrong usage, or a missing or rejected key
    NOT_THERE = 3  # nothing answers, or the proxy does not reach its model server
    NO_PROXY = 4  # what answers is not this proxy
    NOT_INSTALLED = 127  # the agent's program is not on PATH
    INTERRUPTED = 130  # 128 and the signal's number, as in a shell


class CommandError(Exception):
    """The end of a command, with a status and one line for the user."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def reported(path: object, verb: str, status: Status = Status.NOT_WRITTEN) -> Iterator[None]:
    """Raise CommandError for an OSError in the block: "PATH cannot be written (Permission denied)"."""
    try:
        yield
    except OSError as error:
        raise CommandError(status, f"{path} cannot be {verb} ({error.strerror})") from error


def report(line: str) -> None:
    """Print a line on standard error, if that is open."""
    if sys.stderr is not None:
        print(escaped(line), file=sys.stderr, flush=True)


def say(kind: str, message: str) -> None:
    """Print one line on standard error: `vllm-tool-proxy: error: …`."""
    report(f"{NAME}: {kind}: {' '.join(message.split())}")


def show(lines: Iterable[str]) -> None:
    """Print lines on standard output, control characters escaped."""
    print("\n".join(escaped(line, "\n\t") for line in lines))
