"""Calls as Python writes them: literals alone, and where a value ends (F15)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.helpers import all_cuts, function, new_scanner, offered, scan

WORDS = ("from", "class", "import", "lambda", "in", "is", "not", "def", "return", "async", "global", "pass", "None")
KEYWORDS = offered(
    function(
        "find",
        {word: {"type": "string"} for word in WORDS} | {"if": {"type": "integer"}, "or": {"type": ["object", "null"]}},
    )
)
FAMILIES = {
    "a list": "[{}]",
    "LFM2": "<|tool_call_start|>[{}]<|tool_call_end|>",
    "Llama 4": "<|python_start|>[{}]<|python_end|>",
    "OLMo 3": "<function_calls>{}</function_calls>",
    "MiniCPM3": "<|tool_call_start|>```python\n{}\n```<|tool_call_end|>",
    "Gemma's older prompts": "<tool_code>{}</tool_code>",
    "the whole reply": "{}",
    "a fence": "```python\n{}\n```",
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_pythons_own_words_may_be_names_of_parameters(family: str, word: str) -> None:
    """F15: Python would not read it; models write it all the same."""
    for inside, values in (
        (f'find({word}="x y")', {word: "x y"}),
        (f"find(if=1, {word}='x=1, from=2')", {"if": 1, word: "x=1, from=2"}),
    ):
        for cut in all_cuts(FAMILIES[family].format(inside), 3):
            found = scan(cut, new_scanner(KEYWORDS))
            assert (found.parsed, found.text) == ([("find", values)], "")


LITERALS: dict[str, Any] = {
    "null": None,
    "None": None,
    "{'x': null}": {"x": None},
    '{"x": true, "y": [false, null]}': {"x": True, "y": [False, None]},
    "{'x': True, 'y': {'z': None}}": {"x": True, "y": {"z": None}},
}


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_words_of_json_are_literals_at_any_depth(family: str, literal: str) -> None:
    """F15, F30."""
    for cut in all_cuts(FAMILIES[family].format(f"find(or={literal}, if=1)"), 3):
        found = scan(cut, new_scanner(KEYWORDS))
        assert (found.parsed, found.text) == ([("find", {"or": LITERALS[literal], "if": 1})], "")


@pytest.mark.parametrize("mark", ['"', "'"])
@pytest.mark.parametrize("command", ["ls", "ls -la /tmp", "f(a)", ""])
def test_c9_a_text_without_its_last_mark_takes_nothing_along(command: str, mark: str) -> None:
    """Its end would be the mark of another text: the next call's, or the next keyword's."""
    tools = offered(function("bash", {"command": {"type": "string"}, "mode": {"type": "string"}}, "command"))
    broken = f"bash(command={mark}{command}"
    for text in (
        f"[{broken}), bash(command={mark}pwd{mark})]",
        f"[{broken}, mode={mark}b{mark})]",
        f"[{broken}), bash(mode={mark}b{mark}, command={mark}pwd{mark})]",
    ):
        for cut in all_cuts(text):
            assert scan(cut, new_scanner(tools)).parsed == []
