"""Bodies beside each other in one wrapper: what names a tool that was not offered stays text, and does not take those
along that name one which was:

    <tool_calls><tool_call>{"name": "now"}</tool_call><tool_call>{"name": "unknown"}</tool_call></tool_calls>
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from proxy.parsing.cursor import Cursor, Parsing, RawCall


def sibling_calls(
    cursor: Cursor, body: Callable[[Cursor], Parsing[tuple[RawCall, ...]]], before: int
) -> Parsing[tuple[RawCall, ...]]:
    """Read one body behind `before` calls of its wrapper; no call if it stays text."""
    start, outside = cursor.pos, cursor.context.calls_before
    if before:
        cursor.context = replace(cursor.context, calls_before=outside + before)
    try:
        calls = yield from body(cursor)
        if cursor.resume(start):
            return ()
        return calls
    finally:
        if before:
            cursor.context = replace(cursor.context, calls_before=outside)
