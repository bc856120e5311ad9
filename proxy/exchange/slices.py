"""How long one stream is worked on before others have their turn."""

from __future__ import annotations

import time
from collections.abc import Callable

# So long, in seconds, events are read that have come at once.
SLICE = 0.002


def new_slice() -> Callable[[], bool]:
    """Begin a slice: what it gives says whether it is over."""
    end = time.monotonic() + SLICE
    return lambda: time.monotonic() >= end
