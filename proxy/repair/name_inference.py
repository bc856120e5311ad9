"""Which tool a call without a name can mean (F37)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from proxy.tools.toolset import Tool, ToolSet


@dataclass(frozen=True, slots=True)
class _Row:
    """Keys that tell a tool: one of each group must be there, and none of `without`."""

    tool: str
    groups: tuple[tuple[str, ...], ...]
    without: frozenset[str] = frozenset()


_FILE = ("file_path", "filePath")
# What the users of qwen3-call-patch-proxy rely on, in its order.
_TABLE = (
    _Row("todowrite", (("todos",),)),
    _Row("bash", (("command",),), frozenset(("edits",))),
    _Row("multiedit", (("file_path",), ("edits",))),
    _Row("edit", (_FILE, ("oldString", "old_string"), ("newString", "new_string"))),
    _Row("grep", (("pattern",), ("output_mode",))),
    _Row("glob", (("pattern",),), frozenset(("output_mode",))),
    _Row("webfetch", (("url",), ("prompt",))),
    _Row("websearch", (("query",),)),
    _Row("write", (("content",), _FILE)),
    _Row("read", (_FILE,), frozenset(("content",))),
    _Row("task", (("description",), ("prompt",), ("subagent_type",))),
    _Row("notebookedit", (("notebook_path",), ("new_source",))),
    _Row("list", (("path",),)),
)


def inferred(keys: Collection[str], tools: ToolSet, *, by_table: bool) -> Tool | None:
    """The only offered tool that accepts these keys, or None.

    `by_table`: where the schemas leave several or none, the table decides, over tools whose properties hold every key.
    """
    if not keys:
        return None
    accepting = [tool for tool in tools if tool.accepts(keys)]
    if len(accepting) == 1:
        return accepting[0]
    given = frozenset(keys)
    for row in _TABLE if by_table else ():
        if given & row.without or not all(given.intersection(group) for group in row.groups):
            continue
        tool = tools.resolve(row.tool)
        if tool is not None and given <= tool.properties.keys():
            return tool
    return None
