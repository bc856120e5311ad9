"""Several bodies in one wrapper: one of which no tool was offered stays text, the others are calls (C3)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.helpers import all_cuts, call_json, ends, new_engine, new_scanner, run, says, scan, view

pytestmark = pytest.mark.once

Arguments = dict[str, Any]
# X was not offered; its values show what ends and begins other calls.
X: Arguments = {"path": "a </tool_call> [ ] { } \\ 'b' ```\n<tool_call>now</tool_call>", "n": 1}
BASH: Arguments = {"command": "ls -la", "timeout": 5}
READ: Arguments = {"path": "a.py"}
GIVEN = {"x": ("nope", X), "b": ("bash", BASH), "r": ("read", READ)}
DSML = "｜DSML｜"


def invoke(name: str, arguments: Arguments, mark: str = "") -> str:
    kinds = {True: "false", False: "true"}
    inside = "".join(
        f'<{mark}parameter name="{key}" string="{kinds[isinstance(value, int)]}">{value}</{mark}parameter>\n'
        for key, value in arguments.items()
    )
    return f'<{mark}invoke name="{name}">\n{inside}</{mark}invoke>'


def function_tags(name: str, arguments: Arguments) -> str:
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<function={name}>\n{inside}</function>"


def pairs(name: str, arguments: Arguments) -> str:
    inside = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items())
    return f"<tool_call>{name}<tool_sep>\n{inside}</tool_call>"


def python(name: str, arguments: Arguments) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def xtml(name: str, arguments: Arguments) -> str:
    kinds = {True: "number", False: "string"}
    inside = "".join(
        f'<|open|>argument key="{key}" type="{kinds[isinstance(value, int)]}"<|sep|>{value}<|close|>argument<|sep|>'
        for key, value in arguments.items()
    )
    return f'<|open|>call tool="{name}"<|sep|>{inside}<|close|>call<|sep|>'


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def json_call(name: str, arguments: Arguments) -> str:
    return call_json(name, **arguments)


def kimi(name: str, arguments: Arguments) -> str:
    return f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{dump(arguments)}<|tool_call_end|>"


def deepseek(name: str, arguments: Arguments) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{dump(arguments)}\n```<｜tool▁call▁end｜>"


def deepseek31(name: str, arguments: Arguments) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{dump(arguments)}<｜tool▁call▁end｜>"


# What begins the wrapper, one body, what stands between two, what ends the wrapper.
FAMILIES: dict[str, tuple[str, Callable[[str, Arguments], str], str, str]] = {
    "Hermes, an array": ("<tool_call>\n[", json_call, ", ", "]\n</tool_call>"),
    "Hermes, lines": ("<tool_call>\n", json_call, "\n", "\n</tool_call>"),
    "Hermes, OpenAI's": (
        "<tool_call>[",
        lambda name, arguments: dump({"type": "function", "function": {"name": name, "arguments": dump(arguments)}}),
        ",",
        "]</tool_call>",
    ),
    "Apertus": ("<|tools_prefix|>[", lambda name, arguments: dump({name: arguments}), ", ", "]<|tools_suffix|>"),
    "Mistral": ("[TOOL_CALLS][", json_call, ", ", "]"),
    "Granite 3": ("<|tool_call|>[", json_call, ", ", "]"),
    "Llama": ("<|python_tag|>", json_call, "; ", ""),
    "MiniMax M1": ("<tool_calls>\n", json_call, "\n", "\n</tool_calls>"),
    "Jamba": ("<tool_calls>[\n", json_call, ",\n", "\n]</tool_calls>"),
    "Claude's": ("<function_calls>\n", invoke, "\n", "\n</function_calls>"),
    "MiniMax M2": ("<minimax:tool_call>\n", invoke, "\n", "\n</minimax:tool_call>"),
    "DSML": (
        f"<{DSML}tool_calls>\n",
        lambda name, arguments: invoke(name, arguments, DSML),
        "\n",
        f"\n</{DSML}tool_calls>",
    ),
    "Qwen": ("<tool_call>\n", function_tags, "\n", "\n</tool_call>"),
    "Hunyuan": ("<tool_calls>\n", pairs, "\n", "\n</tool_calls>"),
    "Kimi K2": ("<|tool_calls_section_begin|>", kimi, "", "<|tool_calls_section_end|>"),
    "Kimi K3": ("<|open|>tools<|sep|>", xtml, "", "<|close|>tools<|sep|>"),
    "DeepSeek V3": ("<｜tool▁calls▁begin｜>", deepseek, "\n", "<｜tool▁calls▁end｜>"),
    "DeepSeek V3.1": ("<｜tool▁calls▁begin｜>", deepseek31, "", "<｜tool▁calls▁end｜>"),
    "LFM2": ("<|tool_call_start|>[", python, ", ", "]<|tool_call_end|>"),
    "Llama 4": ("<|python_start|>[", python, ", ", "]<|python_end|>"),
    "OLMo 3": ("<function_calls>", python, "\n", "</function_calls>"),
}
ORDERS = ("xb", "bx", "xbr", "bxr", "brx", "xxb", "xbxr", "bxxr", "bxrx")


def reply(family: str, order: str) -> tuple[str, list[tuple[str, Arguments]]]:
    """The text of a wrapper with bodies in this order, and the calls that are in it."""
    begins, body, between, closes = FAMILIES[family]
    text = begins + between.join(body(*GIVEN[each]) for each in order) + closes
    return text, [GIVEN[each] for each in order if each != "x"]


def content(family: str, order: str) -> str:
    """Return the text that is left: each body that was not offered, what stands between two of them, and the opener if
    one of them is the first.
    """
    begins, body, between, _ = FAMILIES[family]
    runs = (between.join([body(*GIVEN["x"])] * len(run)) for run in re.findall("x+", order))
    return (begins if order.startswith("x") else "") + "".join(runs)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_offered_is_called_and_the_rest_is_text_in_its_place(family: str, order: str) -> None:
    """C3: whatever the values of what was not offered show."""
    text, calls = reply(family, order)
    for stopped in (True, False):
        for cut in all_cuts(text):
            found = scan(cut, stopped=stopped)
            assert (found.parsed, found.text) == (calls, content(family, order))


@pytest.mark.parametrize("family", FAMILIES)
def test_prose_around_it_stays_where_it_was(family: str) -> None:
    text, calls = reply(family, "xb")
    for cut in all_cuts(f"First this.\n{text}\nThen that."):
        found = scan(cut)
        assert found.parsed == calls
        assert found.text == f"First this.\n{content(family, 'xb')}\nThen that."
        kinds = [kind for kind, _ in found.pieces]
        assert kinds[0] == kinds[-1] == "prose" and len(kinds) == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_text_between_calls_stands_between_them(family: str) -> None:
    text, calls = reply(family, "bxr")
    for cut in all_cuts(text):
        seen = [given[2] if kind != "prose" else given for kind, given in scan(cut).pieces]  # type: ignore[index]
        assert [len(each) if isinstance(each, tuple) else each for each in seen] == [1, content(family, "bxr"), 1]
    assert len(calls) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_where_none_was_offered_all_is_text(family: str) -> None:
    for order in ("x", "xx"):
        text, _ = reply(family, order)
        for cut in all_cuts(f"{text} so"):
            found = scan(cut)
            assert (found.calls, found.text) == ((), f"{text} so")


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_not_offered_is_let_go_while_it_is_written(family: str) -> None:
    """C2: if it is the first thing in the wrapper."""
    begins, body, _, _ = FAMILIES[family]
    long = body("nope", {"path": "word " * 400})
    scanner = new_scanner()
    pieces = [piece for each in begins + long for piece in scanner.feed(each)]
    assert sum(len(piece.text) for piece in pieces) > 1500


@pytest.mark.parametrize("family", FAMILIES)
def test_what_waited_too_long_is_no_call_whatever_follows(family: str) -> None:
    """C7."""
    begins, body, between, closes = FAMILIES[family]
    text = begins + between.join((body("nope", {"path": "word " * 9}), body(*GIVEN["b"]), body(*GIVEN["r"]))) + closes
    for at in range(0, len(text), 7):
        scanner = new_scanner()
        before = [*scanner.feed(text[:at]), *scanner.release()]
        after = [*scanner.feed(text[at:]), *scanner.finish(stopped=True)]
        calls = [call.name for piece in (*before, *after) for call in piece.calls or ()]
        assert calls in ([], ["bash", "read"], ["bash"], ["read"])


@pytest.mark.slow
@pytest.mark.parametrize("family", [name for name in FAMILIES if FAMILIES[name][3]])
def test_a_wrapper_that_breaks_off_is_evidence_of_nothing_that_is_not_closed(family: str) -> None:
    """C3, C4: at every place, cut off and stopped."""
    text, calls = reply(family, "xb")
    for at in range(len(text)):
        found = scan([text[:at]], stopped=False)
        assert found.parsed in ([], calls)
        assert "nope" not in str(found.calls)


GIVEN_LS = ("bash", {"command": "ls"})
WORDS = ("and", "ok", "so it is", "see below", "e.g. nope", "or", "nope()", "nope")


@pytest.mark.parametrize("word", WORDS)
def test_a_word_beside_a_call_is_no_call_of_another_tool(word: str) -> None:
    """C3: a closed wrapper around an offered name counts, whatever else is in it."""
    call = call_json("bash", command="ls")
    for text in (f"<tool_call>{call} {word}</tool_call>", f"<tool_call>{word} {call}</tool_call>"):
        assert scan([text]).parsed in ([], [GIVEN_LS])


def test_without_a_wrapper_one_that_was_not_offered_makes_the_row_text() -> None:
    """C3."""
    x, y = call_json("nope", a=1), call_json("bash", command="ls")
    rows = (f"[{x}, {y}]", f"[{y}, {x}]", f"```json\n[{x}, {y}]\n```", "[nope(a=1), bash(command='ls')]")
    for text in rows:
        for cut in all_cuts(text):
            found = scan(cut)
            assert (found.calls, found.text) == ((), text)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_has_the_text_and_the_call(family: str) -> None:
    """C4, C5: streamed and whole."""
    text, calls = reply(family, "xb")
    for cut in all_cuts(text):
        seen = view(run([*map(says, cut), ends()], new_engine()))[0]
        assert [(name, json.loads(given)) for name, given in seen.calls] == calls
        assert (seen.text, seen.finish) == (content(family, "xb"), "tool_calls")
