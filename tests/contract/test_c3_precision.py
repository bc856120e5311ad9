"""Text that only looks like a call (contract C3, F88). A phantom call is worse than a missed one."""

from __future__ import annotations

import pytest

from tests.support.helpers import all_cuts, merged, new_scanner, scan

JSON_CALL = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
TAG_CALL = "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>"

SHOWN = {
    "in a fence whose closer is indented too far": f"```\na\n    ```\n{JSON_CALL}\n```\n",
    "in a fence of a list item, after a blank line": f"2. ```xml\n   a\n\n   {JSON_CALL}\n   ```\n",
    "in a span after a stray backtick of another item": f"- press the ` key\n- then write `{JSON_CALL}` in the file",
    "in a span after a stray backtick of a heading": f"# The ` character\nWrite `{JSON_CALL}` in it",
    "in a span after a stray backtick of a table": f"| a ` | b |\n|---|---|\n| `{JSON_CALL}` | c |",
    "in a span after an escaped backtick": f"A literal \\` is written so; an example: `{JSON_CALL}` is a call.",
    "in a span over two lines": f"It is `a\n{JSON_CALL}` there.",
    "in an array of strings": f'["{TAG_CALL}"]',
    "in an array of this and that": f'[1, "{TAG_CALL}"]\nand ["{TAG_CALL}"]',
    "in an array of arrays": f'[["{TAG_CALL}"]]',
    "in quotation marks": f'The model prints "{JSON_CALL}"',
    "in code without a fence": f"print('{TAG_CALL}')",
    "in a value of JSON after a word": f'Config: {{"prompt": "{TAG_CALL}"}}',
    "in the model's reasoning": f"<think>I could write {JSON_CALL} but no</think>hello",
    "in an answer of another kind": f'{{"example": {{"html": "a {TAG_CALL}"}}}}',
}
MEANT = {
    "after a fence": f"```py\nx\n```\n{JSON_CALL}",
    "after a span": f"`code` then {JSON_CALL}",
    "after a list": f"- one\n- two\n\n{JSON_CALL}",
    "after reasoning": f"<think>hm</think>{JSON_CALL}",
    "after an array": f'["a"]\n{JSON_CALL}',
    "after an array of this and that that never ends": f'[1, "xx]{JSON_CALL}',
    "after a footnote": f"[1] a note\n{JSON_CALL}",
    "after a tag that was only named": f"Use <function=NAME> so.\n{JSON_CALL}",
    "after an object that never ends": f'{{\n "a": [1, 2\nand so on.\n{JSON_CALL}',
}


@pytest.mark.parametrize("name", SHOWN)
def test_shown_calls_are_not_made(name: str) -> None:
    for cut in all_cuts(SHOWN[name]):
        found = scan(cut)
        assert (found.calls, found.text) == ((), SHOWN[name])


@pytest.mark.parametrize("name", MEANT)
def test_intended_calls_are_made(name: str) -> None:
    for cut in all_cuts(MEANT[name]):
        assert [call for call, _ in scan(cut).calls] == ["bash"]


@pytest.mark.parametrize("text", [f'{{"html":"{TAG_CALL}"}}', f'[{{"html": "a {JSON_CALL}"}}]'])
def test_json_that_the_client_requested_is_never_a_call(text: str) -> None:
    """With `response_format`, JSON is never a call, whatever it contains."""
    for cut in all_cuts(text):
        assert scan(cut, new_scanner(json_reply=True)).calls == ()


@pytest.mark.parametrize("code", ["```py\nx\n```\n", "~~~\nx\n~~~\n", "an open ` there", "```py\nx"])
def test_an_end_of_turn_token_after_code_is_dropped(code: str) -> None:
    """In raw text the token is the model's own, wherever the reply ends."""
    for cut in all_cuts(f"{code}<|im_end|>"):
        assert scan(cut, new_scanner(raw_text=True)).text == code


def test_text_released_within_a_value_is_not_read_again() -> None:
    start = "<tool_call><function=bash><parameter=command>see "
    rest = f"{JSON_CALL}\n</parameter></function></tool_call>"
    scanner = new_scanner()
    pieces = [*scanner.feed(start), *scanner.release(), *scanner.feed(rest), *scanner.finish(stopped=True)]
    assert merged(pieces, start + rest).calls == ()
