"""Bodies beside each other in one wrapper: what names a tool that was not offered stays text, and does not take those
along that name one which was.
"""

from __future__ import annotations

from collections.abc import Callable

from ..reader import Parsing, RawCall, Reader


def one_of_several(
    reader: Reader, body: Callable[[Reader], Parsing[tuple[RawCall, ...]]], before: int
) -> Parsing[tuple[RawCall, ...]]:
    """Read one body behind `before` calls of its wrapper; no call if it stays text."""
    start, outside = reader.pos, reader.before
    reader.before += before
    try:
        calls = yield from body(reader)
        return () if reader.resume(start) else calls
    finally:
        reader.before = outside
