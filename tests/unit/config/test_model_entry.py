"""An entry of `models` as a line."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from proxy.config.model_entry import entry_with, literal
from proxy.config.rules import Rules, parse_rules
from proxy.notations.signs import ROW_NAMES
from tests.support.worker_state import read_rules

FORMAT = min(ROW_NAMES)
FULL = f"""\
models:
  - match: m
    parse: proxy
    upstream: whole
    url: http://other:8000
    key_env: OTHER_KEY
    formats: {{off: [{FORMAT}]}}
    retry: 0
    broken_calls: retry
    heal: {{on: [no_system], off: [one_system]}}
    sampling: {{default: {{temperature: 0.5}}, strip: [seed]}}
    tools: {{drop: [web_*], polls: [wait]}}
"""


@pytest.mark.parametrize("name", ["m", "org/[a]*?", "a b", 'q"\\', "*"])
def test_a_name_is_matched_by_itself_alone(name: str) -> None:
    glob = literal(name)
    assert fnmatchcase(name, glob)
    assert not any(fnmatchcase(other, glob) for other in ("x", f"{name}x", "org/aXX", "") if other != name)


def test_what_an_entry_says_is_said_again(tmp_path: Path) -> None:
    """The line is read as the entry was, with the healings that are new behind the others, each once."""
    (tmp_path / "r.yaml").write_text(FULL)
    entry = read_rules(tmp_path / "r.yaml").entry("m")
    line = entry_with(entry, "m", ["alternate", "no_system"])
    (tmp_path / "again.yaml").write_text(f"models:\n  {line}\n")
    again = read_rules(tmp_path / "again.yaml").entry("m")
    assert again.requests.heal.on == ("no_system", "alternate")
    assert entry_with(again, "m", []) == line
    (tmp_path / "same.yaml").write_text(f"models:\n  {entry_with(entry, 'm', [])}\n")
    assert read_rules(tmp_path / "same.yaml").entry("m") == entry


def test_what_is_usual_is_not_said(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("models: [{match: m}]\n")
    line = entry_with(read_rules(tmp_path / "r.yaml").entry("m"), "m", [])
    assert json.loads(line.removeprefix("- ")) == {"match": "m"}


@pytest.mark.parametrize(
    "words",
    [
        "retry: 0, broken_calls: retry, repetition: {longest: 100, times: 20}, tools: {most_repeats: 8}",
        *("reasoning: split", "reasoning: reasoning", "family: qwen3", "server: vllm"),
    ],
)
def test_an_entry_that_is_printed_says_the_same(words: str) -> None:
    """Also who tells thoughts from the text, and the family."""
    entry = parse_rules(f"models:\n  - {{match: m, {words}}}\n".encode(), "r.yaml", Rules()).entry("m")
    printed = entry_with(entry, "m", [])
    assert parse_rules(f"models:\n{printed}\n".encode(), "r.yaml", Rules()).entry("m") == entry
