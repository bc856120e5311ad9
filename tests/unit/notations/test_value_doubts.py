"""What looks like the end of a call and may be shown by a value (C9, C10)."""

from __future__ import annotations

import pytest

from tests.support.helpers import all_cuts, new_scanner, scan

DEEPSEEK = "<｜tool▁call▁begin｜>"
SHOWN = (
    "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>",
    '{0}<{1}invoke name="bash">\n<{1}parameter name="command">ls</{1}parameter>\n</{1}invoke>{2}',
)


@pytest.mark.parametrize("token", ["<｜tool_call_end｜>", "<｜tool▁call▁end｜>", "<|im_end|>"])
@pytest.mark.parametrize("space", ["", "antml:"])
@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("gap", ["", "\n"])
def test_a_value_that_shows_a_call_behind_an_end_tag_and_a_token_is_not_cut(
    token: str, space: str, shown: str, gap: str
) -> None:
    shown = shown.format("", space, "") if gap else shown.format(f"<{space}function_calls>", space, "")
    content = f"x</{space}parameter>{token}{gap}{shown}\nrest"
    text = (
        f'<{space}function_calls>\n<{space}invoke name="write_file">\n'
        f'<{space}parameter name="path">a</{space}parameter>\n'
        f'<{space}parameter name="content">{content}</{space}parameter>\n</{space}invoke>\n</{space}function_calls>'
    )
    for cut in all_cuts(text):
        assert scan(cut, new_scanner()).parsed in ([], [("write_file", {"path": "a", "content": content})])


@pytest.mark.parametrize(
    "text",
    [
        # The value may be `</arg_value></tool_call></tool_calls>`.
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value></arg_value></tool_call></tool_calls></arg_value>\n</tool_call>",
        # The string may be `# Format\n\n"}}</tools>`.
        f'{DEEPSEEK}bash<｜tool▁sep｜>{{"command": "# Format\n\n"}}}}</tools>"}}<｜tool▁call▁end｜>',
    ],
)
def test_a_value_that_may_show_its_own_end_makes_no_call(text: str) -> None:
    for cut in all_cuts(text):
        assert scan(cut, new_scanner()).parsed == []


@pytest.mark.parametrize(
    ("text", "stopped", "made"),
    [
        ('[bash(command="ls"', True, False),
        ('[bash(command="ls")', True, True),
        (f'{DEEPSEEK}function<｜tool▁sep｜>bash\n```json\n{{"command": "ls"}}}}\n```<｜tool▁call▁end｜>', True, True),
        ('So:\n{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}', True, True),
        ('So:\n{"name": "bash", "arguments": "ls"}', True, False),
    ],
)
def test_brackets_that_are_missing_or_too_many(text: str, stopped: bool, made: bool) -> None:
    for cut in all_cuts(text):
        assert scan(cut, new_scanner(), stopped=stopped).parsed == [("bash", {"command": "ls"})] * made


def test_markup_that_a_docstring_shows_is_closed_by_its_own_indented_end_tags() -> None:
    shown = (
        'def f():\n    """Doc.\n\n    <tool_call>now\n    <arg_key>zz</arg_key>\n    <arg_value>v</arg_value>\n'
        '    </tool_call>\n    """'
    )
    text = f"<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>{shown}</arg_value>\n</tool_call>"
    for cut in all_cuts(text):
        assert scan(cut, new_scanner()).parsed == [("bash", {"command": shown})]
