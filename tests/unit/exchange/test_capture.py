"""Parsing of captures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.config.load import load
from proxy.errors import RulesError
from proxy.exchange.capture import Captured, read_capture


def captured(**about: Any) -> Captured:
    """Parse a capture with this first line."""
    return read_capture(json.dumps({"capture": 1, **about}).encode() + b"\nbody", "a file")


def test_missing_fields_of_the_first_line_have_defaults() -> None:
    read = captured(tools=7, sources=[1, "a"], call_ids="x", status="200", content_type=None)
    assert (read.status, read.content_type, read.complete, read.body) == (200, "", True, b"body")
    assert (read.chat.tools, read.chat.sources, read.chat.ids) == (None, ("a",), frozenset())


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{}\n", b'{"capture": 2}\n', b"[1]\n", b'{"capture": 1}', b"{nope\nx", b"\xff\n", b'"capture"\n'],
)
def test_data_that_is_not_a_capture_is_refused(data: bytes) -> None:
    with pytest.raises(RulesError, match=r"a file is no capture; give a file that serve --capture DIR wrote"):
        read_capture(data, "a file")


@pytest.mark.parametrize("way", ["a line of rules.yaml", "a variable"])
def test_a_relative_path_outside_the_folder_is_refused(way: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("settings: {capture: here}\n" if way == "a line of rules.yaml" else "")
    env = {"TOOL_PROXY_CAPTURE": "here"} if way == "a variable" else {}
    with pytest.raises(RulesError, match="it must be the absolute path of a folder"):
        load({"rules": str(rules)}, env)
