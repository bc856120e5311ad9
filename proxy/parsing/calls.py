"""What a parser gives, and what is open around the place where it reads.

    <tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>

is `RawCall(read, "read", '{"path": "a.py"}')` in `Enclosure(b"<tool_call>", (b"</tool_call>",), True)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.tools.toolset import Tool


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as a format gives it: the offered tool, its arguments as the text of a JSON object, and the id that the
    model gave it, empty if none; `explicit` if it is an object that says its name and its arguments.
    """

    tool: Tool
    written_name: str
    arguments: str
    id: str = ""
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A wrapper, or a fence, that is open: its opener as it was written, what closes it, and whether it began on a line
    of its own.
    """

    opener: bytes
    closers: tuple[bytes, ...]
    lined: bool
