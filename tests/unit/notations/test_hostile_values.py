"""Calls whose values are made to mislead a reader: what is read is what was rendered, or it is no call (C9)."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.support.helpers import function, offered
from tests.support.notations_reading import SIZES, read, repaired
from tests.support.renderers import RENDERERS

TEXT = {"type": "string"}
TOOLS = offered(function("edit_text", {"path": TEXT, "old": TEXT, "new": TEXT, "count": {"type": "integer"}}, "path"))
FAMILIES = ("hermes", "kimi_k2", "qwen3_coder", "minimax_m2", "deepseek_v32", "anthropic", "glm45", "kimi_k3", "gemma4")
PARTS = (
    *(
        '"',
        "'",
        '\\"',
        "\\",
        "\\n",
        "\n",
        "\n\n",
        "\t",
        "",
        " ",
        "grüße",
        "日本",
        "🙂",
        "`",
        "```",
        "\n```xml\n",
        "\n```\n",
    ),
    *("10", "null", "true", "{}", "[1]", '{"a": "b"}', '", "new": "x', '"}}', "',", ", ", ":", "a=b", "C:\\new\\table"),
    *("<tool_call>", "</tool_call>", "</parameter>", "<parameter=new>", "</function>", '<invoke name="edit_text">'),
    *("</invoke>", "<arg_key>new</arg_key>", "</arg_value>", "<|tool_call_end|>", "</｜DSML｜parameter>", "<|im_end|>"),
    *(
        "[TOOL_CALLS]",
        "</function_calls>",
        "\n</parameter>\n</function>\n</tool_call>\n",
        "word",
        "# Title",
        "<b>x</b>",
    ),
)
# Whole chains of closers before another opener end a call, whatever follows.
CLOSED = re.compile(r"</tool_call>\s*(?:</\w+>\s*)*<tool_call>")
NUMBER = 50


def hostile(rng: random.Random) -> str:
    """Return a value of up to six parts."""
    return "".join(rng.choice(PARTS) for _ in range(rng.randint(0, 6)))


def without_leftovers(value: Any) -> Any:
    """Return a value without the blanks and closers at its edges, which may be the template's own, or left over."""
    ends = ("</parameter>", "</function>", "</tool_call>", "</invoke>", "</function_calls>", "</arg_value>")
    text = value.strip() if isinstance(value, str) else ""
    while end := next((each for each in (*ends, "</｜DSML｜parameter>") if text.endswith(each)), ""):
        text = text.removesuffix(end).rstrip()
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_value_is_read_as_it_was_written_or_not_at_all(family: str) -> None:
    rng = random.Random(family)
    wrong = []
    for _ in range(NUMBER):
        values: dict[str, Any] = {"path": "a.py", "old": hostile(rng), "new": hostile(rng), "count": rng.randint(0, 99)}
        text = RENDERERS[family].render([("edit_text", values)])
        if CLOSED.search(text):
            continue
        found = [read(text, TOOLS, size).calls for size in SIZES]
        assert all(each == found[0] for each in found), text
        meant = {key: without_leftovers(value) for key, value in values.items()}
        for _, got in repaired(found[0], TOOLS):
            if {key: without_leftovers(value) for key, value in got.items()} != meant:
                wrong.append((text, got))
    assert not wrong
