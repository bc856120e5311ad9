"""An opener that stands there twice, or three times, is one: one call, and no text is left of it (F5)."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest

from proxy.notations.tables import TOKENS, WRAPPER_WORDS
from tests.support.each_case import each_case
from tests.support.helpers import all_cuts, call_json, new_scanner, scan
from tests.support.renderers import DSML, RENDERERS
from tests.unit.notations.test_copied_calls import TOOLS, random_calls

pytestmark = pytest.mark.once

LS = call_json("bash", command="ls")
ONE = [("bash", {"command": "ls"})]
M3 = "]<]minimax[>["


def invoke(prefix: str = "", attribute: str = "") -> str:
    """A call in an invoke."""
    return (
        f'<{prefix}invoke name="bash"><{prefix}parameter name="command"{attribute}>ls</{prefix}parameter>'
        f"</{prefix}invoke>"
    )


# An opener, what stands in it, its closer.
Parts = tuple[str, str, str]
BODIES = {
    "<Call>": "<Function>bash</Function><Parameters><command>ls</command></Parameters>",
    "[Tool call:": " bash(command='ls')",
    "<|open|>tools<|sep|>": (
        '<|open|>call tool="bash"<|sep|><|open|>argument key="command" type="string"<|sep|>ls<|close|>argument<|sep|>'
        "<|close|>call<|sep|>"
    ),
    "<|tool_call>": 'call:bash{command:<|"|>ls<|"|>}',
    "<|tool_call_begin|>": 'functions.bash:0<|tool_call_argument_begin|>{"command": "ls"}',
}
TAGS = [f"<{word}>" for word in WRAPPER_WORDS]
WRAPPERS: list[Parts] = [
    *((tag, BODIES.get(tag, LS), f"</{tag[1:]}") for tag in TAGS),
    *((opener, BODIES.get(opener, LS), (*closers, "")[0]) for opener, closers in TOKENS.items()),
    *((opener, LS, (*closers, "")[0]) for opener, closers in TOKENS.items() if opener != "[Tool call:"),
    (f"{M3}<tool_call>", f'{M3}<invoke name="bash">{M3}<command>ls{M3}</command>{M3}</invoke>', f"{M3}</tool_call>"),
    *(
        (f"<{bars}{word}>", invoke(bars, ' string="true"'), f"</{bars}{word}>")
        for bars in (DSML, "｜GCML｜", "|DSML|", "||DSML||")
        for word in ("tool_calls", "function_calls")
    ),
    *((f"<{word}>", invoke(), f"</{word}>") for word in ("function_calls", "minimax:tool_call", "dots_function_call")),
]
# Those that name the tool.
CALLS: list[Parts] = [
    ("<function=bash>", "<parameter=command>ls</parameter>", "</function>"),
    ("<function=bash>", '{"command": "ls"}', "</function>"),
    ('<function name="bash">', '<param name="command">ls</param>', "</function>"),
    ('<invoke name="bash">', '<parameter name="command">ls</parameter>', "</invoke>"),
    ('<atem:invoke name="bash">', '<atem:parameter name="command">ls</atem:parameter>', "</atem:invoke>"),
    (
        f'<{DSML}invoke name="bash">',
        f'<{DSML}parameter name="command" string="true">ls</{DSML}parameter>',
        f"</{DSML}invoke>",
    ),
]
TIMES = pytest.mark.parametrize("times", [2, 3])
GAPS = pytest.mark.parametrize("gap", ["", "\n", "\n\n  "])


def doubled(parts: Parts, times: int, gap: str, closed: int) -> str:
    """The call with its opener so often and its closer so often."""
    opener, inside, closer = parts
    return gap.join([*[opener] * times, inside, *([closer] * closed if closer else [])])


@pytest.mark.slow
@each_case("parts", WRAPPERS, ids=lambda parts: str(parts[0]))
@TIMES
@GAPS
def test_a_wrapper_that_opens_twice_holds_one_call(parts: Parts, times: int, gap: str) -> None:
    """Wherever it stands, closed once or as often as it was opened."""
    weak = parts[0] == "[Tool call:"
    for closed in (1, times):
        text = doubled(parts, times, gap, closed)
        assert (scan([text]).parsed, scan([text]).text) == (ONE, "")
        for turn, (before, after) in enumerate((("", " so."), ("I do:\n", "\n\nso."), ("I do:\n", ""))):
            if weak and after:
                continue
            cuts = 3 if (turn + times + len(gap)) % 2 else 1
            for cut in islice(all_cuts(f"{before}{text}{after}", 1), cuts):
                found = scan(cut)
                assert (found.parsed, found.text) == (ONE, f"{before}{after}")


@each_case("parts", CALLS, ids=lambda parts: str(parts[0]))
@TIMES
@GAPS
@pytest.mark.parametrize("around", [("", ""), ("<tool_call>\n", "\n</tool_call>"), ("<tool_calls>", "</tool_calls>")])
def test_a_call_that_opens_twice_is_one_call(parts: Parts, times: int, gap: str, around: tuple[str, str]) -> None:
    for closed in (1, times):
        text = f"{around[0]}{doubled(parts, times, gap, closed)}{around[1]}"
        for cut in all_cuts(f"I do:\n{text}"):
            found = scan(cut)
            assert (found.parsed, found.text) == (ONE, "I do:\n")


@each_case("parts", CALLS, ids=lambda parts: str(parts[0]))
def test_another_call_of_the_same_tool_is_another(parts: Parts) -> None:
    opener, inside, closer = parts
    once = f"{opener}{inside}{closer}"
    assert scan([f"<tool_calls>{once}\n{once}</tool_calls>"]).parsed == ONE * 2
    other = f"{opener}{inside.replace('ls', 'pwd')}{closer}"
    assert scan([f"<tool_calls>{once}{opener}\n{other}</tool_calls>"]).parsed == [*ONE, ("bash", {"command": "pwd"})]


OTHERS: dict[str, list[tuple[str, Any]]] = {
    "<tool_call><function=now></function><function=now></function></tool_call>": [("now", {})] * 2,
    # The first one was given up, or its end tag is missing.
    "<tool_call><function=now>\n<function=bash>\n<parameter=command>ls</parameter></function></tool_call>": [],
    '<function_calls><invoke name="now"></invoke>\n<invoke name="now"></invoke></function_calls>': [("now", {})] * 2,
}


@pytest.mark.parametrize("text", OTHERS)
def test_openers_that_are_not_the_same_or_not_in_a_row_are_calls_of_their_own(text: str) -> None:
    for cut in all_cuts(text):
        assert scan(cut).parsed == OTHERS[text]


@pytest.mark.parametrize("form", RENDERERS)
def test_every_format_may_open_its_wrapper_twice(form: str) -> None:
    rng = random.Random(form)
    for calls in random_calls(form, 3):
        text = RENDERERS[form].render(calls)
        openers = [parts[0] for parts in (*WRAPPERS, *CALLS) if text.startswith(parts[0])]
        for opener in sorted(openers, key=len)[-1:]:
            twice = f"{opener}{rng.choice(['', chr(10)])}{text}"
            assert scan([twice], new_scanner(TOOLS)).parsed == scan([text], new_scanner(TOOLS)).parsed
            assert scan([twice], new_scanner(TOOLS)).text.strip() == ""
