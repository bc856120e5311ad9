"""Kimi K3's calls: every argument says its own type."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.kimi_k3 import kimi_k3_call
from tests.support.helpers import outcome


def call(name: str, *arguments: tuple[str, str, str]) -> str:
    inside = "".join(
        f'<|open|>argument key="{key}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>'
        for key, kind, value in arguments
    )
    return f'<|open|>call tool="{name}" index="1"<|sep|>{inside}<|close|>call<|sep|>'


LS = call("bash", ("command", "string", "ls"))
READ: dict[str, tuple[str, tuple[str, Any]]] = {
    "one argument": (LS, ("bash", {"command": "ls"})),
    "none": (call("now"), ("now", {})),
    "line ends between": (LS.replace("><|", ">\n<|"), ("bash", {"command": "ls"})),
    "blanks around words": (
        LS.replace("<|open|>", "<|open|> ").replace("<|close|>", "<|close|> ").replace("<|sep|>", " <|sep|>"),
        ("bash", {"command": "ls"}),
    ),
    "a value as it stands": (call("bash", ("command", "string", "\n ls \n")), ("bash", {"command": "\n ls \n"})),
    "escapes are of attributes alone": (
        call("bash", ("a&quot;b&amp;", "string", "&amp;")),
        ("bash", {'a"b&': "&amp;"}),
    ),
    "the end of an argument in a value": (
        call("bash", ("command", "string", "a<|close|>argument<|sep|>b")),
        ("bash", {"command": "a<|close|>argument<|sep|>b"}),
    ),
    "the end of the call in a value": (
        call("bash", ("command", "string", "<|close|>call<|sep|>")),
        ("bash", {"command": "<|close|>call<|sep|>"}),
    ),
    "the types that it says": (
        call(
            "typed", ("label", "number", "3"), ("count", "string", "3"), ("free", "array", "[1]"), ("x", "null", "null")
        ),
        ("typed", {"label": 3, "count": "3", "free": [1], "x": None}),
    ),
    "a type that the text is not of": (call("typed", ("count", "number", "three")), ("typed", {"count": "three"})),
    "no type": (call("typed", ("count", "", "3"), ("label", "", "3")), ("typed", {"count": 3, "label": "3"})),
    "a name by the ladder": (LS.replace("bash", "functions.bash"), ("bash", {"command": "ls"})),
}


@pytest.mark.parametrize("name", READ)
def test_a_call_is_read_up_to_its_end(name: str) -> None:
    text, expected = READ[name]
    found = outcome(kimi_k3_call, f"{text}<|close|>tools<|sep|>")
    assert (found.calls, found.rest) == ([expected], "<|close|>tools<|sep|>")


REFUSED = {
    "a name that was not offered": call("nope"),
    "no name": LS.replace('tool="bash"', ""),
    "another element": "<|open|>message<|sep|>ls<|close|>message<|sep|>",
    "another element inside": LS.replace("argument", "option"),
    "a key twice": call("bash", ("command", "string", "ls"), ("command", "string", "rm")),
    "no key": call("bash", ("", "string", "ls")),
    "prose inside": LS.replace("<|close|>call", "and <|close|>call"),
    "an open value": LS.partition("<|close|>")[0],
    "an open call": LS.removesuffix("<|close|>call<|sep|>"),
    "half an end": LS[:-3],
    "a head over lines": LS.replace(" index", "\nindex"),
    "text": "ls",
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused(name: str) -> None:
    found = outcome(kimi_k3_call, REFUSED[name])
    assert found.calls is None and found.why
