"""Upstream faults for a Messages client: a real status or an error event, never a false success (F93, F95, C4, C6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.messages.writer import MessagesWriter
from proxy.engine.events import Event
from tests.conftest import Inside
from tests.support.messages_checker import check_error, check_stream
from tests.support.messages_client import MESSAGES, MODELS, TOOL, ask, call, cards, message, reply, said, serving
from tests.support.scripted import DONE, ROLE, answer, delta, event, stream, text, text_reply

MODES = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])

SERVER = 'models:\n  - {match: "*", parse: server}\n'


def vllm(message_: str, status: int = 400, kind: str = "BadRequestError") -> bytes:
    return answer({"error": {"message": message_, "type": kind, "param": None, "code": status}}, status)


def error_event(message_: str = "engine died", status: int = 500) -> bytes:
    return event({"error": {"message": message_, "type": "InternalServerError", "param": None, "code": status}})


def events(data: bytes) -> list[Any]:
    return [json.loads(block.partition(b"data: ")[2]) for block in data.split(b"\n\n") if block]


def broken(data: bytes) -> tuple[dict[str, Any], str, str]:
    """Return error, text and arguments of a stream that ends in an error without any sign of success."""
    made = check_stream(data)
    assert made["type"] == "error" and b"message_stop" not in data and b"message_delta" not in data
    assert b"[DONE]" not in data
    deltas = [each["delta"] for each in events(data) if each["type"] == "content_block_delta"]
    error: dict[str, Any] = made["error"]
    return error, *("".join(each.get(name, "") for each in deltas) for name in ("text", "partial_json"))  # type: ignore[return-value]


@pytest.mark.parametrize("status", [503, 529])
def test_an_error_event_of_a_busy_server_is_an_overload_error(inside: Inside, status: int) -> None:
    for before, told in (([], 529), ([ROLE, text("a")], 200)):
        with serving(stream(*before, error_event("busy", status), DONE)) as server:
            response = inside(server.url).post(MESSAGES, json=ask())
        assert response.status_code == told
        made = check_error(response.data, 529) if told == 529 else check_stream(response.data)
        assert made["error"] == {"type": "overloaded_error", "message": "busy"}


def test_an_error_after_only_whitespace_is_a_status(inside: Inside) -> None:
    """Whitespace opens no block, so the client has received nothing yet."""
    with serving(stream(ROLE, text("\n\n"), error_event("no", 400), DONE)) as server:
        response = inside(server.url).post(MESSAGES, json=ask())
    assert response.status_code == 400, response.data
    check_error(response.data, 400)


@pytest.mark.parametrize("name", ["reasoning", "content"])
def test_interrupted_thinking_is_signed_and_closed_before_the_error(inside: Inside, name: str) -> None:
    said_ = "<think>hm" if name == "content" else "hm"
    with serving(stream(ROLE, delta({name: said_}), error_event(), DONE)) as server:
        data = inside(server.url).post(MESSAGES, json=ask()).data
    broken(data)
    kinds = [each["type"] for each in events(data)][-3:]
    assert kinds == ["content_block_delta", "content_block_stop", "error"] and b"signature_delta" in data


LEFT = (
    "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens "
    "and your request has 100 input tokens (32000 > 8192 - 100)."
)
LEAST = (
    "This model's maximum context length is 8192 tokens. However, you requested 32000 output tokens and your prompt "
    "contains at least 100 input tokens, for a total of at least 32100 tokens. Please reduce the length of the input "
    "prompt or the number of requested output tokens."
)
FULL = "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens."
TOO_LONG = "prompt is too long: 9000 tokens > 8192 maximum"


LLAMA = {"code": 400, "message": "the request exceeds the available context size, try increasing it"}
OVER: list[bytes] = [
    vllm(FULL),
    answer({"error": {**LLAMA, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}}, 400),
]


@pytest.mark.parametrize("refusal", OVER, ids=["vllm", "llama-server"])
@MODES
def test_a_prompt_that_is_too_long_gets_anthropics_message(inside: Inside, refusal: bytes, streamed: bool) -> None:
    """F95: this message makes Claude Code compact the conversation."""
    for first in ([], [[vllm(LEAST)]]):
        with serving(*first, [refusal]) as server:
            response = inside(server.url).post(MESSAGES, json=ask(max_tokens=32000, stream=streamed))
            assert len(server.seen) == len(first) + 1
        assert response.status_code == 400
        assert check_error(response.data, 400)["error"] == {"type": "invalid_request_error", "message": TOO_LONG}


@pytest.mark.parametrize(("words", "prompt"), [(LEAST, 100), (LEFT, 100)], ids=["at least", "exactly"])
@MODES
def test_without_a_second_try_the_error_has_the_sizes(inside: Inside, words: str, prompt: int, streamed: bool) -> None:
    with serving([vllm(words)]) as server:
        response = inside(server.url, SERVER).post(MESSAGES, json=ask(max_tokens=32000, stream=streamed))
        assert len(server.seen) == 1
    assert check_error(response.data, 400)["error"]["message"] == (
        f"input length and `max_tokens` exceed context limit: {prompt} + 32000 > 8192, "
        "decrease input length or `max_tokens` and try again"
    )
    assert response.status_code == 400


def test_a_writer_defect_is_an_error_event(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take = MessagesWriter.take

    def broken_take(self: MessagesWriter, each: Event) -> Any:
        if "you" in str(each):
            raise KeyError("a secret")
        return take(self, each)

    monkeypatch.setattr(MessagesWriter, "take", broken_take)
    with serving() as server:
        gate = server.gate()
        server.play(text_reply("Hi ", gate, "you"))
        server.paths[MODELS] = cards("tiny")
        with inside(server.url).post(MESSAGES, json=ask(tools=[TOOL]), buffered=False) as response:
            parts = response.iter_encoded()
            data = next(parts)
            gate.open()
            data += b"".join(parts)
    assert broken(data)[1] == "Hi " and b"secret" not in data and "KeyError" in caplog.text


@pytest.mark.parametrize("half", ['{"path": "a', '{"path": "a"} x', '{"path": "a"}{"path": "a"}'])
@MODES
def test_a_broken_call_without_tools_never_looks_complete(inside: Inside, half: str, streamed: bool) -> None:
    """C4: the SDKs would parse a truncated object as a complete one."""
    with serving(reply(streamed, "", call("call_1", half), end="tool_calls")) as server:
        response = inside(server.url).post(MESSAGES, json=ask(tools=[], stream=streamed))
    if streamed:
        broken(response.data)
    elif response.status_code == 200:
        made = message(response)
        assert "tool_use" not in [kind for kind, _ in said(made)] and made["stop_reason"] == "end_turn"
    else:
        check_error(response.data, 502)


@pytest.mark.parametrize("end", ["tool_calls", "length"])
@MODES
def test_empty_arguments_without_tools(inside: Inside, end: str, streamed: bool) -> None:
    """After a natural end, empty arguments become `{}`. A truncated call is not completed."""
    with serving(reply(streamed, "", call("call_1", ""), end=end)) as server:
        made = message(inside(server.url).post(MESSAGES, json=ask(stream=streamed)))
    if end == "tool_calls":
        assert said(made) == [("tool_use", {})] and made["stop_reason"] == "tool_use"
    else:
        assert made["stop_reason"] == "max_tokens" and (streamed or "tool_use" not in dict(said(made)))
