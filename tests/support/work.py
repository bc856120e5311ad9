"""Limits on processor time, which are also valid on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds. On the tests' texts, linear code takes three on a slow machine, and quadratic code minutes or hours.
LINEAR = 30.0


@contextmanager
def over_soon(seconds: float = LINEAR) -> Iterator[None]:
    """Fail if the block takes more than this processor time (s) of its thread (C7).

    The limit should be at least ten times the time on an idle machine: threads that share a core slow each other down.
    """
    began = time.thread_time()
    yield
    assert time.thread_time() - began < seconds
