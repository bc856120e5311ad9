"""What stands in a wrapper, wrappers in wrappers, and which evidence they are (F1, F2, F5, F6, F10, contract C3)."""

from __future__ import annotations

import pytest

from tests.support.helpers import call_json, scan, units

LS = call_json("bash", command="ls")
TAGS = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
INVOKE = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
ONE = [("bash", {"command": "ls"})]


# An opener that stands alone, if there is one, and a call that is closed by itself.
CLOSED: dict[str, tuple[str, str]] = {
    "tags": ("<tool_call>", TAGS),
    "invoke": ("<function_calls>", INVOKE),
    "objects in wrappers": ("<tool_calls>", f"<tool_call>{LS}</tool_call>"),
    "pairs in wrappers": (
        "<tool_calls>",
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    ),
    "DSML": (
        "<｜DSML｜tool_calls>",
        '<｜DSML｜invoke name="bash"><｜DSML｜parameter name="command" string="true">ls'
        "</｜DSML｜parameter></｜DSML｜invoke>",
    ),
    "Kimi K2": (
        "<|tool_calls_section_begin|>",
        '<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|>',
    ),
    "DeepSeek V3": (
        "<｜tool▁calls▁begin｜>",
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{"command": "ls"}\n```<｜tool▁call▁end｜>',
    ),
    "DeepSeek V3.1": (
        "<｜tool▁calls▁begin｜>",
        '<｜tool▁call▁begin｜>bash<｜tool▁sep｜>{"command": "ls"}<｜tool▁call▁end｜>',
    ),
    "Kimi K3": (
        "<|open|>tools<|sep|>",
        '<|open|>call tool="bash"<|sep|><|open|>argument key="command" type="string"<|sep|>ls<|close|>argument<|sep|>'
        "<|close|>call<|sep|>",
    ),
    "MiniMax M3": (
        "]<]minimax[>[<tool_call>",
        ']<]minimax[>[<invoke name="bash">]<]minimax[>[<command>ls]<]minimax[>[</command>]<]minimax[>[</invoke>',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "cut off"])
def test_wherever_a_wrapper_breaks_off_the_call_that_is_closed_is_kept(name: str, stopped: bool) -> None:
    """F10: the rest stays text, or is a call if it is whole but for its closers."""
    opener, call = CLOSED[name]
    for end in range(1, len(call)):
        text = f"{opener}{call}\n{call[:end]}"
        for cut in ([text], units(text)):
            found = scan(cut, stopped=stopped)
            assert found.parsed in (ONE, ONE + ONE), text
