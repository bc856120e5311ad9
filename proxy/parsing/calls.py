"""What a parser gives.

    <tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>

is `RawCall(read, "read", '{"path": "a.py"}')`.
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
