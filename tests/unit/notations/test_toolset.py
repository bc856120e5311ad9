"""The offered tools: how they are read from a request, and which names select them (F36, F40, contract C3)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proxy.notations.toolset import (
    ToolSet,
    read_tools,
    respelled,
    short_name,
    without_markup,
)
from tests.support.helpers import function
from tests.support.rows import rows


def named(*names: str) -> ToolSet:
    return read_tools([function(name) for name in names])


ROWS = [*map(json.loads, Path(__file__).with_name("names.jsonl").read_text("utf-8").splitlines())]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["written"])
def test_a_name_selects_a_tool_only_if_it_is_unambiguous(row: dict[str, Any]) -> None:
    """An exact name takes precedence, an ambiguous name selects no tool, and similarity does not count."""
    tools = named(*row["offered"])
    for _ in range(2):
        found = tools.resolve(row["written"])
        assert (found.name if found else None) == row["meant"]


def test_a_shortened_name_selects_its_tool() -> None:
    long = ["list " + "x" * 70, "list " + "x" * 71]
    tools = named(*long, "read file")
    for name in (*long, "read file"):
        found = tools.resolve(short_name(name))
        assert found is not None and found.name == name
    assert tools.resolve(short_name("list")) is None


def test_a_long_name_is_found_only_if_it_is_offered() -> None:
    long = "x" * 5000
    assert named(long).resolve(long) is not None
    assert named("x").resolve("X" * 5000) is None


@rows(__file__, "entry")
def test_entries_that_are_not_functions_are_skipped(entry: Any) -> None:
    tools = read_tools([entry, function("read")])
    assert [tool.name for tool in tools] == ["read"]


@pytest.mark.parametrize("tools", [None, {}, "x", [], 7])
def test_a_request_without_a_tools_list_offers_none(tools: Any) -> None:
    assert not read_tools(tools)
    assert list(read_tools(tools)) == []


@pytest.mark.parametrize("parameters", [None, [], "x", {}, {"properties": None, "required": None}, {"required": "x"}])
def test_a_tool_without_a_usable_schema_has_no_parameters(parameters: Any) -> None:
    (tool,) = read_tools([{"type": "function", "function": {"name": "x", "parameters": parameters}}])
    assert (tool.properties, tool.required) == ({}, frozenset())
    assert tool.accepts(())
    assert not tool.accepts(("a",))


NAMES = ("file_path", "content", "oldText", "old-text")


@rows(__file__, "key,name")
def test_a_key_is_respelled_only_if_the_name_is_unambiguous(key: str, name: str | None) -> None:
    assert respelled(key, NAMES) == name


@rows(__file__, "key,bare")
def test_markup_around_a_key_is_removed(key: str, bare: str) -> None:
    assert without_markup(key) == bare


@pytest.mark.parametrize("name", ["x" * 65, "a.b", "read file", "größe", "\ud800", ""])
def test_every_name_sent_upstream_is_valid_for_servers(name: str) -> None:
    """An empty name is left to the server."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{0,64}", short_name(name))


def test_different_names_are_shortened_differently() -> None:
    names = ["a.b", "a b", "a/b", "x" * 65, "x" * 66, "x" * 64]
    assert len({short_name(name) for name in names}) == len(names)
    assert short_name("a.b").startswith("a_b_") and short_name("a.b") == short_name("a.b")
