"""Messages whose header names the tool: which channel and which recipient call (F11)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.harmony import header, stripped_header
from tests.support.helpers import all_cuts, outcome, scan

LS = '{"command": "ls"}'
ONE = [("bash", {"command": "ls"})]
TO = "to=functions.bash"

READ: dict[str, tuple[str, str]] = {
    "the recipient in the channel": (
        f"<|channel|>commentary {TO} <|constrain|>json<|message|>{LS}<|call|>",
        "<|call|>",
    ),
    "the recipient in the role": (
        f"<|start|>assistant {TO}<|channel|>commentary json<|message|>{LS}<|call|>",
        "<|call|>",
    ),
    "all of it": (f"<|start|>assistant<|channel|>commentary {TO} <|constrain|>json<|message|>{LS}<|call|>", "<|call|>"),
    "without a type": (f"<|channel|>commentary {TO}<|message|>{LS}<|call|>", "<|call|>"),
    "the role cut off": (f"{TO}<|channel|>commentary json<|message|>{LS}<|call|>", "<|call|>"),
    "the call token missing": (f"<|channel|>commentary {TO}<|message|>{LS}", ""),
    "blanks before the arguments": (f"<|channel|>commentary {TO}<|message|>\n{LS}<|end|>", "<|end|>"),
    "no channels": (f"<|start|>assistant to=bash<|message|>{LS}<|eom|>", "<|eom|>"),
    "parameters": (
        "<|start|>assistant to=bash<|message|><parameter=command>\nls\n</parameter>\n</function><|eom|>",
        "<|eom|>",
    ),
    "a wrapper": (
        '<|start|>assistant to=bash<|message|><atem:function_calls><atem:invoke name="bash">'
        '<atem:parameter name="command">ls</atem:parameter></atem:invoke></atem:function_calls><|eom|>',
        "<|eom|>",
    ),
    "analysis with JSON asked for": (f"<|channel|>analysis {TO} <|constrain|>json<|message|>{LS}<|call|>", "<|call|>"),
    "analysis with JSON asked for, glued": (
        f"<|channel|>analysis {TO}<|constrain|>json<|message|>{LS}<|call|>",
        "<|call|>",
    ),
    "analysis with JSON asked for, the recipient in the role": (
        f"<|start|>assistant {TO}<|channel|>analysis <|constrain|>json<|message|>{LS}<|call|>",
        "<|call|>",
    ),
    "analysis with JSON asked for, the role cut off": (
        f"{TO}<|channel|>analysis <|constrain|>json<|message|>{LS}",
        "",
    ),
    "a brace missing": (f"<|channel|>commentary {TO}<|message|>{LS[:-1]}<|call|>", "<|call|>"),
}


@pytest.mark.parametrize("name", READ)
def test_a_message_to_a_tool_is_a_call(name: str) -> None:
    text, rest = READ[name]
    found = outcome(header, text)
    assert (found.calls, found.rest) == (ONE, rest)


def test_a_message_without_arguments_is_a_call_without_any() -> None:
    found = outcome(header, "<|channel|>commentary to=functions.now<|message|><|call|>")
    assert found.calls == [("now", {})]


REFUSED = {
    "analysis": f"<|channel|>analysis {TO} <|message|>{LS}<|call|>",
    "analysis with a word for the token": f"<|channel|>analysis {TO} json<|message|>{LS}<|call|>",
    "analysis to no function": f"<|channel|>analysis to=bash <|constrain|>json<|message|>{LS}<|call|>",
    "analysis to the server's own": f"<|channel|>analysis to=browser.open <|constrain|>json<|message|>{LS}<|call|>",
    "analysis to a function not offered": (
        f"<|channel|>analysis to=functions.nope <|constrain|>json<|message|>{LS}<|call|>"
    ),
    "analysis without a recipient": f"<|channel|>analysis <|constrain|>json<|message|>{LS}<|call|>",
    "the final channel with JSON asked for": f"<|channel|>final {TO} <|constrain|>json<|message|>{LS}<|call|>",
    "two channels with JSON asked for": (
        f"<|start|>assistant<|channel|>analysis {TO}<|channel|>commentary <|constrain|>json<|message|>{LS}<|call|>"
    ),
    "the final channel": f"<|channel|>final {TO} <|message|>{LS}<|call|>",
    "two channels": f"<|start|>assistant<|channel|>analysis {TO}<|channel|>commentary<|message|>{LS}<|call|>",
    "commentary without functions": f"<|channel|>commentary to=bash<|message|>{LS}<|call|>",
    "a tool of the server's own": f"<|channel|>commentary to=browser.open<|message|>{LS}<|call|>",
    "no recipient": f"<|channel|>commentary<|message|>{LS}<|call|>",
    "a name that was not offered": f"<|channel|>commentary to=functions.nope<|message|>{LS}<|call|>",
    "to the model itself": f"<|start|>assistant to=self<|message|>{LS}<|eom|>",
    "to the user": f"<|start|>assistant to=user<|message|>{LS}<|eom|>",
    "prose": f"<|channel|>commentary {TO}<|message|>I will run it.<|call|>",
    "an array": f'<|channel|>commentary {TO}<|message|>["ls"]<|call|>',
    "open arguments": f"<|channel|>commentary {TO}<|message|>{LS[:-2]}",
    "a header alone": f"<|channel|>commentary {TO}",
    "a header over lines": f"<|channel|>commentary\n{TO}<|message|>{LS}<|call|>",
    "a header that is too long": f"<|channel|>commentary {'x' * 300} {TO}<|message|>{LS}<|call|>",
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_any_other_message_is_none(name: str) -> None:
    """C3: what calls is the commentary channel with a recipient of the client's functions."""
    found = outcome(header, REFUSED[name])
    assert found.calls is None and found.why


@pytest.mark.parametrize("closer", ["<|call|>", "<|end|>", ""])
@pytest.mark.parametrize(
    "behind",
    ['], "n": 1}', ', "n": 1}', "-l}", ' "-l}', ', {"command": "rm"}', '\n, {"command": "rm"}'],
)
def test_arguments_behind_which_their_message_goes_on_are_no_call(behind: str, closer: str) -> None:
    """C9: what stands before the end of the message may be a part of them."""
    found = outcome(header, f"<|channel|>commentary {TO} <|constrain|>json<|message|>{LS}{behind}{closer}")
    assert found.calls is None


@pytest.mark.parametrize("behind", ["}-l", '"}', '"} -l', '", -l'])
def test_arguments_go_as_far_as_their_message(behind: str) -> None:
    """The schema reads what marks and brackets do not: the text ends at the last mark."""
    text = f'{{"command": "ls"{behind}"}}'
    found = outcome(header, f"<|channel|>commentary {TO} <|constrain|>json<|message|>{text}<|call|>")
    assert found.calls == [("bash", {"command": f'ls"{behind}'})]


@pytest.mark.parametrize("behind", ["", "\n", "}", "]}", "}}", " and then?"])
def test_what_says_nothing_behind_the_arguments_costs_no_call(behind: str) -> None:
    found = outcome(header, f"<|channel|>commentary {TO} <|constrain|>json<|message|>{LS}{behind}<|call|>")
    assert found.calls == ONE


@pytest.mark.parametrize("token", ["<|end|>", "<|eom|>", "<|call|>", "<|return|>", "<|start|>"])
def test_a_message_that_calls_none_is_passed_over_to_its_end(token: str) -> None:
    """Nothing in it is a call, whatever it shows; what follows may be one again."""
    shown = f"<tool_call>{LS}</tool_call> <function=bash>"
    found = outcome(header, f"<|channel|>analysis {TO}<|message|>{shown}{token}x")
    assert (found.calls, found.rest) == (None, f"{token}x")


THOUGHT = "<|channel|>analysis<|message|>I look first.<|end|>"
ASKED = f"<|channel|>analysis {TO} <|constrain|>json<|message|>{LS}<|call|>"


@pytest.mark.parametrize(
    ("before", "content"),
    [
        ("", ""),
        (f"{THOUGHT}<|start|>assistant", THOUGHT),
        ("Let me see.\n", "Let me see.\n"),
    ],
)
def test_in_the_analysis_channel_only_the_token_makes_a_call(before: str, content: str) -> None:
    """F11: at every cut, and wherever the message stands."""
    for cut in all_cuts(before + ASKED):
        found = scan(cut)
        assert (found.parsed, found.text) == (ONE, content)
    thought = before + ASKED.replace(" <|constrain|>json", "")
    for cut in all_cuts(thought):
        assert scan(cut).calls == ()


STRIPPED: dict[str, tuple[str, list[tuple[str, Any]] | None]] = {
    "commentary": (f"commentary {TO} json{LS}", ONE),
    "behind analysis": (f"assistantcommentary {TO} json{LS}", ONE),
    "without a type": (f"commentary {TO}{LS}", ONE),
    "two": (f"commentary {TO} json{LS}assistantcommentary {TO} json{LS}", None),
    "prose behind it": (f"commentary {TO} json{LS} and so on", None),
    "no functions": (f"commentary to=bash json{LS}", None),
    "a name that was not offered": (f"commentary to=functions.nope json{LS}", None),
    "a required argument missing": (f"commentary {TO} json{{}}", None),
    "an unknown key": (f'commentary {TO} json{{"cmd": "ls"}}', None),
    "no arguments": (f"commentary {TO} json", None),
    "another channel": (f"analysis {TO} json{LS}", None),
    "prose": ("commentary to=all of it", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize("name", STRIPPED)
def test_a_header_whose_tokens_were_stripped_is_weak(name: str) -> None:
    """C3: it must end the reply, with its own keys."""
    text, expected = STRIPPED[name]
    found = outcome(stripped_header, text)
    assert found.calls == expected
    assert expected is None or (found.weak and not found.rest)
    assert outcome(stripped_header, text, stopped=False).calls is None
