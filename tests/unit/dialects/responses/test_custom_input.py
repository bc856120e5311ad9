"""The input of a custom tool out of JSON while it streams: decoded, unwrapped, the same at every cut (C2, C9)."""

from __future__ import annotations

import json
import random

import pytest

from proxy.dialects.responses.custom_input import TRANSITIONS, CustomInput, InputState, InputStep, plain_input
from tests.support.helpers import all_cuts, random_cut
from tests.support.tables import check_way

PATCH = '*** Begin Patch\n*** Add File: a\n+"é" \\ \t😀\n*** End Patch'
FENCED = f"```\n{PATCH}\n```"
NAMED = f"```diff\n{PATCH}\n```"
# Arguments, the input that they are, and whether it leaves while it comes.
CASES: dict[str, tuple[str, str, bool]] = {
    "a patch": (json.dumps({"input": PATCH}), PATCH, True),
    "not escaped": (json.dumps({"input": PATCH}, ensure_ascii=False), PATCH, True),
    "with blanks": (f' {{ "input" : {json.dumps(PATCH)} }} ', PATCH, True),
    "any text": ('{"input": "a\\/b\\b\\f\\r"}', "a/b\b\f\r", True),
    "begins with blanks": ('{"input": "\\n  a"}', "\n  a", True),
    "nothing": ('{"input": ""}', "", False),
    "blanks": ('{"input": " "}', " ", False),
    "no arguments": ("{}", "", False),
    "another key": (json.dumps({"patch": PATCH}), PATCH, False),
    "wrapped twice": (json.dumps({"input": json.dumps({"patch": PATCH})}), PATCH, False),
    "in a fence": (json.dumps({"input": FENCED}), PATCH, False),
    "in a fence with a word": (json.dumps({"input": NAMED}), PATCH, False),
    "in both": (json.dumps({"input": json.dumps({"input": FENCED})}), PATCH, False),
    "a string": (json.dumps(PATCH), PATCH, False),
    "no JSON": (PATCH, PATCH, False),
    "a fence of code": (json.dumps({"input": "```js\na()\n```"}), "```js\na()\n```", False),
    "an object that is the text": (json.dumps({"input": '{"patch": "a"}'}), '{"patch": "a"}', False),
    "several keys": ('{"a": "b", "c": "d"}', '{"a": "b", "c": "d"}', False),
    "a number beside it": ('{"input": "a", "timeout": 1e999}', "a", True),
    "a number": ('{"input": 7}', '{"input": 7}', False),
    "half a pair": ('{"input": "a\\ud83d b"}', "a\N{REPLACEMENT CHARACTER} b", True),
    "halves": ('{"input": "a\\ude00\\ud83d\\ud83d\\ude00"}', "a\ufffd\ufffd😀", True),
}


def read(parts: list[str]) -> tuple[str, str, str]:
    """What leaves while it comes, the whole, and what leaves at the end."""
    reading = CustomInput()
    live = "".join(map(reading.feed, parts))
    return live, *reading.finish()


@pytest.mark.parametrize("name", CASES)
def test_the_input_is_what_the_model_wrote_at_every_cut(name: str) -> None:
    arguments, wanted, streams = CASES[name]
    for parts in ([arguments], [*arguments], *all_cuts(arguments, 3), random_cut(arguments, random.Random(1))):
        live, whole, rest = read([*parts])
        assert (live + rest, whole) == (wanted, wanted)
        assert bool(live) is streams


def test_a_patch_leaves_as_it_comes() -> None:
    """C2: each character with its own."""
    reading = CustomInput()
    given = [reading.feed(part) for part in json.dumps({"input": PATCH}, ensure_ascii=False)]
    assert sum(map(bool, given)) > len(PATCH) - 10
    assert max(map(len, given)) <= 2


@pytest.mark.parametrize("cut", range(1, len(CASES["a patch"][0])))
def test_what_is_cut_is_a_beginning_of_it(cut: int) -> None:
    """C4."""
    reading = CustomInput()
    live = reading.feed(CASES["a patch"][0][:cut])
    whole, rest = reading.finish()
    assert PATCH.startswith(live)
    assert live + rest == whole


def test_a_long_text_is_read_once() -> None:
    """C7: linear."""
    reading = CustomInput()
    reading.feed('{"input": "')
    for _ in range(20000):
        assert reading.feed("abcdefghij") == "abcdefghij"
    assert plain_input('{"input": "a"}') == "a"


WAYS = {
    (InputState.OPENING, InputStep.BEGIN): InputState.FIRST,
    (InputState.OPENING, InputStep.KEEP): InputState.WHOLE,
    (InputState.FIRST, InputStep.LET_GO): InputState.LIVE,
    (InputState.FIRST, InputStep.KEEP): InputState.WHOLE,
    (InputState.FIRST, InputStep.CLOSE): InputState.WHOLE,
    (InputState.LIVE, InputStep.CLOSE): InputState.CLOSED,
    (InputState.WHOLE, InputStep.CLOSE): InputState.WHOLE,
}


@pytest.mark.parametrize("state", InputState)
@pytest.mark.parametrize("step", InputStep)
def test_every_step_leads_where_the_table_says(state: InputState, step: InputStep) -> None:
    check_way(TRANSITIONS, WAYS, state, step)
