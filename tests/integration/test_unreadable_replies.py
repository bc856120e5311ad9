"""Replies with invalid JSON or unexpected values: parsed completely, or ended with the API's error.

An incomplete reply that looks complete is the worst result: an agent writes `AAACCC` to a file although the model sent
`AAABBBCCC`, and the loss goes unnoticed (contracts C4 and C5).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import orjson
import pytest

from tests.conftest import Front, Inside
from tests.faults.bench import MODELS
from tests.support.dialects import DIALECTS, Dialect, Told, events
from tests.support.each_case import each_case
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    Act,
    Action,
    Client,
    Script,
    Upstream,
    answer,
    arguments,
    chunked,
    completion,
    delta,
    event,
    finish,
    opened,
    stream,
    text,
    whole_reply,
)

EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
DIGITS = b"7" * 5_000


def _thought(said: str) -> bytes:
    return delta({"reasoning_content": said})


def _fragment(said: str) -> bytes:
    return arguments(0, said)


# A field of a reply: the events before it, an event with its text, the events after it, and the surrounding text.
OPEN = '{"path": "x", "content": "'
HERMES = '<tool_call>\n{"name": "write_file", "arguments": ' + OPEN
Place = tuple[list[bytes], Callable[[str], bytes], list[bytes], tuple[str, str]]
PLACES: Mapping[str, Place] = {
    "text": ([ROLE], text, [finish()], ("", "")),
    "reasoning": ([ROLE], _thought, [text("So."), finish()], ("", "")),
    "arguments": (
        [ROLE, opened(0, "a", "write_file"), arguments(0, OPEN)],
        _fragment,
        [arguments(0, '"}'), finish("tool_calls")],
        (OPEN, '"}'),
    ),
    "a call in the text": ([ROLE, text(HERMES)], text, [text('"}}\n</tool_call>'), finish()], (OPEN, '"}')),
}


def _view(place: str, told: Told, data: bytes) -> str:
    """Return a client's view of this field of a stream."""
    if place == "text" or (place == "a call in the text" and told.error):
        return told.text
    if place != "reasoning":
        return told.calls[0][1] if told.calls else ""
    return "".join(_thoughts(data))


def _thoughts(data: bytes) -> Iterator[str]:
    for said in events(data):
        body = {} if said == "[DONE]" else json.loads(said)
        for choice in body.get("choices") or ():
            yield choice["delta"].get("reasoning_content") or ""
        if body.get("type") == "content_block_delta":
            yield body["delta"].get("thinking", "")
        elif body.get("type") == "response.reasoning_text.delta":
            yield body["delta"]


def _in_text(written: bytes) -> Callable[[bytes], bytes]:
    return lambda event: event.replace(b"BBB", b"B" + written + b"B")


def _as_logprobs(written: bytes) -> Callable[[bytes], bytes]:
    return lambda event: event.replace(b'"logprobs": null', b'"logprobs": {"content": [' + written + b"]}")


# The change to the event that contains BBB, and its text after parsing.
READ: Mapping[str, tuple[Callable[[bytes], bytes], str]] = {
    "NaN": (_as_logprobs(b"NaN"), "BBB"),
    "-Infinity": (_as_logprobs(b'{"logprob": -Infinity}'), "BBB"),
    "5,000 digits": (_as_logprobs(DIGITS), "BBB"),
    "an index of 5,000 digits": (lambda event: event.replace(b'"created": 1', b'"created": ' + DIGITS), "BBB"),
    "beyond the float range": (_as_logprobs(b"1e999"), "BBB"),
    "a tab": (_in_text(b"\t"), "B\tB"),
    "a control character": (_in_text(b"\x01"), "B\x01B"),
    "a NUL": (_in_text(b"\x00"), "B\x00B"),
    "a line end": (_in_text(b"\ndata: "), "B\nB"),
    "invalid UTF-8": (_in_text(b"\xff"), "B\ufffdB"),
    "a byte order mark": (lambda event: event.replace(b"data: ", b"data: \xef\xbb\xbf"), "BBB"),
    "a duplicate key": (lambda event: event.replace(b'"delta"', b'"delta": {"content": "no"}, "delta"'), "BBB"),
}


def _send(inside: Inside, dialect: Dialect, script: Script, *, streamed: bool, tools: bool) -> Any:
    with Upstream(script) as up:
        up.paths["/v1/models"] = [MODELS]
        response = inside(up.url).post(dialect.path, json=dialect.ask(streamed=streamed, tools=tools))
        assert len(up.seen) == 1
        return response


@pytest.mark.slow
@each_case("dialect,place,tools,fault", product(DIALECTS, PLACES, (True, False), READ), ids=str)
def test_lenient_json_is_read(inside: Inside, *, dialect: str, place: str, tools: bool, fault: str) -> None:
    """Nothing is dropped, and every client can parse the result: `null`, and escapes."""
    before, says, after, (_, behind) = PLACES[place]
    change, said = READ[fault]
    if behind and not tools:
        return  # a call to a tool that was not offered is not repaired; its arguments are text
    parts = [*[says("AAA")] * 4, change(says("BBB")), *[says("CCC")] * 4]
    data = _send(inside, DIALECTS[dialect], stream(*before, *parts, *after, DONE), streamed=True, tools=tools).data
    for given in events(data):
        assert given == "[DONE]" or orjson.loads(given)
    told = DIALECTS[dialect].stream(data)
    assert told.finish and not told.odd
    whole = f"{'AAA' * 4}{said}{'CCC' * 4}"
    got = _view(place, told, data)
    if behind:
        assert json.loads(got) == {"path": "x", "content": whole}
    else:
        assert got == whole


PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "BBB"}]
UNREADABLE: Mapping[str, bytes] = {
    "plain text": b"data: oops\n\n",
    "a truncated event": b'data: {"choices": [\n\n',
    "deeply nested": b"data: " + b"[" * 50_000 + b"\n\n",
    "a line end in a string": b'data: {"choices": [{"index": 0, "delta": {"content": "B\nB"}}]}\n\n',
    "a string": b'data: "BBB"\n\n',
    "a list": event([{"choices": [{"index": 0, "delta": {"content": "BBB"}}]}]),
    "choices: an object": event({"choices": {"0": {"delta": {"content": "BBB"}}}}),
    "choices: a string": event({"choices": "BBB"}),
    "choices: true": event({"choices": True}),
    "a choice: a string": event({"choices": ["BBB"]}),
    "no choices": event({"message": {"role": "assistant", "content": "BBB"}, "done": False}),
    "no choices, content": event({"content": "BBB", "stop": False}),
    "delta: a string": event({"choices": [{"index": 0, "delta": "BBB"}]}),
    "content: an object": delta({"content": {"text": "BBB"}}),
    "content: nothing in an object": delta({"content": {}}),
    "content: a number": delta({"content": 7}),
    "content: false": delta({"content": False}),
    "content: a part with an object as text": delta({"content": [{"type": "text", "text": {"value": "BBB"}}]}),
    "content: a part of unknown type": delta({"content": [{"type": "foo", "content": "BBB"}]}),
    "content: a part of unknown type, nested": delta({"content": [{"type": "foo", "parts": [{"text": "BBB"}]}]}),
    "text: an object": event({"choices": [{"index": 0, "text": {"value": "BBB"}}]}),
    "reasoning: an object": delta({"reasoning": {"text": "BBB"}}),
    "tool_calls: an object": delta({"tool_calls": {"index": 0, "function": {"arguments": "BBB"}}}),
    "tool_calls: strings": delta({"tool_calls": ["BBB"]}),
    "function: a string": delta({"tool_calls": [{"index": 0, "function": "BBB"}]}),
    "function_call: a string": delta({"function_call": "BBB"}),
    "finish_reason: an object": event({"choices": [{"index": 0, "delta": {}, "finish_reason": {"type": "length"}}]}),
}


@pytest.mark.slow
@each_case("dialect,place,tools,fault", product(DIALECTS, PLACES, (True, False), UNREADABLE), ids=str)
def test_an_unreadable_event_is_an_error(inside: Inside, *, dialect: str, place: str, tools: bool, fault: str) -> None:
    """Earlier text has been sent, later text never is, and the request is not retried."""
    before, says, after, (around, _) = PLACES[place]
    parts = [*[says("AAA")] * 4, UNREADABLE[fault], *[says("CCC")] * 4]
    response = _send(inside, DIALECTS[dialect], stream(*before, *parts, *after, DONE), streamed=True, tools=tools)
    told = DIALECTS[dialect].stream(response.data)
    assert told.failed and not told.whole_calls
    held = HERMES if place == "a call in the text" else around
    assert _view(place, told, response.data) == f"{held}{'AAA' * 4}"


@EACH
@pytest.mark.parametrize("fault", UNREADABLE)
def test_a_reply_that_starts_with_an_unreadable_event_is_a_502(inside: Inside, dialect: Dialect, fault: str) -> None:
    script = stream(ROLE, UNREADABLE[fault], text("CCC"), finish(), DONE)
    response = _send(inside, dialect, script, streamed=True, tools=True)
    assert response.status_code == 502
    assert dialect.error(response.data, 502).failed


PASS = {
    "an empty event": b"data:\n\n",
    "blanks": b"data:  \n\n",
    "null": b"data: null\n\n",
    "an empty object": b"data: {}\n\n",
    "no choices": event({"object": "ping", "choices": None}),
    "an empty list": event({"choices": [], "prompt_progress": {"total": 7}}),
    "choices: NaN": b'data: {"choices": NaN}\n\n',
    "empty values of another type": event({"choices": [{"index": 0, "delta": {"reasoning": {}, "tool_calls": {}}}]}),
}


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("fault", PASS)
def test_empty_events_are_ignored(inside: Inside, dialect: Dialect, tools: bool, fault: str) -> None:
    script = stream(ROLE, text("AAA"), PASS[fault], text("CCC"), finish(), DONE)
    told = dialect.stream(_send(inside, dialect, script, streamed=True, tools=tools).data)
    assert (told.text, told.finish) == ("AAACCC", "stop")


CALL = {
    "id": "a",
    "type": "function",
    "function": {"name": "write_file", "arguments": '{"path": "x", "content": "BBB"}'},
}
WHOLE_PLACES: Mapping[str, Mapping[str, Any]] = {
    "text": {"role": "assistant", "content": "BBB"},
    "reasoning": {"role": "assistant", "content": "So.", "reasoning_content": "BBB"},
    "arguments": {"role": "assistant", "content": None, "tool_calls": [CALL]},
}


@pytest.mark.slow
@each_case(
    "dialect,place,streamed,tools,fault",
    product(DIALECTS, WHOLE_PLACES, (True, False), (True, False), [name for name in READ if name != "a line end"]),
    ids=str,
)
def test_lenient_whole_answers_are_read(
    inside: Inside, *, dialect: str, place: str, streamed: bool, tools: bool, fault: str
) -> None:
    change, said = READ[fault]
    if place == "arguments" and said != "BBB" and not tools:
        return  # the arguments are not repaired
    message = WHOLE_PLACES[place]
    body = change(
        b"data: " + json.dumps(completion(message, "tool_calls" if place == "arguments" else "stop")).encode()
    )
    script = [answer(body.removeprefix(b"data: "))]
    response = _send(inside, DIALECTS[dialect], script, streamed=streamed, tools=tools)
    assert response.status_code == 200
    if not streamed:
        assert orjson.loads(response.data)
    told = DIALECTS[dialect].stream(response.data) if streamed else DIALECTS[dialect].whole(response.data)
    if place == "text":
        assert told.text == said
    elif place == "reasoning":
        assert told.text == "So." and json.dumps(said)[1:-1].encode() in ascii_only(response.data)
    else:
        assert told.whole_calls == [("write_file", {"path": "x", "content": said})]


def ascii_only(data: bytes) -> bytes:
    return data.decode().encode("ascii", "backslashreplace")


def _message(said: Any, **choice: Any) -> dict[str, Any]:
    return {**completion(said)["choices"][0], **choice}


def _completions(said: str, reason: str | None = None, **choice: Any) -> dict[str, Any]:
    """Return a choice in the format of `/v1/completions`."""
    return {"index": 0, "text": said, "finish_reason": reason, **choice}


def _chunks(*choices: dict[str, Any]) -> Script:
    return stream(*(event({"choices": [choice]}) for choice in choices), DONE)


THOUGHT = {**WHOLE_PLACES["text"], "reasoning": "Hm."}
REFUSAL = {"role": "assistant", "thinking": "Hm.", "content": [{"type": "refusal", "refusal": "BBB"}]}
# Unusual forms of a reply, each with the client's text and whether it has reasoning.
FORMS: Mapping[str, tuple[Script, bool, str, bool]] = {
    "content parts": (
        stream(delta({"role": "assistant", "content": [*PARTS, "CCC"]}), finish(), DONE),
        True,
        "BBBCCC",
        True,
    ),
    "content parts, whole": (whole_reply({"role": "assistant", "content": [*PARTS, "CCC"]}), False, "BBBCCC", True),
    "thinking, a refusal": (stream(delta(REFUSAL), finish(), DONE), True, "BBB", True),
    "thinking, a refusal, whole": (whole_reply(REFUSAL), False, "BBB", True),
    "a whole answer": (stream(ROLE, event(completion("BBB")), DONE), True, "BBB", False),
    "a whole answer with reasoning": (stream(ROLE, event(completion(THOUGHT)), DONE), True, "BBB", True),
    "a whole message after its text": (stream(ROLE, text("BBB"), event(completion("BBB")), DONE), True, "BBB", False),
    "a whole message next to a role": (_chunks(_message("BBB", delta={"role": "assistant"})), True, "BBB", False),
    "next to empty fields": (_chunks(_message("BBB", delta={"content": "", "tool_calls": []})), True, "BBB", False),
    "after its reasoning": (
        stream(_thought("Hm."), event({"choices": [_message(THOUGHT, delta={})]}), DONE),
        True,
        "BBB",
        True,
    ),
    "next to a delta, after its text": (
        stream(text("BBB"), event({"choices": [_message("BBB", delta={})]}), DONE),
        True,
        "BBB",
        False,
    ),
    "completions": (_chunks(_completions("BB"), _completions("B"), _completions("", "stop")), True, "BBB", False),
    "completions, whole": ([answer({"id": "c", "choices": [_completions("BBB", "stop")]})], False, "BBB", False),
    # Together AI sends both.
    "completions next to a delta": (
        _chunks(
            *(_completions(said, delta={"content": said}) for said in ("BB", "B")), _completions("", "stop", delta={})
        ),
        True,
        "BBB",
        False,
    ),
}
# A chat client gets these forms unchanged.
UNCHANGED = [name for name in FORMS if "parts" in name or "thinking" in name] + ["a whole message after its text"]


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("form", FORMS)
def test_unusual_forms_are_read_once(inside: Inside, dialect: Dialect, tools: bool, form: str) -> None:
    script, streamed, said, thinks = FORMS[form]
    data = _send(inside, dialect, script, streamed=streamed, tools=tools).data
    if dialect.name == "chat" and form in UNCHANGED:
        assert b"BBB" in data and (b"Hm." in data) is thinks
        return
    told = dialect.stream(data) if streamed else dialect.whole(data)
    assert (told.text, told.finish) == (said, "stop")
    assert data.count(b"Hm.") == thinks if dialect.name == "chat" else told.thoughts is thinks


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
def test_a_whole_call_in_one_event_is_read(inside: Inside, dialect: Dialect, tools: bool) -> None:
    script = stream(ROLE, event(completion(WHOLE_PLACES["arguments"], "tool_calls")), DONE)
    told = dialect.stream(_send(inside, dialect, script, streamed=True, tools=tools).data)
    assert (told.finish, told.whole_calls) == ("calls", [("write_file", {"path": "x", "content": "BBB"})])


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("together", [True, False], ids=["one event", "two events"])
def test_each_choice_may_be_one_whole_message(inside: Inside, tools: bool, together: bool) -> None:
    choices = [{**completion(said)["choices"][0], "index": at} for at, said in enumerate(("AAA", "BBB"))]
    groups = [choices] if together else [[choice] for choice in choices]
    parts = [event({"object": "chat.completion", "choices": group}) for group in groups]
    with Upstream(stream(*parts, DONE)) as up:
        up.paths["/v1/models"] = [MODELS]
        ask = DIALECTS["chat"].ask(streamed=True, tools=tools, n=2)
        data = inside(up.url).post("/v1/chat/completions", json=ask).data
    texts = {0: "", 1: ""}
    for given in events(data):
        if given == "[DONE]":
            break
        body = json.loads(given)
        assert body["object"] == "chat.completion.chunk"
        for choice in body["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == {0: "AAA", 1: "BBB"}


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
def test_second_message_with_other_text_is_an_error(inside: Inside, dialect: Dialect, tools: bool) -> None:
    """The messages may be pieces of one text or the whole text so far."""
    parts = [event({"choices": [{"index": 0, "message": {"content": said}, "finish_reason": None}]}) for said in "ab"]
    response = _send(inside, dialect, stream(*parts, finish(), DONE), streamed=True, tools=tools)
    assert dialect.stream(response.data).failed


def _whole(message: Any = None, **choice: Any) -> bytes:
    return answer({"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "message": message, **choice}]})


WHOLE_UNREADABLE: Mapping[str, bytes] = {
    "plain text": answer(b"oops"),
    "a string": answer("BBB"),
    "a list": answer([completion("BBB")]),
    "choices: an object": answer({"choices": {"0": {"message": {"content": "BBB"}}}}),
    "a choice: a string": answer({"choices": [*completion("AAA")["choices"], "BBB"]}),
    "message: a string": _whole("BBB"),
    "content: an object": _whole({"content": {"text": "BBB"}}),
    "content: nothing in an object": _whole({"content": {}}),
    "content: a number": _whole({"content": 7}),
    "content: a part of unknown type": _whole({"content": [{"type": "foo", "content": "BBB"}]}),
    "text: an object": _whole(text={"value": "BBB"}),
    "reasoning: an object": _whole({"content": "So.", "reasoning_content": {"text": "BBB"}}),
    "tool_calls: an object": _whole({"content": "So.", "tool_calls": CALL}),
    "tool_calls: strings": _whole({"content": "So.", "tool_calls": ["BBB"]}),
    "function: a string": _whole({"content": "So.", "tool_calls": [{"id": "a", "function": "BBB"}]}),
    "function_call: a string": _whole({"content": "So.", "function_call": "BBB"}),
    "finish_reason: an object": _whole({"content": "So."}, finish_reason={"type": "length"}),
}


@EACH
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("fault", WHOLE_UNREADABLE)
def test_an_unreadable_answer_is_a_502(
    inside: Inside, dialect: Dialect, streamed: bool, tools: bool, fault: str
) -> None:
    response = _send(inside, dialect, [WHOLE_UNREADABLE[fault]], streamed=streamed, tools=tools)
    assert response.status_code == 502
    assert dialect.error(response.data, 502).failed


def test_a_readable_event_is_unchanged(inside: Inside) -> None:
    """C1: an event is rewritten only if a strict client could not parse it."""
    parts = [ROLE, text("AAA"), _as_logprobs(b"1.50")(text("BBB")), text("\ud83d"), text("CCC"), finish(), DONE]
    given = _send(inside, DIALECTS["chat"], stream(*parts), streamed=True, tools=True).data
    assert given == b"".join(parts)


@EACH
@pytest.mark.parametrize("fault", ["plain text", "content: an object"])
def test_the_upstream_is_closed_and_reported_as_failed(front: Front, dialect: Dialect, fault: str) -> None:
    """It need not generate unused text, and the log and metrics do not report `ok`."""
    gate = front.upstream.gate()
    script: list[Action] = stream(ROLE, *[text("AAA ")] * 9, gate, UNREADABLE[fault], Act.EXPECT_CLOSE, ended=False)
    front.upstream.play(script)
    front.upstream.paths["/v1/models"] = [MODELS]
    broken = 'upstream_errors_total{kind="broken"}'
    counted = _count(front, broken)
    ask = dialect.ask(streamed=True, tools=True)
    with Client.post(front.proxy.port, ask, dialect.path) as client, client.answer() as response:
        data = response.read1()
        moment = time.monotonic()
        gate.open()
        data += response.read()
    told = dialect.stream(data)
    assert told.failed and told.text == "AAA " * 9
    assert front.upstream.seen[0].gone_after(moment)
    assert front.proxy.idle()
    logged = [line for line in front.proxy.log.read_text().splitlines() if f"path={dialect.path} " in line]
    assert "upstream=broken" in logged[-1] and "cannot be read" in logged[-1]
    assert _count(front, broken) == counted + 1


def _count(front: Front, name: str) -> float:
    lines = front.proxy.get("/metrics")[2].decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if name in line)


@EACH
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", READ)
def test_a_stream_on_the_fast_lane_is_parsed_too(front: Front, dialect: Dialect, place: str, fault: str) -> None:
    """One pattern match decides what passes. It never matches an event that must be rewritten."""
    before, says, after, (_, behind) = PLACES[place]
    change, said = READ[fault]
    gate = front.upstream.gate()
    parts = [change(says("BBB")), *[says("CCC")] * 4]
    script: list[Action] = stream(*before, *[says("AAA")] * 9, gate, ended=False)
    for part in parts:
        script += [0.01, chunked(part)]
    front.upstream.play([*script, *map(chunked, [*after, DONE]), LAST])
    front.upstream.paths["/v1/models"] = [MODELS]
    ask = dialect.ask(streamed=True, tools=True)
    with Client.post(front.proxy.port, ask, dialect.path) as client:
        gate.wait()
        gate.open()
        with client.answer() as response:
            data = response.read()
    for given in events(data):
        assert given == "[DONE]" or orjson.loads(given)
    got = _view(place, dialect.stream(data), data)
    whole = f"{'AAA' * 9}{said}{'CCC' * 4}"
    assert (json.loads(got)["content"] if behind else got) == whole


@EACH
@pytest.mark.parametrize("place", PLACES)
def test_a_character_split_over_two_events_is_joined(inside: Inside, dialect: Dialect, place: str) -> None:
    """A server that sends each token separately splits it into two escaped surrogates."""
    before, says, after, (_, behind) = PLACES[place]
    parts = [says("a"), says("b\ud83d"), says("\ude00c"), says("d"), says("\ud83d"), says("\ude00"), says("e")]
    data = _send(inside, dialect, stream(*before, *parts, *after, DONE), streamed=True, tools=True).data
    got = _view(place, dialect.stream(data), data)
    said = json.loads(got)["content"] if behind else got
    assert said.encode("utf-16", "surrogatepass").decode("utf-16") == "ab\U0001f600cd\U0001f600e"


@pytest.mark.parametrize("place", PLACES)
def test_half_a_character_without_its_other_half_is_not_lost(inside: Inside, place: str) -> None:
    before, says, after, (_, behind) = PLACES[place]
    dialect = DIALECTS["messages"]
    parts = [says("a\ud83d"), says("b\ud83d")]
    data = _send(inside, dialect, stream(*before, *parts, *after, DONE), streamed=True, tools=True).data
    got = _view(place, dialect.stream(data), data)
    assert (json.loads(got)["content"] if behind else got) == "a\ufffdb\ufffd"


def test_an_error_that_only_lenient_clients_can_parse_is_recognized(inside: Inside) -> None:
    body = b'{"error": {"message": "too\tlong", "type": "BadRequestError", "code": 400, "limit": NaN}}'
    response = _send(inside, DIALECTS["chat"], [answer(body, 400)], streamed=True, tools=True)
    assert response.status_code == 400
    assert orjson.loads(response.data)["error"] == {
        **{"message": "too\tlong", "type": "BadRequestError", "code": 400, "limit": None}
    }
