"""The rules in force in words, each with the line in which it stands."""

from __future__ import annotations

from importlib import resources

import pytest

from proxy.config.rules import parse_rules
from proxy.ui.rules_view import described
from tests.support.worker_state import read_rules

BUILTIN = resources.files("proxy").joinpath("rules.yaml").read_bytes()
OWN = b"""\
aliases:
  a*: tiny
  b*: tiny
tools:
  bash:
    models: [tiny]
    fixes:
      - {parameter: command, condition: is_string, action: strip_markup}

      - parameter: timeout
        condition: exists
        action: remove_parameter
  read:
    fixes: [{parameter: path, condition: exists, action: unescape_html}]
models:
  - match: tiny
"""


def placed(text: bytes | None) -> dict[str, str]:
    """The place of each rule, by its words."""
    if text is None:
        return {entry["text"]: entry["place"] for entry in described(read_rules(None), b"")}  # type: ignore[misc]
    rules = parse_rules(text, "/etc/rules.yaml", read_rules(None))
    return {entry["text"]: entry["place"] for entry in described(rules, text)}  # type: ignore[misc]


def test_each_rule_stands_in_its_line() -> None:
    found = placed(OWN)
    own = {text: place for text, place in found.items() if place.startswith("/etc/rules.yaml:")}
    assert {text.partition(",")[0]: int(place.rpartition(":")[2]) for text, place in own.items()} == {
        "tools bash: if command is a text": 8,
        "tools bash: if timeout is there": 10,
        "tools read: if path is there": 14,
        "models tiny: all by default": 16,
        "aliases a*: asked for as tiny": 2,
        "aliases b*: asked for as tiny": 3,
    }


def test_a_section_that_the_file_lacks_is_the_built_in_ones() -> None:
    found = placed(OWN)
    lines = BUILTIN.decode().splitlines()
    for text, place in found.items():
        if text.startswith("clients "):
            source, _, line = place.rpartition(":")
            assert source == "built-in"
            assert text.split(" ")[1].rstrip(":") in lines[int(line) - 1]


@pytest.mark.parametrize("text", [None, b"", b"models: []\n", b"settings: {port: 1}\n"])
def test_all_built_in_rules_have_a_place(text: bytes | None) -> None:
    assert all(place.startswith("built-in:") for said, place in placed(text).items() if not said.startswith("names:"))
