"""The reader of streams: what waits, when it is released, limits, reasons, and linear time (C2, C3, C4, C7)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.notations.front import Reader
from proxy.notations.stream import Piece
from tests.support.helpers import call_json, function, offered
from tests.support.notations_reading import SIZES, read

TEXT = {"type": "string"}
TOOLS = offered(
    function("read", {"path": TEXT, "limit": {"type": "integer"}}, "path"),
    function("write", {"path": TEXT, "content": TEXT}, "path"),
)
CORPORA = Path(__file__).parents[2] / "corpora"
HARMLESS = [json.loads(line) for line in (CORPORA / "harmless.jsonl").read_text("utf-8").split("\n") if line]


def made(pieces: list[Piece]) -> list[str]:
    return [call.name for piece in pieces for call in piece.calls or ()]


@pytest.mark.parametrize("wrapper", ["{}", "<tool_call>{}</tool_call>"])
def test_deeply_nested_json_stays_text(wrapper: str) -> None:
    text = wrapper.format('{"response": "' + "[" * 100_000 + '"}')
    reader = Reader(TOOLS)
    pieces = [*reader.feed(text), *reader.finish()]
    assert made(pieces) == [] and "".join(piece.text for piece in pieces) == text


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ("xxb", '<tool_call>[{"name": "x", "arguments": {}}, {"name": "x", "arguments": {}}'),
        ("bxx", '{"name": "x", "arguments": {}}, {"name": "x", "arguments": {}}'),
    ],
)
def test_calls_of_tools_that_are_not_offered_stay_text_in_place(names: str, left: str) -> None:
    calls = [call_json("read", path="a") if name == "b" else call_json(name) for name in names]
    for size in SIZES:
        found = read(f"<tool_call>[{', '.join(calls)}]</tool_call>", TOOLS, size)
        assert (found.calls, found.text) == ([("read", {"path": "a"})], left)


DECIDED = [
    '{"example": {"text": "use <tool_call><function=read><parameter=path>a</parameter></function></tool_call>"}}',
    '{"a": "<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>", "b": "<tool_call>"}',
    '[{"id": 1, "name": "Ann"}, {"id": 2, "name": "Ben"}]',
    '<tool_call>{"name": "read", "arguments": {"path": nothing of the kind',
    "> <tool_call><function=read><parameter=path>a</parameter></function></tool_call>",
    "<!-- <function=read><parameter=path>a</parameter></function> -->",
    "`<function=read><parameter=path>a</parameter></function>`",
    "read(path: str, limit: int | None = None) -> str",
    "<tool_call>read the manual, then call me",
    *(row["text"] for row in HARMLESS),
]


@pytest.mark.parametrize("text", DECIDED, ids=map(str, range(len(DECIDED))))
def test_text_that_cannot_become_a_call_is_soon_released(text: str) -> None:
    """C2: at most 64 characters, or an eighth of the held text, after the point at which a new reader releases it."""
    text = f"{text[:600]}\n\n" + "Then more words of plain prose follow, which show nothing at all. " * 3
    reader, left = Reader(TOOLS), 0
    for at, each in enumerate(text, 1):
        left += sum(len(piece.text) for piece in reader.feed(each))
        earlier = at - max(64, (at - left) >> 3) - 3
        if earlier > left:
            assert sum(len(piece.text) for piece in Reader(TOOLS).feed(text[:earlier])) <= left
