"""Random texts and random calls: the cuts never matter, and calls are read as written (C3)."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.contract.test_c3_round_trip import QUIET, Request, comparable, requests
from tests.support.helpers import all_cuts, call_json, new_scanner, random_cut, scan
from tests.support.whole_reply_forms import DRESSES, FORMS

pytestmark = pytest.mark.once

WEAK = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{call_json('bash', command='pwd')}\n</tool_call>"
INNER = "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>"

# Texts that a parser once read differently at another cut, or read endlessly.
ODD = {
    "no value in Python's arguments": "[bash(command=)]",
    "no value before a comma": "[bash(command=, timeout=5)]",
    "no argument at all before a comma": "TOOL_CALLS(,",
    "a fence in what is quoted": '"<tool_call>```<```\n<function=now></tool_call>',
    "a name in what is quoted": '"<｜DSMLm>h(</s>',
    "a name after a marker in what is quoted": '"<|content_invoke_tool_json|>T(<|end|>',
    "JSON that was asked for": "{x<|end|>",
    "JSON that was asked for, on lines": "a\n{x\n<|im_end|>",
    "a wrapper after a lead, and more": "functools<|tool_call_begin|>[bash(command='ls')]</tools>:call:bash{<|end|> x",
    "half a character": f"{WEAK}\n\ud83d",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("json_reply", [False, True])
def test_odd_texts_are_read_completely_and_equally_at_every_cut(name: str, json_reply: bool) -> None:
    with time_limit(10):
        whole = scan([ODD[name]], new_scanner(json_reply=json_reply))
        for cut in all_cuts(ODD[name]):
            assert scan(cut, new_scanner(json_reply=json_reply)) == whole


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Fail instead of blocking all other tests if a parser never ends."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError("it never ends")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


_MARKS = [
    "<tool_call>",
    "</tool_call>",
    "<tools>",
    "</tools>",
    "```json",
    "```",
    "`",
    "{",
    "}",
    "[",
    "]",
    ",",
    "ls",
    '"',
]
_MORE = [
    '"name":"bash"',
    "<function=bash>",
    "</function>",
    "<parameter=command>",
    "</parameter>",
    "<|im_end|>",
    "\\",
    "ï🙂",
]


# Markers of all families, and text between them.
_WORDS = [
    *("bash", "now", "nope", "command", "ls", "typed", "1", "True", "null", "-1.5", "x", "TOOL", "call:bash{"),
    *("(", ")", "=", "'", "{", "}", "[", "]", ",", ":", ";", '"', "<", "</", ">", ">>>", "|", "\\", "`", "```json\n"),
    *("\n", "\n\n", " ", "\t", "\r\n", "> ", "~~~\n", "<!--", "-->", "<![CDATA[", "]]>", "ï🙂", "\ud83d"),
]
_TOKENS = [
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", '<invoke name="bash">', "</invoke>", "<command>"),
    *("</command>", '<parameter name="command">', "</parameter>", '<param name="command">', "</param>", "<Call>"),
    *("</Call>", "<Function>", "</Function>", "<Parameters>", "</Parameters>", "]<]minimax[>[", "<｜DSML｜tool_calls>"),
    *('<｜DSML｜invoke name="bash">', '<｜DSML｜parameter name="command" string="true">', "</｜DSML｜parameter>"),
    *("</｜DSML｜invoke>", "</｜DSML｜tool_calls>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[Tool call:", "functools"),
    *("<|python_tag|>", "<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
    *("<|tool_call_end|>", "functions.bash:0", "ool_call>\n", "function call\n", "TOOL_CALLS", "Action:", "<|open|>"),
    *("<|close|>", "<|sep|>", 'call tool="bash"', 'argument key="command" type="string"', "<|message_model|>"),
    *("<|content_invoke_tool_json|>", "<|end_message|>", "<|im_end|>", "</s>", "<think>", "</think>", "[THINK]"),
    *("[/THINK]", "<|START_THINKING|>", "<|END_THINKING|>", "<|channel>thought\n", "<channel|>", "analysis"),
    *("assistantfinal", "<|start|>", "assistant", "<|channel|>", "commentary", " to=functions.bash", "<|message|>"),
    *("<|call|>", "<|end|>"),
]
_ANY = st.sampled_from(
    [*_MARKS, *_MORE, *_WORDS, *_TOKENS, WEAK, STRONG, INNER, call_json("now"), "[bash(command='ls')]"]
)


@pytest.mark.slow
@settings(max_examples=400, derandomize=True)
@given(st.lists(_ANY, max_size=16), st.booleans(), st.booleans(), st.booleans())
def test_random_markers_are_read_equally_at_every_cut(
    parts: list[str], stopped: bool, json_reply: bool, raw_text: bool
) -> None:
    """Markers of all families are mixed, and fed whole, by character and by marker."""
    text = "".join(parts)
    with time_limit(10):
        whole, *others = (
            scan(cut, new_scanner(json_reply=json_reply, raw_text=raw_text), stopped=stopped)
            for cut in ([text], list(text), parts)
        )
    assert others == [whole, whole]
    assert all(isinstance(values, dict) for _, values in whole.parsed)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=12, derandomize=True, suppress_health_check=QUIET)
@given(request_=requests(), dress=st.sampled_from(sorted(DRESSES)), rng=st.randoms(use_true_random=False))
def test_random_calls_are_read_as_written(form: str, request_: Request, dress: str, rng: random.Random) -> None:
    """Names, values and order are equal at a random cut."""
    assume(all(arguments for _, arguments in request_.calls))
    text = DRESSES[dress]("\n".join(FORMS[form](name, arguments) for name, arguments in request_.calls))
    assume(form != "Python's marks" or "\\x" not in text)  # only Python reads this as an escape
    found = scan(random_cut(text, rng), new_scanner(request_.tools))
    assert [comparable(*call) for call in found.parsed] == [comparable(*call) for call in request_.calls]
    assert found.text.strip() == ""
