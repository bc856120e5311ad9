"""No damage (contract C9): the model wrote every repaired value. Chat and Messages, streamed at any cut and whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.engine.events import Chunk
from proxy.exchange.reply_stream import StreamReply
from proxy.notations.toolset import ToolSet
from tests.support.client_view import ROLE, argued, kept, streamed, wire
from tests.support.helpers import calls, ends, function, new_engine, offered, piece, random_cut, says
from tests.support.messages_checker import check_stream
from tests.support.rows import rows, table

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
PAIR = {"type": "object", "properties": {"old": TEXT, "new": TEXT}, "required": ["old", "new"]}
TOOLS: ToolSet = offered(
    function("read", {"path": TEXT}, "path"),
    function("write", {"path": TEXT, "content": TEXT, "mode": TEXT}, "path", "content"),
    function("bash", {"command": TEXT, "timeout": {"type": "integer"}}, "command"),
    function("edit", {"path": TEXT, "old": TEXT, "new": TEXT, "all": {"type": "boolean"}}, "path", "old", "new"),
    function("edits", {"path": TEXT, "edits": {"type": "array", "items": PAIR}}, "path", "edits"),
    function("note", {"note": {"type": "object", "properties": {"text": TEXT}}, "path": TEXT}, "path"),
    function("add", {"label": TEXT, "count": {"type": "integer"}, "unit": TEXT}),
    function("sum", {"numbers": {"type": "array", "items": {"type": "integer"}}, "label": TEXT}),
    function("tag", {"tags": {"type": "array", "items": TEXT}}, "tags"),
)
# Strings with paired quotation marks.
INNER: list[str] = table(__file__, "INNER")


def broken(values: Any) -> str:
    """Return JSON without backslashes before quotation marks in strings."""
    return json.dumps(values, ensure_ascii=False).replace('\\"', '"')


def in_messages(name: str, text: str, finish: str = "tool_calls") -> dict[str, Any]:
    """Return a Messages client's view of a call with these arguments, which must be equal at every cut."""
    found: list[dict[str, Any]] = []
    for parts in ([text], list(text), *(random_cut(text, random.Random(seed)) for seed in (3, 7))):
        pieces: list[Chunk] = [ROLE, calls(piece(0, "", name, "a")), *(calls(piece(0, each)) for each in parts)]
        reply = StreamReply(new_engine(TOOLS), MessagesWriter(ReplyOptions("m")), _fail)
        given = reply.receive(wire([*pieces, ends(finish)])) + reply.finish()
        if reply.failure is not None:
            given += reply.fail(reply.failure)
        found.append(check_stream(given))
    assert all(each.get("content") == found[0].get("content") for each in found)
    return found[0]


def _fail(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


def is_right(name: str, values: Any, text: str) -> bool:
    """Return whether this arguments text yields a call with these values in both dialects."""
    got = argued(name, text, tools=TOOLS)
    (block,) = in_messages(name, text)["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", name, values)
    return (got.values, got.text, got.error) == ([(name, values)], "", "")


def is_refused(name: str, text: str) -> bool:
    """Return whether no call is sent: it stays text, or the stream ends in an error because the call had begun."""
    got = argued(name, text, tools=TOOLS)
    said = in_messages(name, text)
    if got.error:
        return bool(said["type"] == "error")
    assert [block["type"] for block in said["content"]] == ["text"]
    return (got.text, got.calls) == (f"{name}{text}", [])


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
def test_unescaped_marks_inside_a_string_belong_to_it(inner: str) -> None:
    for name, values in (
        ("write", {"path": "a", "content": inner}),
        ("write", {"content": inner, "path": "a"}),
        ("write", {"path": "a", "content": inner, "mode": inner}),
        ("bash", {"timeout": 3, "command": inner}),
        ("bash", {"command": inner, "timeout": 3}),
        ("edit", {"path": "a", "old": inner, "new": f"{inner}\n", "all": True}),
        ("edits", {"path": "a", "edits": [{"old": inner, "new": "b"}, {"old": "c", "new": inner}]}),
    ):
        assert is_right(name, values, broken(values))


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
def test_three_marks_are_one_delimiter(inner: str) -> None:
    if inner.startswith('"') or inner.endswith('"'):
        inner = f" {inner} "
    assert is_right("write", {"path": "a", "content": inner}, f'{{"path": "a", "content": """{inner}"""}}')
    assert is_right("write", {"content": inner, "path": "a"}, f'{{"content": """{inner}""", "path": "a"}}')


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # The start of one of the tool's keys occurs twice.
        ("write", '{"content": "{"a": "x", "path": "y"}", "path": "p"}'),
        ("write", '{"path": "p", "content": "{"path": "x", "content": "y"}"}'),
        # Within an array of strings.
        ("tag", '{"tags": ["a "b" c"]}'),
        ("tag", '{"tags": ["a", "b", "c "d""]}'),
        # The string may contain all of it.
        ("write", '{"path": "p", "content": "say "hi"", "note": "x"}'),
        ("write", '{"path": "p", "content": "say "hi", "mode": "b"}'),
        ("bash", '{"command": ""}'[:-2] + '""}'),
    ],
)
def test_text_with_two_readings_is_refused(name: str, text: str) -> None:
    assert is_refused(name, text)


# A quotation mark followed by what looks like the end of the object.
LOOKS_LIKE_AN_END = ('",}', '", }', '",\n}\n', '" } ', '"},', '", }{', '"}]')


@pytest.mark.slow
@pytest.mark.parametrize("end", LOOKS_LIKE_AN_END)
@pytest.mark.parametrize("after", [" -l", ' | wc "-l', "} c"])
def test_an_apparent_end_of_the_object_inside_a_string_is_not_its_end(end: str, after: str) -> None:
    """Only the end of the call decides; the text after the brace is not prose."""
    inner = f"ls{end}{after}"
    paired = inner.count('"') % 2 == 0
    assert is_right("bash", {"command": inner}, broken({"command": inner}))
    assert is_right("write", {"path": "p", "content": inner}, broken({"path": "p", "content": inner}))
    # A required key must be a key. An optional one may be part of the string.
    assert is_right("write", {"content": inner, "path": "p"}, broken({"content": inner, "path": "p"}))
    optional = {"path": "p", "content": inner, "mode": "m"}
    if paired:
        assert is_right("write", optional, broken(optional))
    else:
        assert is_refused("write", broken(optional))


@rows(__file__, "name,object_")
@pytest.mark.parametrize(
    "after", [', "label": "a"}', ' "label": "a"}', ": 5}", ", 3, 4]}", "] and so on", ', {"path": "b"}']
)
def test_a_string_that_continues_after_the_object_is_not_content(name: str, object_: str, after: str) -> None:
    assert is_refused(name, object_ + after)


@pytest.mark.parametrize("object_", ["{}", '{"timeout": 5}', '{"command": "ls"}', '{"command": "ls", "timeout": 5}'])
@pytest.mark.parametrize("after", [" and more", "\n\nAll of them: done.", " <b>So</b> it is", " it's done"])
def test_prose_after_the_object_is_content(object_: str, after: str) -> None:
    """It contains none of the object's own quotation marks, so it cannot be part of a string."""
    got = argued("bash", object_ + after, tools=TOOLS)
    assert (got.calls, got.text, got.error) == ([("bash", object_)], after, "")


@rows(__file__, "name,text")
def test_several_objects_are_not_a_call(name: str, text: str) -> None:
    assert is_refused(name, text)


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["f(", "say ", "x = {", "", 'a "b" c('])
@pytest.mark.parametrize("outer", ["z", "", 'say "hi" ', "{"])
def test_an_outer_key_that_occurs_twice_after_a_nested_string_is_refused(
    inner: str, outer: str
) -> None:
    """The string and the text around it may end before the first or the second key."""
    for name, text in (
        ("edits", f'{{"edits": [{{"old": "a", "new": "{inner}"}}], "path": "{outer}")"}}], "path": "p"}}'),
        ("edits", f'{{"edits": [{{"new": "a", "old": "{inner}" }} ] , "path": "{outer}")" }} ] , "path": "p"}}'),
        ("note", f'{{"note": {{"text": "{inner}"}}, "path": "{outer}")"}}, "path": "p"}}'),
        ("note", f'{{"note": {{"text": "{inner}"}}, "path": "{outer}")"}},\n "path": ")"}}, "path": "p"}}'),
    ):
        assert is_refused(name, text)


@pytest.mark.parametrize("before", ['<tool_call>{"name": "note", "arguments": ', "[TOOL_CALLS]note"])
def test_ambiguous_closers_after_a_nested_string_in_text_are_refused(before: str) -> None:
    after = "}</tool_call>" if before.startswith("<") else ""
    right = '{"note": {"text": "f("}, "path": "p"}'
    twice = '{"note": {"text": "f("}, "path": "z")"}, "path": "p"}'
    got = streamed(says(before + right + after), ends("stop"), tools=TOOLS)
    assert got.values == [("note", json.loads(right))]
    got = streamed(says(before + twice + after), ends("stop"), tools=TOOLS)
    assert (got.calls, got.text) == ([], before + twice + after)


@rows(__file__, "text")
def test_a_key_that_occurs_twice_in_broken_arguments_is_refused(text: str) -> None:
    """All text between the two keys may be part of the preceding string."""
    assert is_refused("add", text)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("end", ["", '"'])
def test_a_truncated_string_is_never_completed(inner: str, end: str) -> None:
    """Otherwise half a file with finish `stop` would look like success. An inner quotation mark is not an end."""
    text = '{"path": "p", "content": "' + inner.replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    assert is_refused("write", text.replace("\r", "\\r") + (' \\"x' if end else ""))


@pytest.mark.parametrize(
    "cut", ['say "hi', 'say "hi" and', 'f("}', "x = {", 'x = {"a": "b"}', 'x = {"a": 1}; y', 'x = ["a", "b"]}']
)
def test_a_truncated_string_with_unescaped_marks_is_never_completed(cut: str) -> None:
    text = '{"path": "p", "content": "' + cut
    if cut == 'f("}':
        # This is a complete object.
        assert is_right("write", {"path": "p", "content": "f("}, text)
        return
    assert is_refused("write", text)


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
def test_valid_arguments_are_unchanged(inner: str) -> None:
    """C1."""
    for values in ({"path": "a", "content": inner}, {"content": inner, "path": "a", "mode": ""}):
        for indent in (None, 2):
            assert kept("write", json.dumps(values, indent=indent), tools=TOOLS)


@pytest.mark.parametrize("content", ["", "x", " ", None])
def test_a_read_is_never_turned_into_a_write(content: Any) -> None:
    text = json.dumps({"path": "a", "content": content})
    assert kept("read", text, tools=TOOLS)
    (block,) = in_messages("read", text)["content"]
    assert (block["name"], block["input"]) == ("read", {"path": "a", "content": content})


@pytest.mark.parametrize("reason", ["repetition", "abort_soon", "model_length", "max_tokens", "unknown"])
def test_an_unknown_finish_reason_counts_as_truncated(reason: str) -> None:
    """C4: it is kept, and nothing is completed. Messages says `max_tokens`, and the audit has the server's reason."""
    for text in ('{"path": "a", "content": "b', '{"path": "a", "content": "b"', '{"path": "a'):
        got = argued("write", text, finish=reason, tools=TOOLS)
        assert (got.arguments, got.finish, got.fixes) == ((text,), reason, ("cut",))
        said = in_messages("write", text, reason)
        assert said["stop_reason"] == "max_tokens"


@pytest.mark.parametrize(
    "reason", ["stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence", "end_turn"]
)
def test_natural_finishes_add_missing_closers_only(reason: str) -> None:
    got = argued("write", '{"path": "a", "content": "b"', finish=reason, tools=TOOLS)
    assert got.values == [("write", {"path": "a", "content": "b"})]
    assert got.finish == "tool_calls"
