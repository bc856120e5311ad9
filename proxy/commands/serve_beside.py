"""`serve` for as long as another process lives: `python -m proxy.commands.serve_beside PID [options of serve]`.

A process that is killed (SIGKILL) ends without a last step, and what it had started would go on. The kernel is asked to
end this one then; that stands through the exec into gunicorn (prctl(2), PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

from proxy.commands.main import main

_PR_SET_PDEATHSIG = 1


def serve_beside(words: Sequence[str]) -> int:
    """Serve, and end with the process whose id is the first word; return the exit status, or become gunicorn."""
    parent, *options = words
    # Of a shell's background job it may be ignored, until gunicorn has a handler.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    _end_with_the_parent(signal.SIGQUIT)
    if os.getppid() != int(parent):
        return 1  # it has ended before the kernel was asked
    return main(["serve", *options])


def _end_with_the_parent(number: signal.Signals) -> None:
    """Let the kernel send this signal when the thread that has started this process ends: there it is the main one."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))


if __name__ == "__main__":
    sys.exit(serve_beside(sys.argv[1:]))
