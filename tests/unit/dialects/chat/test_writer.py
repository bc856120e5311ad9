"""Chat Completions sent to the client: what is forwarded, rewritten, and stripped (C1, C5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions
from proxy.dialects.chat.writer import ChatWriter, error_body
from proxy.engine.events import (
    CallArguments,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
)
from proxy.errors import BadRequest, InternalError, UpstreamBroken, UpstreamRefused, refusal
from proxy.exchange.reply_stream import StreamReply
from tests.support.helpers import bodies, chunk, delta, ends, event_bytes, new_engine, says

COUNTS = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_tokens_details": None}
CLEAN = StripFields(
    top=("prompt_token_ids", "system_fingerprint"),
    choice=("stop_reason", "token_ids"),
    message=("refusal",),
    usage=("prompt_tokens_details",),
)


def writer(*, usage: bool = True, clean: StripFields | None = None, **given: Any) -> ChatWriter:
    options = ChatOptions(model="asked", usage=usage, clean=clean or StripFields(), **given)
    made = ChatWriter(options)
    # An earlier chunk has sent the role.
    made.write(Unchanged(b"", ()))
    return made


def written(event: Event, source: Chunk | None = None, **given: Any) -> list[Any]:
    """Return the chunks that are written for one event."""
    one = writer(**given)
    if source is not None:
        one.observe_chunk(source)
    return bodies(one.write(event))


def test_a_call_opens_in_one_chunk_with_its_first_arguments() -> None:
    """A1: a call that is completely known is one chunk."""
    one = writer()
    assert one.write(CallOpened(0, 1, "a", "bash")) == b""
    (body,) = bodies(one.write(CallArguments(0, 1, "{}")))
    function = {"name": "bash", "arguments": "{}"}
    (call,) = body["choices"][0]["delta"]["tool_calls"]
    assert call == {"index": 1, "id": "a", "type": "function", "function": function}
    (body,) = bodies(one.write(CallArguments(0, 1, " ")))
    assert body["choices"][0]["delta"]["tool_calls"] == [{"index": 1, "function": {"arguments": " "}}]


def test_a_finish_is_the_upstream_chunk_with_the_correct_reason() -> None:
    """C4: the chunk keeps its other fields but not text that was already sent."""
    source = chunk(
        {**delta(0, "stop", content="a"), "stop_reason": 7},
        usage=COUNTS,
        prompt_token_ids=None,
    )
    (body,) = written(Finished(0, "tool_calls", source))
    finished = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "tool_calls"}
    assert body["choices"] == [{**finished, "stop_reason": 7}]
    assert body["usage"] == COUNTS
    (body,) = written(Finished(0, "tool_calls", source), clean=CLEAN)
    assert body["choices"] == [finished]
    assert "prompt_token_ids" not in body
    assert "prompt_tokens_details" not in body["usage"]


ERRORS: list[tuple[Any, dict[str, Any]]] = [
    (UpstreamBroken("broke"), {"message": "broke", "type": "upstream_error", "param": None, "code": 502}),
    (BadRequest("no"), {"message": "no", "type": "invalid_request_error", "param": None, "code": 400}),
    (InternalError("oh"), {"message": "oh", "type": "server_error", "param": None, "code": 500}),
    (
        refusal({"message": "m", "type": "server_error", "code": 500}),
        {"message": "m", "type": "server_error", "param": None, "code": 500},
    ),
]


@pytest.mark.parametrize(("error", "fields"), ERRORS)
def test_an_error_has_the_fields_that_sdks_expect(error: Any, fields: dict[str, Any]) -> None:
    """F65."""
    assert json.loads(error_body(error)) == {"error": fields}
    assert bodies(writer().error(error)) == [{"error": fields}]
    assert bodies(writer().write(Failed(error))) == [{"error": fields}]


def test_an_error_with_a_multi_line_body_is_one_event() -> None:
    """A strict client reads the lines of a pretty-printed body as one event."""
    body = b'{\n  "error": {"message": "no"}\n}'
    event = writer().error(UpstreamRefused("no", status=400, body=body))
    lines = [line.removeprefix(b"data: ") for line in event.strip().split(b"\n")]
    assert json.loads(b"\n".join(lines)) == json.loads(body)


def passed_body(raw: bytes, **given: Any) -> Any:
    (body,) = bodies(writer(**given).write(Unchanged(raw, (Text(0, "a"),))))
    return body


def test_fields_that_the_client_does_not_expect_are_removed() -> None:
    raw = event_bytes(
        {
            "id": "c1",
            "prompt_token_ids": None,
            "choices": [{"index": 0, "delta": {"content": "a", "refusal": None}, "stop_reason": None}],
            "usage": {"total_tokens": 3, "prompt_tokens_details": {}},
        }
    )
    assert passed_body(raw, clean=CLEAN) == {
        "id": "c1",
        "choices": [{"index": 0, "delta": {"content": "a"}}],
        "usage": {"total_tokens": 3},
    }


def test_an_event_without_fields_to_remove_is_unchanged() -> None:
    """C1: an unchanged body is never serialized again."""
    raw = b'data:  {"id" : "c1", "choices":[{"delta":{"content":"\\u0061"}}]}\r\n\r\n'
    assert writer(clean=CLEAN).write(Unchanged(raw, ())) == raw


@pytest.mark.parametrize("written_as", ['"tool_calls": []', '"tool_calls":[]', '"tool_calls" : [ ]'])
def test_empty_tool_call_lists_are_removed_if_tools_are_offered(written_as: str) -> None:
    """F64."""
    raw = ('data: {"choices": [{"index": 0, "delta": {"content": "a", ' + written_as + "}}]}\n\n").encode()
    assert passed_body(raw, parsed=True)["choices"][0]["delta"] == {"content": "a"}
    assert writer().write(Unchanged(raw, (Text(0, "a"),))) == raw
    assert passed_body(raw, clean=CLEAN)["choices"][0]["delta"] == {"content": "a"}


NAMES: dict[str, tuple[str, ...]] = {
    "reasoning": ("reasoning",),
    "reasoning_content": ("reasoning_content",),
    "both": ("reasoning", "reasoning_content"),
}


@pytest.mark.parametrize("wanted", NAMES)
def test_reasoning_in_both_fields_is_sent_once_in_each_wanted_field(wanted: Any) -> None:
    raw = chunk(delta(reasoning="so", reasoning_content="so", content="a")).raw
    said = {**dict.fromkeys(NAMES[wanted], "so"), "content": "a"}
    assert passed_body(raw, reasoning=wanted)["choices"][0]["delta"] == said
    if wanted == "both":
        assert writer(reasoning="both").write(Unchanged(raw, ())) == raw


@pytest.mark.parametrize(
    "raw",
    [
        says("a").raw,
        says('{"reasoning": "so"}').raw,
        chunk(delta(content="a", reasoning=None, reasoning_content="")).raw,
        chunk(usage={"completion_tokens_details": {"reasoning_tokens": 4, "reasoning": "x"}}).raw,
        b'data: {"reasoning": "x"\n\n',
    ],
)
@pytest.mark.parametrize("wanted", NAMES)
def test_an_event_without_reasoning_is_forwarded_unchanged(raw: bytes, wanted: Any) -> None:
    """C1."""
    assert writer(reasoning=wanted).write(Unchanged(raw, (Text(0, "a"),))) == raw


def test_stripped_reasoning_is_removed_from_both_fields() -> None:
    clean = StripFields(message=("reasoning", "reasoning_content"))
    raw = chunk(delta(reasoning="so", content="a")).raw
    assert passed_body(raw, reasoning="both", clean=clean)["choices"][0]["delta"] == {"content": "a"}
    assert written(Reasoning(0, "so"), reasoning="both", clean=clean) == []
    one = StripFields(message=("reasoning",))
    (body,) = written(Reasoning(0, "so"), reasoning="both", clean=one)
    assert body["choices"][0]["delta"] == {"reasoning_content": "so"}


THOUGHT, PROSE = delta(reasoning="Hm."), delta(content="box>.")


def replied(data: bytes, step: int) -> bytes:
    """Return the reply to a request with tools whose bytes arrive in pieces of `step`."""
    options = ChatOptions("m", usage=True, clean=StripFields(), parsed=True)
    reply = StreamReply(new_engine(), ChatWriter(options), lambda error: pytest.fail(repr(error)))
    parts = [reply.receive(data[at : at + step]) for at in range(0, len(data), step)]
    assert reply.failure is None
    return b"".join(parts) + reply.finish()


def deltas_of(data: bytes, step: int) -> list[Any]:
    """Return the deltas of the first choice."""
    return [body["choices"][0]["delta"] for body in bodies(replied(data, step)) if body != "[DONE]"]


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize("first", ["<tool", "{", "<", "Well <tool"])
@pytest.mark.parametrize("role", ["assistant", "model"])
def test_only_the_first_sent_chunk_has_the_servers_role(step: int, first: str, role: str) -> None:
    """C5: also if reasoning overtakes held text."""
    received = [chunk(delta(role=role, content=first)), chunk(THOUGHT), chunk(THOUGHT), chunk(PROSE), ends()]
    sent = deltas_of(b"".join(each.raw for each in received) + b"data: [DONE]\n\n", step)
    assert [said.get("role") for said in sent] == [role] + [None] * (len(sent) - 1)
    assert "".join(said.get("content") or "" for said in sent) == f"{first}box>."
    assert "".join(said.get("reasoning") or "" for said in sent) == "Hm.Hm."


def test_a_role_in_every_chunk_of_the_server_is_kept() -> None:
    """C1."""
    received = [chunk(delta(role="assistant", content=word)) for word in ("So ", "it ", "is.")]
    data = b"".join(each.raw for each in (*received, ends())) + b"data: [DONE]\n\n"
    assert replied(data, 7) == data


def test_each_choice_has_its_role_once() -> None:
    received = [
        *(chunk(delta(number, role="assistant", content="<tool")) for number in (0, 1)),
        *(chunk(delta(number, reasoning="Hm.")) for number in (1, 0)),
        *(chunk(delta(number, content="box>.")) for number in (0, 1)),
        *(ends(), ends(choice=1)),
    ]
    data = replied(b"".join(each.raw for each in received) + b"data: [DONE]\n\n", 10_000)
    for number in (0, 1):
        entries = [entry for body in bodies(data) if body != "[DONE]" for entry in body["choices"]]
        said = [entry["delta"] for entry in entries if entry["index"] == number]
        assert [each.get("role") for each in said] == ["assistant"] + [None] * (len(said) - 1)


def test_an_event_that_is_not_json_is_forwarded_unchanged() -> None:
    """U15: the proxy does not fail on events that it cannot parse."""
    raw = b"data: not JSON\n\n"
    assert writer(clean=CLEAN).write(Unchanged(raw, ())) == raw
