"""The tool of a call without a name, inferred from its arguments (F37)."""

from __future__ import annotations

from proxy.notations.toolset import ToolSet
from proxy.repair.repairer import inferred
from tests.support.helpers import function, offered
from tests.support.rows import rows

TEXT = {"type": "string"}


def named(keys: list[str], tools: ToolSet, *, by_table: bool = False) -> str | None:
    found = inferred(keys, tools, by_table=by_table)
    return found.name if found else None


def tools(**parameters: str) -> ToolSet:
    """Return tools by name with their parameters, where `!` marks a required one."""
    return offered(
        *(
            function(name, {key.strip("!"): TEXT for key in keys.split()}, *[k[:-1] for k in keys.split() if "!" in k])
            for name, keys in parameters.items()
        )
    )


def test_the_only_tool_that_accepts_the_keys_is_inferred() -> None:
    offered_ = tools(write="path! content!", read="path! limit", list="folder")
    assert named(["path", "content"], offered_) == "write"
    assert named(["path"], offered_) == "read"
    assert named(["path", "limit"], offered_) == "read"


@rows(__file__, "keys")
def test_no_tool_is_inferred_if_none_accepts_all_keys(keys: list[str]) -> None:
    assert named(keys, tools(write="path! content!", read="path! limit")) is None


def test_no_tool_is_inferred_if_two_accept_the_keys() -> None:
    assert named(["path"], tools(read="path!", list="path!")) is None
    assert named([], tools(now="")) is None


def test_the_table_decides_only_between_tools_with_every_key() -> None:
    offered_ = tools(bash="command", other="command cwd", third="command cwd")
    assert named(["command", "cwd"], offered_, by_table=True) is None
    assert named(["command"], offered_, by_table=True) == "bash"
    assert named(["command"], tools(read="x", list="x"), by_table=True) is None


def test_the_table_finds_the_offered_spelling() -> None:
    assert named(["todos"], tools(TodoWrite="todos", todo_read="todos"), by_table=True) == "TodoWrite"


def test_schemas_take_precedence_over_the_table() -> None:
    assert named(["query"], tools(find="query!", websearch="query! site!"), by_table=True) == "find"
