"""Calls whose name and parameters stand in tags of their own (F13)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.call_element import call_element
from tests.support.helpers import outcome

NAME = "<Function>bash</Function>"
LS = ("bash", {"command": "ls"})
READ: dict[str, tuple[str, tuple[str, Any]]] = {
    "elements": (f"{NAME}<Parameters><command>ls</command></Parameters>", LS),
    "on lines": (
        f"{NAME}\n<Parameters>\n<command>ls</command>\n<timeout>5</timeout>\n</Parameters>",
        ("bash", {"command": "ls", "timeout": 5}),
    ),
    "parameters": (f'{NAME}<Parameters><parameter name="command">ls</parameter></Parameters>', LS),
    "JSON": (f'{NAME}\n<Parameters>{{"command": "ls"}}</Parameters>', LS),
    "blanks around the name": ("<Function> bash\n</Function><Parameters><command>ls</command></Parameters>", LS),
    "no parameters": (f"{NAME}<Parameters></Parameters>", ("bash", {})),
    "none at all": ("<Function>now</Function>", ("now", {})),
    "an end tag in a value": (
        f"{NAME}<Parameters><command>a</command>b</command></Parameters>",
        ("bash", {"command": "a</command>b"}),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_call_is_read_up_to_the_end_of_its_wrapper(name: str) -> None:
    text, expected = READ[name]
    found = outcome(call_element, f"{text}</Call>", wrapped=True)
    assert (found.calls, found.rest) == ([expected], "</Call>")


REFUSED = {
    "a name that was not offered": "<Function>nope</Function>",
    "no name": "<Function></Function>",
    "a name that does not end": "<Function>bash",
    "another end tag": "<Function>bash</Parameters>",
    "an element that is no parameter": f"{NAME}<Parameters><cmd>ls</cmd></Parameters>",
    "an element twice": f"{NAME}<Parameters><command>ls</command><command>ls</command></Parameters>",
    "prose": f"{NAME}<Parameters>ls</Parameters>",
    "parameters that do not end": f"{NAME}<Parameters><command>ls</command>",
    "the wrapper ends inside": f"{NAME}<Parameters><command>ls</command></Call>",
    "JSON that is no object": f'{NAME}<Parameters>["ls"]</Parameters>',
    "text": "bash",
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused(name: str) -> None:
    found = outcome(call_element, REFUSED[name], wrapped=True)
    assert found.calls is None and found.why
