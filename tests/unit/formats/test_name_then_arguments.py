"""Calls written as the name and then the arguments, with the markers of all families between (F4, F7, F8, F9, F16)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.name_then_arguments import called, named
from tests.support.helpers import outcome

LS = '{"command": "ls"}'
ONE = ("bash", {"command": "ls"})
PAIR = "<arg_key>command</arg_key>\n<arg_value>ls</arg_value>"
END = "</tool_call>"

READ: dict[str, tuple[str, tuple[str, Any]]] = {
    "JSON": (f"bash{LS}", ONE),
    "JSON behind blanks": (f"bash \n {LS}", ONE),
    "JSON of Python's": ("bash {'command': 'ls'}", ONE),
    "no keys": ("now{}", ("now", {})),
    "Mistral's": (f"bash[ARGS]{LS}", ONE),
    "Mistral's with an id": (f"bash[CALL_ID]a1B2[ARGS]{LS}", ONE),
    "Kimi's": (f"functions.bash:0<|tool_call_argument_begin|>{LS}", ONE),
    "Kimi's without its marker": (f"functions.bash:12 {LS}", ONE),
    "DeepSeek V3's": (f"function<｜tool▁sep｜>bash\n```json\n{LS}\n```", ONE),
    "DeepSeek V3's without a language": (f"function<｜tool▁sep｜>bash\n```\n{LS}\n```", ONE),
    "DeepSeek V3.1's": (f"bash<｜tool▁sep｜>{LS}", ONE),
    "Step 3's": ("function<｜tool_sep｜><function=bash><parameter=command>ls</parameter></function>", ONE),
    "Solar's": (f"a1<|tool_call:name|>bash<|tool_call:args|>{LS}", ONE),
    "PLaMo's": (
        "<|plamo:begin_tool_name:plamo|>bash<|plamo:end_tool_name:plamo|>"
        f"<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{LS}",
        ONE,
    ),
    "the bridge's": (f"bash({LS})", ONE),
    "Python's arguments": ("bash(command='ls')", ONE),
    "a method": (f"bash.call({LS})", ONE),
    "GLM's": (PAIR.join(["bash\n", END]), ONE),
    "GLM's on one line": ("bash" + PAIR.replace("\n", "") + END, ONE),
    "Hunyuan's": (f"bash<tool_sep>\n{PAIR}{END}", ONE),
    "an end tag that ends nothing": (f"bash</arg_value>{PAIR}{END}", ONE),
    "a key that runs into the name": (f"bash{PAIR.removeprefix('<arg_key>')}{END}", ONE),
    "parameters": (f"bash\n<parameter=command>\nls\n</parameter>\n{END}", ONE),
    "parameters with attributes": (f'bash<parameter name="command">ls</parameter>{END}', ONE),
    "no arguments": (f"now\n{END}", ("now", {})),
    "a brace missing": (f"bash{LS[:-1]}{END}", ONE),
    "a name by the ladder": (f"Bash{LS}", ONE),
}


@pytest.mark.parametrize("name", READ)
def test_each_way_to_write_the_name_first_is_read(name: str) -> None:
    text, expected = READ[name]
    found = outcome(named, text, wrapped=True)
    assert found.calls == [expected]
    assert found.rest == (END if text.endswith(END) else "")


REFUSED = {
    "a name alone": "now",
    "a name and prose": "bash runs a command",
    "a name that was not offered": f"nope{LS}",
    "a name and an array": 'bash ["ls"]',
    "required arguments missing": f"bash{END}",
    "no name": LS,
    "an empty name": f" ({LS})",
    "an unknown name behind the marker": f"function<｜tool▁sep｜>nope\n```json\n{LS}\n```",
    "no arguments behind the marker": "bash[ARGS]",
    "an open object": 'bash{"command": "ls',
    "an object that is none": 'bash{"command" "ls"}',
    "a fence that does not end": f"bash\n```json\n{LS} and",
    "a fence of something else": "bash\n```sh\nls\n```",
    "a name that is too long": f"{'b' * 200}{LS}",
    "a key that runs into another name": f"nope{PAIR.removeprefix('<arg_key>')}{END}",
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused(name: str) -> None:
    found = outcome(named, REFUSED[name], wrapped=True)
    assert found.calls is None and found.why


@pytest.mark.parametrize("text", [f"now\n{END}", f"bash\n{PAIR.removeprefix('<arg_key>')}{END}"])
def test_only_in_a_wrapper_arguments_or_the_first_tag_may_be_missing(text: str) -> None:
    """C3."""
    assert outcome(named, text, wrapped=True).calls
    assert outcome(named, text).calls is None


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (f"functions.bash:3<|tool_call_argument_begin|>{LS}", "functions.bash:3"),
        (f"bash[CALL_ID]a1B2c3D4e[ARGS]{LS}", "a1B2c3D4e"),
        (f"bash{LS}", ""),
        (f"functions.bash{LS}", ""),
        (f"bash:3{LS}", ""),
    ],
)
def test_the_id_that_the_model_gave_is_kept(text: str, id: str) -> None:
    """F8: it knows its calls by it in the next turn."""
    found = outcome(named, text).given
    assert found is not None and [call.id for call in found] == [id]


def test_the_arguments_of_a_name_that_was_read_already_are_those_that_stand_there() -> None:
    found = outcome(lambda reader: called(reader, "bash", "x1"), f"{LS} so")
    assert found.given is not None and found.rest == " so"
    assert (found.given.tool.name, found.given.written_name, found.given.id) == ("bash", "bash", "x1")
