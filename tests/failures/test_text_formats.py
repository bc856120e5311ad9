"""The project's own corpus: correct and broken calls in every text format, with equal results at every cut."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest

from proxy.notations.toolset import read_tools
from tests.support.each_case import each_case
from tests.support.helpers import all_cuts, new_scanner, scan
from tests.support.notations_reading import repaired

CORPORA = Path(__file__).parents[1] / "corpora"


class Call(TypedDict):
    name: str
    arguments: dict[str, Any]


class Row(TypedDict):
    """A reply: the model's text, and the expected result."""

    id: str
    format: str
    covers: list[str]
    text: str
    finish: Literal["stop", "length"]
    calls: list[Call]
    content: str
    evidence: Literal["strong", "weak", "none"]


# The formats with calls in JSON, Python or their own notation.
JSON_FORMATS = (
    *("hermes", "qwen25", "qwen25_tools", "qwen3", "granite4", "ernie45", "longcat", "minimax_m1", "nemotron_nano_v2"),
    *("mimo_vl", "bielik", "reka", "smollm3", "nanbeige3", "falcon", "kolibri", "trinity", "exaone", "internlm2"),
    *("intern_s1", "granite_20b_fc", "gigachat3", "gigachat31"),
    *("mistral_pre_v11", "granite3", "hunyuan_a13b", "jamba", "apriel", "cohere", "command_r_plus", "phi4_mini"),
    *("xlam", "apertus", "llama3_json", "llama4_json", "inkling", "firefunction"),
    *("mistral_v11", "kimi_k2", "deepseek_v3", "deepseek_v31", "functionary_v31", "functionary_v32", "solar_open"),
    *("glm4_0414", "harmony"),
    *("pythonic", "llama4_pythonic", "olmo3", "lfm2", "minicpm3"),
    *("gemma4", "functiongemma", "kimi_k3", "plamo3"),
)
# The formats with arguments in tags.
TAG_FORMATS = (
    *("qwen3_coder", "seed_oss", "mimo", "minimax_m2", "deepseek_v32", "deepseek_v4", "deepseek_v41", "gigachat35"),
    *("muse", "dots", "step3", "beam", "minicpm5", "anthropic", "glm45", "glm47", "ling3", "hy_v3", "k2_horizon"),
    *("iquest_q1", "minimax_m3"),
)
# These models write one call per reply.
ONE_CALL = ("gigachat3", "gigachat31", "glm4_0414")
FAILURES = tuple(f"F{number}" for number in range(1, 19))


def load() -> list[Row]:
    """Return the rows of all files in the folder."""
    files = sorted((CORPORA / "formats").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]


ROWS = load()
AGENT = json.loads((CORPORA / "tools.json").read_text("utf-8"))["agent"]
TOOLS = read_tools([{"type": "function", "function": tool} for tool in AGENT])


def exact(calls: list[tuple[str, object]]) -> str:
    """Return the calls as text that distinguishes `true`, `1` and `1.0` and ignores the order of keys."""
    return json.dumps(calls, ensure_ascii=False, sort_keys=True)


@pytest.mark.slow
@each_case("row", ROWS, ids=[row["id"] for row in ROWS])
def test_the_calls_and_text_of_a_reply_are_equal_at_every_cut(row: Row) -> None:
    expected = exact(repaired([(call["name"], call["arguments"]) for call in row["calls"]], TOOLS))
    for cut in all_cuts(row["text"]):
        found = scan(cut, new_scanner(TOOLS), stopped=row["finish"] == "stop")
        assert (exact(repaired(found.parsed, TOOLS)), found.text) == (expected, row["content"]), cut


def test_ids_are_unique() -> None:
    assert [id for id, count in Counter(row["id"] for row in ROWS).items() if count > 1] == []


def test_each_row_is_complete() -> None:
    """A wrong key or value in a row is an error, so every row is checked."""
    for row in ROWS:
        assert row.keys() == Row.__annotations__.keys(), row["id"]
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row["id"])
        assert all(re.fullmatch(r"F[1-9][0-9]?", failure) for failure in row["covers"]), row["id"]
        assert row["finish"] in ("stop", "length"), row["id"]
        assert row["evidence"] in (("strong", "weak") if row["calls"] else ("none",)), row["id"]
        for call in row["calls"]:
            assert call.keys() == Call.__annotations__.keys(), row["id"]
            assert TOOLS.resolve(call["name"]) in [tool for tool in TOOLS if tool.name == call["name"]], row["id"]


def test_weak_evidence_has_every_required_argument_and_at_most_one_other_key() -> None:
    """C3."""
    for row in ROWS:
        for call in row["calls"] if row["evidence"] == "weak" else []:
            tool = TOOLS.resolve(call["name"])
            assert tool is not None and tool.tolerates(call["arguments"]), row["id"]


@pytest.mark.parametrize("failure", FAILURES)
def test_every_failure_of_calls_in_text_is_covered(failure: str) -> None:
    assert [row["id"] for row in ROWS if failure in row["covers"]]


@pytest.mark.parametrize("name", [*JSON_FORMATS, *TAG_FORMATS])
def test_every_format_has_rows_and_parallel_calls_if_it_allows_them(name: str) -> None:
    counts = [len(row["calls"]) for row in ROWS if row["format"] == name]
    assert counts
    assert name in ONE_CALL or max(counts) > 1
