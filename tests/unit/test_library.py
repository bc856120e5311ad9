"""The functions of the package that find calls in a text without the proxy."""

from __future__ import annotations

import doctest
import subprocess
import sys
from typing import Any

import pytest

import proxy
from proxy import CallStream, ToolCall, find_calls, library
from proxy.notations.source import Rejection

WRITE: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
TOOLS = [{"type": "function", "function": {"name": "write", "parameters": WRITE}}]
ARGUMENTS = '{"path": "a.txt", "content": "hello, world"}'
CALL = f'<tool_call>\n{{"name": "write", "arguments": {ARGUMENTS}}}\n</tool_call>'
REPLIES = (
    f"I write.\n{CALL}",
    f"{CALL}\n{CALL.replace('a.txt', 'b.txt')}",
    "<function=write><parameter=path>a.txt</parameter><parameter=content>x < y</parameter></function>",
    f'Nothing is called by `{{"name": "write"}}`, <b>nor</b> here: {CALL} is only shown.',
    '{"name": "write", "arguments": {"path": "a.txt", "content": "weak"}}',
    "<think>I could write.</think>Done.",
)


def test_the_example_in_the_documentation_runs() -> None:
    tried = doctest.testmod(library)
    assert (tried.attempted > 5, tried.failed) == (True, 0)


def test_the_package_imports_its_parser_on_first_use() -> None:
    script = "import proxy, sys; assert proxy.__version__; print([m for m in sys.modules if m.startswith('proxy.')])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"[]\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        proxy.nothing  # noqa: B018


@pytest.mark.parametrize("text", REPLIES)
@pytest.mark.parametrize("size", [1, 7])
def test_a_stream_of_pieces_has_the_same_calls_as_the_whole_text(text: str, size: int) -> None:
    whole = find_calls(text, TOOLS)
    stream = CallStream(TOOLS)
    found = [event for at in range(0, len(text), size) for event in stream.feed(text[at : at + size])]
    found += stream.finish()
    assert tuple(each for each in found if isinstance(each, ToolCall)) == whole.calls
    assert "".join(each for each in found if isinstance(each, str)) == whole.text
    assert (stream.finish_reason, stream.repairs) == (whole.finish_reason, whole.repairs)


@pytest.mark.parametrize(
    "tool",
    [
        TOOLS[0],
        {"name": "write", "input_schema": WRITE},
        {"type": "function", "name": "write", "parameters": WRITE},
    ],
)
def test_tools_are_accepted_in_the_format_of_any_api(tool: dict[str, Any]) -> None:
    (call,) = find_calls(CALL, [tool]).calls
    assert (call.name, call.arguments, call.values["path"]) == ("write", ARGUMENTS, "a.txt")
    assert call.id.startswith("call_") and [repair.id for repair in call.repairs] == ["text_call"]


def test_a_repair_and_a_rejection_are_reported() -> None:
    respelled, unknown = (CALL.replace('"write"', name) for name in ('"functions.Write:0"', '"no"'))
    reply = find_calls(respelled + unknown, TOOLS)
    (call,) = reply.calls
    recorded = [(each.id, each.before) for each in call.repairs]
    assert recorded == [("text_call", respelled), ("name", "functions.Write:0")]
    assert reply.rejected == {"not_offered": 1}


@pytest.mark.parametrize("reason", ["length", "content_filter", "repetition"])
def test_a_truncated_reply_is_not_completed(reason: str) -> None:
    text = f'<tool_call>{{"name": "write", "arguments": {ARGUMENTS[:-2]}'
    reply = find_calls(text, TOOLS, finish_reason=reason)
    assert (reply.calls, reply.text, reply.finish_reason) == ((), text, reason)


def test_a_call_copied_from_the_conversation_is_text() -> None:
    messages = [{"role": "user", "content": f"What does {CALL} do?"}]
    assert find_calls(CALL, TOOLS).calls
    assert find_calls(CALL, TOOLS, messages).calls == ()


def test_without_tools_everything_is_text() -> None:
    reply = find_calls(CALL, [])
    assert (reply.calls, reply.text, reply.finish_reason) == ((), CALL, "stop")
    assert find_calls("", TOOLS).text == ""


def test_json_that_the_client_requested_is_not_a_call() -> None:
    assert len(find_calls(REPLIES[4], TOOLS).calls) == 1
    assert find_calls(REPLIES[4], TOOLS, json_reply=True).calls == ()


def test_special_tokens_at_the_end_are_dropped() -> None:
    assert find_calls(f"{CALL}<|im_end|>", TOOLS, special_tokens=True).text == ""


def test_every_rejection_has_a_sentence() -> None:
    sentences = library.reasons()
    assert {rejection.label for rejection in Rejection} <= sentences.keys()
    assert "no_name" in sentences and all(sentences.values())
