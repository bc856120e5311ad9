"""Copied or quoted text is not a call in any front, streamed or whole (C3, F88, F89)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.messages_client import CHAT, HERMES, MESSAGES, TOOL, ask, reply, serving
from tests.support.reply import read
from tests.support.scripted import WRITE_FILE, chat

FRONTS = pytest.mark.parametrize("front", [CHAT, MESSAGES])
MODES = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


def history(front: str, result: str) -> list[dict[str, Any]]:
    """Return a conversation that ends with a tool result."""
    use: dict[str, Any]
    shown: dict[str, Any]
    last: list[dict[str, Any]]
    if front == MESSAGES:
        use = {"type": "tool_use", "id": "toolu_c1", "name": "read", "input": {}}
        shown = {"type": "tool_result", "tool_use_id": "toolu_c1", "content": [{"type": "text", "text": result}]}
        last = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [shown]}]
    else:
        use = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        shown = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": result}]}
        last = [{"role": "assistant", "content": None, "tool_calls": [use]}, shown]
    return [{"role": "user", "content": "go"}, *last]


def view(inside: Inside, front: str, streamed: bool, text: str, result: str = "done") -> tuple[str, list[Any]]:
    """Return a client's view of a reply: its text and calls."""
    messages = history(front, result)
    with serving(reply(streamed, text)) as server:
        if front == MESSAGES:
            body = ask(messages=messages, tools=[TOOL], stream=streamed)
        else:
            body = chat(messages=messages, tools=[WRITE_FILE], stream=streamed)
        data = inside(server.url).post(front, json=body).data
    seen = read("messages" if front == MESSAGES else "chat", 200, data).choice()
    return seen.text, seen.calls


COPIED = {
    "cat -n": "     8\t<tool_call>\n     9\t{}\n    10\t</tool_call>",
    "an arrow": "8→<tool_call>\n9→{}\n10→</tool_call>",
    "grep -n": "a/b.py:8:<tool_call>\na/b.py:9:{}\na/b.py-10-</tool_call>",
    "quoted": "> <tool_call>\n> {}\n> </tool_call>",
    "indented": "    <tool_call>\n    {}\n    </tool_call>",
    "a diff": "@@ -1,2 +1,3 @@\n+<tool_call>\n-{{}}\n+{}\n </tool_call>",
    "CRLF": "<tool_call>\r\n{}\r\n</tool_call>",
    "HTML": "&lt;tool_call&gt;\n{}\n&lt;/tool_call&gt;",
}


@FRONTS
@MODES
@pytest.mark.parametrize("name", [*COPIED, "JSON"])
def test_a_call_copied_from_a_result_is_text(inside: Inside, front: str, streamed: bool, name: str) -> None:
    inner = HERMES.split("\n")[1]
    shown = COPIED[name].format(inner) if name in COPIED else HERMES.replace('"', '\\"').replace("\n", "\\n")
    assert HERMES not in shown
    assert view(inside, front, streamed, HERMES, f"It says:\n{shown}\nNothing more.") == (HERMES, [])
    text, made = view(inside, front, streamed, HERMES, f"It says:\n{shown.replace('hi', 'ho')}\nNothing more.")
    assert (text, len(made)) == ("", 1)
