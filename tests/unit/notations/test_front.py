"""The stream: what waits, what leaves when, limits, reasons, and linear time (C2, C3, C4, C7)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.notations.front import Reader
from proxy.notations.stream import Channel, Piece
from tests.support.helpers import call_json, function, offered
from tests.support.notations_reading import SIZES, read

TEXT = {"type": "string"}
TOOLS = offered(
    function("read", {"path": TEXT, "limit": {"type": "integer"}}, "path"),
    function("write", {"path": TEXT, "content": TEXT}, "path"),
)
CORPORA = Path(__file__).parents[2] / "corpora"
HARMLESS = [json.loads(line) for line in (CORPORA / "harmless.jsonl").read_text("utf-8").split("\n") if line]
CALL = "<tool_call>" + call_json("read", path="a") + "</tool_call>"


def made(pieces: list[Piece]) -> list[str]:
    return [call.name for piece in pieces for call in piece.calls or ()]


def waits(text: str) -> int:
    """Return how many characters of a text wait at most, fed one by one."""
    reader, left, most = Reader(TOOLS), 0, 0
    for at, each in enumerate(text, 1):
        left += sum(len(piece.text) for piece in reader.feed(each))
        most = max(most, at - left)
    return most


@pytest.mark.parametrize(
    "text",
    [
        "Just prose, with a < b and [1] and {x} in it. " * 20,
        "Qwen writes <tool_call> and </tool_call> around its calls. " * 20,
        json.dumps({"items": ["word " * 400]}),
        json.dumps({"name": "package", "version": "1.0.0", "text": "word " * 300}),
        "```python\n" + "x = [1, 2]\n" * 100,
        "```" + "x" * 1000,
    ],
    ids=["prose", "markers", "JSON", "JSON with a name", "code", "a run"],
)
def test_text_that_cannot_become_a_call_hardly_waits(text: str) -> None:
    assert waits(text) <= 256 + 64


@pytest.mark.parametrize("wrapper", ["{}", "<tool_call>{}</tool_call>"])
def test_a_text_in_json_that_is_nested_too_deeply_stays_text(wrapper: str) -> None:
    text = wrapper.format('{"response": "' + "[" * 100_000 + '"}')
    reader = Reader(TOOLS)
    pieces = [*reader.feed(text), *reader.finish()]
    assert made(pieces) == [] and "".join(piece.text for piece in pieces) == text


def test_text_over_the_limit_does_not_wait() -> None:
    reader = Reader(TOOLS, max_held=1_000)
    pieces = reader.feed("<tool_call>" + '{"name": "read", "arguments": {"path": "' + "x" * 2_000)
    assert sum(len(piece.text) for piece in pieces) > 2_000
    assert made([*reader.feed('"}}</tool_call>'), *reader.finish()]) == []


def test_the_reader_reports_which_row_read_a_call() -> None:
    reader = Reader(TOOLS)
    assert [piece.row for piece in [*reader.feed(CALL), *reader.finish()] if piece.calls] == ["<tool_call>"]


def test_a_call_in_the_reasoning_channel_counts_at_its_end_only() -> None:
    assert read(f"I look. {CALL}", TOOLS, channel=Channel.REASONING).calls == [("read", {"path": "a"})]
    assert read(f"I look. {CALL} So it is.", TOOLS, channel=Channel.REASONING).calls == []
    assert read(f"I look. {CALL}", TOOLS, channel=Channel.REASONING, stopped=False).calls == []


def test_tokens_of_a_raw_text_are_dropped_at_its_end() -> None:
    assert read("Done.<|im_end|>\n", TOOLS, raw_text=True).text == "Done."
    assert read("The token <|im_end|> ends a turn.", TOOLS, raw_text=True).text == "The token <|im_end|> ends a turn."


def test_a_call_that_was_cut_off_is_not_completed() -> None:
    for end in range(len(CALL) - 14, len(CALL)):
        assert read(CALL[:end], TOOLS, stopped=False).calls == []


def xml(value: str) -> str:
    return (
        f"<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n{value}</parameter>\n"
    )


ADVERSARIAL: dict[str, Callable[[int], str]] = {
    "prose": lambda size: "Words, and a < b.\n" * (size // 18),
    "openers": lambda size: "<tool_call>" * (size // 11),
    "openers of two kinds": lambda size: "<tool_call><tools>" * (size // 18),
    "calls without an end": lambda size: "<function=read>" * (size // 15),
    "end tags in a value": lambda size: xml("</parameter>" * (size // 12)),
    "keys in a value": lambda size: xml("<parameter=path>\n" * (size // 17)),
    "chains in a value": lambda size: xml("</parameter>\n</function>\n</tool_call>\nx\n" * (size // 41)),
    "calls in a value": lambda size: xml((xml("x") + "</function>\n</tool_call>\n") * (size // 120)),
    "quotation marks": lambda size: (
        '<tool_call>{"name": "write", "arguments": {"content": "' + 'say "x" ' * (size // 8)
    ),
    "braces": lambda size: '{"' * (size // 2),
    "objects in rows": lambda size: (call_json("read", path="a") + "\n") * (size // 46) + "x",
    "GLM heads": lambda size: "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>" * (size // 51),
    "Gemma heads": lambda size: '<|tool_call>call:read{path:<|"|>' * (size // 32),
    "MiniMax heads": lambda size: ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="read">' * (size // 57),
    "recipients": lambda size: " to=functions.read" * (size // 18),
    "messages": lambda size: "<|channel|>commentary to=functions.read<|message|>" * (size // 49),
    "backticks": lambda size: "`" * size,
    "quoted calls": lambda size: 'He says "' + f"{CALL} and " * (size // 75),
    "calls in unfinished reasoning": lambda size: "<think>" + f"{CALL} x\n" * (size // 72),
    "fences": lambda size: '```json\n{"a": 1}\n```\n' * (size // 21),
    "end tokens": lambda size: "x<|im_end|>\n" * (size // 12),
    "calls in a container": lambda size: "<pre>" + f"{CALL}\n" * (size // 70),
    "comments in JSON": lambda size: '{"name": "read", "arguments": {"path": "a" // ' * (size // 45),
}


def seconds(text: str) -> float:
    reader, began = Reader(TOOLS), time.process_time()
    for at in range(0, len(text), 4_000):
        reader.feed(text[at : at + 4_000])
    reader.finish()
    return time.process_time() - began


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_twice_the_text_takes_about_twice_the_time(name: str) -> None:
    """C7: four times would be quadratic; a short time proves nothing, so it passes."""
    once, twice = ADVERSARIAL[name](20_000), ADVERSARIAL[name](40_000)
    for _ in range(3):
        first, second = seconds(once), seconds(twice)
        if second < 0.25 or second < 3.2 * first:
            return
    raise AssertionError(f"{first:.2f} s, then {second:.2f} s")


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ("xxb", '<tool_call>[{"name": "x", "arguments": {}}, {"name": "x", "arguments": {}}'),
        ("bxx", '{"name": "x", "arguments": {}}, {"name": "x", "arguments": {}}'),
    ],
)
def test_calls_that_are_not_offered_are_text_in_their_place(names: str, left: str) -> None:
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
    """C2: 64 characters after a reader of all of it releases it, or an eighth of what is held."""
    text = f"{text[:600]}\n\n" + "Then more words of plain prose follow, which show nothing at all. " * 3
    reader, left = Reader(TOOLS), 0
    for at, each in enumerate(text, 1):
        left += sum(len(piece.text) for piece in reader.feed(each))
        earlier = at - max(64, (at - left) >> 3) - 3
        if earlier > left:
            assert sum(len(piece.text) for piece in Reader(TOOLS).feed(text[:earlier])) <= left
