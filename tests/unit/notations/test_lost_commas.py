"""Arguments that lack a comma behind a string: the brackets behind it may be the string's own (contract C9)."""

from __future__ import annotations

import pytest

from tests.support.helpers import all_cuts, function, new_scanner, offered, scan

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
COUNT = {"type": "integer"}
TOOLS = offered(
    function("edit", {"path": TEXT, "mode": COUNT, "old": TEXT, "all": {"type": "boolean"}}, "path"),
    function("now", {}),
)
FRAMES = {
    "mistral": ("[TOOL_CALLS]edit[ARGS]", ""),
    "mistral v3": ('[TOOL_CALLS][{"name": "edit", "arguments": ', "}]"),
    "hermes": ('<tool_call>\n{"name": "edit", "arguments": ', "}\n</tool_call>"),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.edit:0<|tool_call_argument_begin|>",
        "<|tool_call_end|><|tool_calls_section_end|>",
    ),
    "harmony": ("<|channel|>commentary to=functions.edit<|constrain|>json<|message|>", "<|call|>"),
    "llama": ('<|python_tag|>{"name": "edit", "parameters": ', "}"),
    "functions": ("<tool_call>\n<function=edit>\n", "\n</function>\n</tool_call>"),
}
# Each shows the end of its object, or of its call, in a text whose marks have no backslash.
SHOWN = (
    '{{"path": "tail " "mode": 5}}{end}", "old": "x"}}',
    '{{"path": "tail " "mode": 5}}{end} and more", "old": "x"}}',
    '{{"path": "see "a" "mode": 5}}{end} more"}}',
    '{{"path": "tail "\n"all": true}}{end}"}}',
    '{{"mode": 1, "path": "tail " "all": false}}{end}", "old": "x"}}',
)


def found(text: str) -> list[tuple[str, object]]:
    seen = {repr(scan(cut, new_scanner(TOOLS)).parsed) for cut in all_cuts(text, 4)}
    assert len(seen) == 1
    return scan([text], new_scanner(TOOLS)).parsed


@pytest.mark.parametrize("shows_end", [False, True])
@pytest.mark.parametrize("arguments", SHOWN)
@pytest.mark.parametrize("frame", FRAMES)
def test_where_a_text_may_go_on_behind_the_brackets_there_is_no_call(
    frame: str, arguments: str, shows_end: bool
) -> None:
    before, after = FRAMES[frame]
    written = arguments.format(end=after if shows_end else "")
    assert found(f"{before}{written}{after}") == []


@pytest.mark.parametrize("behind", ["", "\n", "\nDone.", '\n\nThen "more".'])
@pytest.mark.parametrize("frame", FRAMES)
def test_a_comma_that_is_lost_behind_a_number_is_supplied(frame: str, behind: str) -> None:
    before, after = FRAMES[frame]
    if not after or after.startswith("}") or frame == "harmony":
        behind = ""
    expected = [("edit", {"mode": 5, "all": True})]
    assert found(f'{before}{{"mode": 5 "all": true}}{after}{behind}') == expected
