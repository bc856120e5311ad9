"""Names of tools that every server takes."""

from __future__ import annotations

import re

import pytest

from proxy.tools.toolset import short_name


@pytest.mark.parametrize("name", ["read", "mcp__files-1__read", "x" * 64])
def test_a_plain_name_stays(name: str) -> None:
    assert short_name(name) == name


@pytest.mark.parametrize("name", ["x" * 65, "a.b", "read file", "größe", "\ud800", ""])
def test_every_name_that_goes_up_is_one_that_servers_take(name: str) -> None:
    """An empty one is left to the server."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{0,64}", short_name(name))


def test_two_names_stay_two() -> None:
    names = ["a.b", "a b", "a/b", "x" * 65, "x" * 66, "x" * 64]
    assert len({short_name(name) for name in names}) == len(names)
    assert short_name("a.b").startswith("a_b_") and short_name("a.b") == short_name("a.b")
