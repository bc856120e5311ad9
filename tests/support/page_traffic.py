"""Traffic for the live page: harmless and hostile texts of agents and models."""

from __future__ import annotations

import http.client
import json
from contextlib import ExitStack, closing
from typing import Any

from tests.support.scripted import (
    DONE,
    PATIENCE,
    ROLE,
    WRITE_FILE,
    Script,
    answer,
    chat,
    finish,
    stream,
    text,
)

# Texts that would run a script if the page read them as HTML or as a URL.
HOSTILE = (
    "<script>window.hit = 1</script>",
    '<img src=x onerror="window.hit = 1">',
    "<svg onload=window.hit=1>",
    "\"><iframe srcdoc='<script>parent.hit = 1</script>'></iframe>",
    "<a href='javascript:window.hit = 1' autofocus onfocus='window.hit = 1'>link</a>",
    "</pre></dialog><style>body{display:none}</style>",
    "{{constructor.constructor('window.hit = 1')()}}",
    "\u202eevil\u2066\u061c\u00ad\U000e0041 <b>bold</b>",
)
BASH: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
            "required": ["command"],
        },
    },
}
TOOLS = [WRITE_FILE, BASH]


def call_in_text(name: str, arguments: dict[str, object]) -> str:
    """Return a call that the server's parser has left in the text."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def said(*texts: str) -> Script:
    """Return a streamed reply of these texts."""
    return stream(ROLE, *map(text, texts), finish(), DONE)


USUAL: tuple[Script, ...] = (
    said("I write the file.\n", call_in_text("write_file", {"path": "notes.md", "content": "# Notes\n\n- one\n"})),
    said(call_in_text("bash", {"command": "make test", "timeout": "60"})),
    said(
        "Like this: `<tool_call>` ", '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call> and on.'
    ),
    [answer({"error": {"message": "the model is loading", "type": "server_error"}}, 503)],
    said("All tests pass."),
)


class Agent:
    """A client of a proxy on this machine. Its connections are closed with the stack."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._port = port
        self._stack = stack

    def ask(self, path: str = "/v1/chat/completions", **body: Any) -> bytes:
        """Send a request, and return the complete answer."""
        asked = chat(stream=True, **{"tools": TOOLS, **body})
        client = self._stack.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE))
        )
        client.request("POST", path, json.dumps(asked), {"Content-Type": "application/json"})
        return self._stack.enter_context(client.getresponse()).read()
