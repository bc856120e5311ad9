"""Failures from the field: data between and around calls (F64 to F71), one test each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.client_view import (
    DONE,
    LS,
    ROLE,
    TOOLS,
    bytes_of,
    entry,
    is_untouched,
    of_bytes,
    relayed,
    streamed,
    whole,
    whole_is_untouched,
    wire,
)
from tests.support.helpers import bodies, call_json, calls, chunk, delta, ends, event_bytes, new_engine, piece, says
from tests.support.scripted import ROLE as FIRST
from tests.support.scripted import SSE, Act, Upstream, chat, chunked, stream, text

CALL = calls(piece(0, LS, "bash", "a"))
STRONG = f"<tool_call>\n{call_json('bash', command='ls')}\n</tool_call>"
OFFERED = [{"type": "function", "function": {"name": tool.name, "parameters": tool.schema}} for tool in TOOLS]
CHAT = "/v1/chat/completions"
PROSE = [
    "Use `<tool_call>` to call a tool.",
    "The model writes <tool_call> and then JSON; close it with </tool_call>.",
    "A <function=NAME> tag is what Qwen writes.",
    f"Like so:\n```xml\n{STRONG}\n```\nand no other way.",
    f"It printed `{STRONG}` and stopped.",
    '<tool_call>{"name": "nope", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "...", "arguments": {...}}</tool_call>',
    'The name is {"name": "bash"} in the file.',
]


def test_f64_chunks_are_empty() -> None:
    """Empty deltas, heartbeats and empty lists of calls would end a client's text part. Other chunks are kept."""
    nothing = [
        chunk(delta()),
        chunk(delta(content="")),
        chunk(delta(content=None, tool_calls=[])),
        chunk({**delta(), "tool_call_generating": True}),
        chunk(delta(tool_calls=None)),
    ]
    words = [says("One "), says("two.")]
    noisy = [each for word in words for each in (*nothing, word, *nothing)]
    assert bytes_of(*noisy, ends()) == bytes_of(*words, ends()) == wire([ROLE, *words, ends()])
    again = chunk(delta(role="assistant", content="One "))
    assert is_untouched(again, words[1], ends())
    got = streamed(*nothing, chunk(delta(content="a", tool_calls=[])), *nothing, CALL, *nothing, ends("tool_calls"))
    assert (got.text, got.calls, got.finish, got.fixes) == ("a", [("bash", LS)], "tool_calls", ("empty_calls",))
    sent = bytes_of(chunk(delta(content="a", tool_calls=[])), *nothing, ends())
    assert b"tool_calls" not in sent and b"generating" not in sent
    assert whole({"content": "a", "tool_calls": [], "function_call": None}).text == "a"


def test_f65_an_error_arrives_in_the_middle_of_a_stream() -> None:
    """The status is 200: the client receives its dialect's error after the text, and no successful end."""
    error = {"message": "CUDA out of memory", "type": "server_error", "param": None, "code": 500}
    for before in ([], [says("Hi.")], [calls(piece(0, LS[:9], "bash", "a"))], [says("<tool_call>")]):
        data = wire([ROLE, *before], done=False) + event_bytes({"error": error}) + DONE
        got = of_bytes(data)
        assert (got.error, got.finish) == ("UpstreamBroken", None)
        assert got.text == "".join(str(part) for part in ("Hi.", "<tool_call>") if says(part) in before)
    (given,) = [body for body in bodies(_all_of(data)) if "error" in body]
    assert given == {"error": error}


def _all_of(data: bytes) -> bytes:
    """Return a client's bytes for a stream received over HTTP."""
    with Upstream(stream(data, b"", ended=False)) as server:
        given: bytes = Inside()(server.url).post(CHAT, json=chat(tools=OFFERED)).data
    return given


def test_f66_the_bytes_arrive_in_any_framing() -> None:
    """UTF-8 and line ends cut in two, several `data:` lines, comments, and long lines give equal events."""
    for word, found in (("ï🙂 한국어 \u2028 end", []), (f"ï🙂\n{STRONG}", [("bash", {"command": "ls"})])):
        said = json.dumps(delta(content=word), ensure_ascii=False)
        raw = f'data: {{"id": "c1", "created": 7, "model": "m", "choices": [{said}]}}\n\n'
        framed = (
            raw,
            raw.replace("\n", "\r\n"),
            raw.replace("\n", "\r"),
            f": a comment\n{raw}",
            raw.replace("data: ", "data:"),
            raw.replace(', "choices"', ',\ndata: "choices"'),
            f"event: message\nid: 7\n{raw}",
        )
        for each in framed:
            data = ROLE.raw + each.encode() + ends().raw + DONE
            if not found:
                assert relayed(data, cuts=40) == data
                continue
            got = of_bytes(data, cuts=40)
            assert (got.text.strip(), got.values, got.finish) == ("ï🙂", found, "tool_calls")
    long = {"path": "a", "content": "x" * 200_000}
    got = streamed(calls(piece(0, json.dumps(long), "write_file", "a")), ends("tool_calls"))
    assert (got.values, got.fixes) == ([("write_file", long)], ())
    assert is_untouched(says("y" * 200_000), ends())


def test_f67_repeated_chunks_are_kept() -> None:
    """Repeated chunks are intended. No chunk is removed because it equals another."""
    words = [says("ha"), says("ha"), says("ha"), says("\n"), says("\n")]
    assert is_untouched(*words, ends())
    pieces = ['{"command": "', "ab", "ab", "ab", "ab", '"}']
    got = streamed(calls(piece(0, "", "bash", "a")), *(calls(piece(0, part)) for part in pieces), ends("tool_calls"))
    assert (got.values, got.fixes) == ([("bash", {"command": "abababab"})], ())
    thinks = [chunk(delta(reasoning="so ")) for _ in range(3)]
    assert streamed(*thinks, says("ok"), ends()).reasoning == "so so so "


@pytest.mark.parametrize("text", PROSE)
def test_f68_prose_mentions_the_markup(text: str) -> None:
    """It is not a call, is forwarded byte for byte, and does not wait for the end. A code span of several lines is only
    recognized when it closes, so its content is held and its chunks are cut.
    """
    held = f"`{STRONG}`" in text
    for size in (1, 7, 1000):
        parts = [says(text[at : at + size]) for at in range(0, len(text), size)]
        if held:
            got = streamed(*parts, says("\nNow go on."), ends())
            assert (got.text, got.values, got.fixes) == (f"{text}\nNow go on.", [], ())
        else:
            assert is_untouched(*parts, says("\nNow go on."), ends())
    assert whole_is_untouched({"content": f"{text}\nNow go on."}, "stop")
    engine = new_engine(TOOLS)
    for part in (text, "\nNow go on."):
        engine.feed(says(part))
    assert not engine.held


@pytest.mark.parametrize(
    "ending",
    [
        [Act.CLOSE],
        [Act.RST],
        [b"zz\r\nno chunk", Act.CLOSE],
        [chunked(text(" and"))[:-9], Act.CLOSE],
        [chunked(b'data: {"id": "c1", "choi'), Act.CLOSE],
        [chunked(b""), Act.CLOSE],
    ],
    ids=["closed", "reset", "no chunk", "half a chunk", "half an event", "ended early"],
)
@pytest.mark.parametrize("called", [True, False])
def test_f69_the_upstream_connection_breaks(inside: Inside, ending: list[Any], called: bool) -> None:
    """The received text is sent, then the error. There is no finish, because the reply is incomplete."""
    begun = calls(piece(0, LS[:14], "bash", "a")).raw if called else text("Hi.")
    with Upstream([SSE, chunked(FIRST), chunked(begun), *ending]) as server:
        given = inside(server.url).post(CHAT, json=chat(tools=OFFERED)).data
    said = bodies(given)
    assert said[-1] != "[DONE]" and said[-1]["error"]["type"] == "upstream_error"
    assert all(entry["finish_reason"] is None for body in said[:-1] for entry in body["choices"])
    assert (b"Hi." in given) is not called and (b'"bash"' in given) is called


def test_f70_the_call_is_in_the_reasoning() -> None:
    """The model never ended its reasoning. The call counts only if it ends a reply without other text."""
    thought = f"I should look.\n{STRONG}"
    for key in ("reasoning", "reasoning_content"):
        for size in (5, 1000):
            parts = [chunk(delta(0, None, **{key: thought[at : at + size]})) for at in range(0, len(thought), size)]
            got = streamed(*parts, ends())
            assert (got.values, got.reasoning, got.text) == ([("bash", {"command": "ls"})], thought, "")
            assert (got.finish, got.fixes) == ("tool_calls", ("text_call",))
        answered = whole({"content": None, key: thought})
        assert (answered.values, answered.finish) == ([("bash", {"command": "ls"})], "tool_calls")
    spoken = streamed(chunk(delta(reasoning=thought)), CALL, ends("tool_calls"))
    assert (spoken.ids, spoken.fixes) == (("a",), ())


@pytest.mark.parametrize(
    "thought", [*PROSE, f"I could write\n{STRONG}\nbut I will not.", call_json("bash", command="ls"), STRONG[:-30]]
)
def test_f71_prose_in_the_reasoning_is_not_a_call(thought: str) -> None:
    """It is quoted or incomplete, or it is followed by more reasoning or an answer."""
    thinks = chunk(delta(reasoning=thought))
    assert is_untouched(thinks, ends())
    assert is_untouched(thinks, says("The answer."), ends())
    assert whole_is_untouched({"content": "The answer.", "reasoning": thought}, "stop")
    for after in ("The answer.", "No."):
        got = streamed(chunk(delta(reasoning=f"{thought}\n{STRONG}")), says(after), ends())
        assert (got.calls, got.text, got.finish) == ([], after, "stop")
    assert whole({"content": "The answer.", "tool_calls": [entry("bash", LS)], "reasoning": STRONG}).ids == ("a",)
