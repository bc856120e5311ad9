"""Gemma's calls and FunctionGemma's (F15)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.gemma import gemma_call
from proxy.limits import MAX_DEPTH
from tests.support.helpers import outcome

Q, E = '<|"|>', "<escape>"
LS = ("bash", {"command": "ls"})

READ: dict[str, tuple[str, tuple[str, Any]]] = {
    "Gemma's": (f"call:bash{{command:{Q}ls{Q}}}", LS),
    "FunctionGemma's": (f"call:bash{{command:{E}ls{E}}}", LS),
    "no arguments": ("call:now{}", ("now", {})),
    "blanks": (f"call:bash {{ command : {Q}ls{Q} , }}", LS),
    "a key in marks": (f"call:bash{{{Q}command{Q}:{Q}ls{Q}}}", LS),
    "all types": (
        f"call:typed{{count:3,ratio:-1.5,flag:true,items:[{Q}a{Q},{Q}b{Q}],options:{{a:{{b:{Q}c{Q}}}}},maybe:null}}",
        (
            "typed",
            {"count": 3, "ratio": -1.5, "flag": True, "items": ["a", "b"], "options": {"a": {"b": "c"}}, "maybe": None},
        ),
    ),
    "a string where the schema wants a number": (
        f"call:typed{{count:{Q}3{Q},label:{Q}3{Q}}}",
        ("typed", {"count": 3, "label": "3"}),
    ),
    "brackets in a string": (f"call:bash{{command:{Q}}}]{{[{Q}}}", ("bash", {"command": "}]{["})),
    "quotation marks in a string": (f"call:bash{{command:{Q}\"a' \\n{Q}}}", ("bash", {"command": "\"a' \\n"})),
    "the other mark in a string": (f"call:bash{{command:{Q}a{E}b{Q}}}", ("bash", {"command": f"a{E}b"})),
    "markup in a string": (
        f"call:bash{{command:{Q}<tool_call|></tool_call>{Q}}}",
        ("bash", {"command": "<tool_call|></tool_call>"}),
    ),
    "JSON's quotation marks": ('call:bash{"command":"l}s"}', ("bash", {"command": "l}s"})),
    "a name by the ladder": (f"call:default_api.bash{{command:{Q}ls{Q}}}", LS),
}


@pytest.mark.parametrize("name", READ)
def test_a_call_is_read_up_to_its_brace(name: str) -> None:
    text, expected = READ[name]
    found = outcome(gemma_call, f"{text}<tool_call|>")
    assert (found.calls, found.rest) == ([expected], "<tool_call|>")


REFUSED = {
    "no call": "bash{}",
    "a name that was not offered": "call:nope{}",
    "a name alone": "call:bash",
    "a name and prose": "call:bash and so on",
    "no name": "call:{}",
    "brackets of Python's": "call:bash(command='ls')",
    "a string without marks": "call:bash{command:ls -l}",
    "a string that does not end": f"call:bash{{command:{Q}ls}}",
    "an object that does not end": f"call:bash{{command:{Q}ls{Q}",
    "brackets that do not match": f"call:bash{{items:[{Q}a{Q}}}",
    "too deep": "call:bash{a:" + "[" * (MAX_DEPTH + 2),
    "a name that is too long": f"call:{'b' * 200}{{}}",
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused(name: str) -> None:
    found = outcome(gemma_call, REFUSED[name])
    assert found.calls is None and found.why
