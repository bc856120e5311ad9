"""How much of a processor something takes, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

# What takes time by the square of such texts takes minutes or hours; what is linear, three seconds on a slow machine.
LINEAR = 30.0


@contextmanager
def over_soon(seconds: float = LINEAR) -> Iterator[None]:
    """See to it that what is inside takes no more than these seconds of this thread's processor time (C7).

    They are at least ten times what it takes on an idle machine: two threads that share a core are slower by half each.
    """
    began = time.thread_time()
    yield
    assert time.thread_time() - began < seconds
