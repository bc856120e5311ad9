"""The nine defects of the OpenClaw proxy (earlier systems, A1), each as a regression test."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Inside
from tests.support.reply import Seen, events, read
from tests.support.rows import rows
from tests.support.scripted import (
    DONE,
    ROLE,
    USAGE,
    WRITE_FILE,
    Script,
    Upstream,
    answer,
    chat,
    completion,
    delta,
    event,
    finish,
    stream,
    text,
    text_reply,
    whole_reply,
)

CHAT = "/v1/chat/completions"
OPENCLAW = f"/for/openclaw{CHAT}"
ARGUMENTS = {"path": "a.txt", "content": "hi"}


def seen(data: bytes) -> Seen:
    return read("chat", 200, data).choice()


INNER = json.dumps({"name": "write_file", "arguments": ARGUMENTS}, indent=2)


@rows(__file__, "inner")
@pytest.mark.parametrize("streamed", [True, False])
def test_defect_4_every_spelling_inside_tools_is_a_call(inside: Inside, inner: str, streamed: bool) -> None:
    said = f"I will.\n<tools>\n{inner}\n</tools>"
    script = text_reply(*said) if streamed else whole_reply(said)
    with Upstream(script) as server:
        response = inside(server.url).post(OPENCLAW, json=chat(tools=[WRITE_FILE], stream=streamed))
    got = seen(response.data)
    assert (got.calls, got.finish) == ([("write_file", ARGUMENTS)], "tool_calls")


@pytest.mark.parametrize("streamed", [True, False])
@rows(__file__, "said")
def test_defect_5_json_with_a_name_is_a_call_only_if_it_was_offered(inside: Inside, said: str, streamed: bool) -> None:
    events = [ROLE, text(said), finish(), DONE]
    body = json.dumps(completion(said)).encode()
    with Upstream(stream(*events) if streamed else [answer(body)]) as server:
        response = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE], stream=streamed))
    got = seen(response.data)
    assert (got.text, got.calls, got.finish) == (said, [], "stop")
    assert streamed or response.data == body


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_defect_7_usage_is_sent_only_on_request(inside: Inside, asked: bool, whole: bool) -> None:
    """F61: in a server's stream, and in a stream that the proxy creates from a whole answer."""
    rules = f'models:\n  - {{match: "*", upstream: {"whole" if whole else "live"}}}\n'
    script = whole_reply("a") if whole else stream(ROLE, text("a"), finish(), USAGE, DONE)
    with Upstream(script) as server:
        request = chat(tools=[WRITE_FILE], **({"stream_options": {"include_usage": True}} if asked else {}))
        data = inside(server.url, rules).post(CHAT, json=request).data
    assert any(chunk.get("usage") for chunk in events(data)) is asked


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("whole", [True, False])
def test_defect_7_reasoning_is_kept_unless_the_client_removes_it(inside: Inside, key: str, whole: bool) -> None:
    rules = f'models:\n  - {{match: "*", upstream: {"whole" if whole else "live"}}}\n'
    script = (
        whole_reply({"role": "assistant", "content": "a", key: "hm"})
        if whole
        else stream(ROLE, delta({key: "hm"}), text("a"), finish(), DONE)
    )
    for path, kept in ((CHAT, True), (OPENCLAW, False)):
        with Upstream(script) as server:
            data = inside(server.url, rules).post(path, json=chat(tools=[WRITE_FILE])).data
        assert (seen(data).thinking, seen(data).text) == ("hm" if kept else "", "a")


@pytest.mark.parametrize("whole", [True, False])
def test_defect_7_several_choices_are_kept_apart(inside: Inside, whole: bool) -> None:
    """With `n` > 1, one choice is a call and the other is text."""
    call = f"<tools>\n{INNER}\n</tools>"
    envelope = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}

    def chunk(index: int, said: str | None, reason: str | None = None) -> bytes:
        return event({**envelope, "choices": [{"index": index, "delta": {"content": said}, "finish_reason": reason}]})

    if whole:
        choices = [
            {"index": at, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
            for at, said in enumerate((call, "talk"))
        ]
        script: Script = [answer({**completion(""), "choices": choices})]
    else:
        pairs = [chunk(0, call), chunk(1, "ta"), chunk(1, "lk"), chunk(1, "", "stop"), chunk(0, "", "stop")]
        script = stream(*pairs, DONE)
    rules = f'models:\n  - {{match: "*", upstream: {"whole" if whole else "live"}}}\n'
    with Upstream(script) as server:
        data = inside(server.url, rules).post(CHAT, json=chat(tools=[WRITE_FILE], n=2)).data
    one, other = (read("chat", 200, data).choice(number) for number in (0, 1))
    assert (one.text.strip(), len(one.calls), one.finish) == ("", 1, "tool_calls")
    assert (other.text, other.calls, other.finish) == ("talk", [], "stop")


def test_fields_that_openclaw_does_not_expect_are_removed_only_for_it(inside: Inside) -> None:
    """Users of the old proxy rely on this response cleaning."""
    body = completion("a", kv_transfer_params=None, service_tier="x", system_fingerprint="y")
    for path, kept in ((CHAT, True), (OPENCLAW, False)):
        with Upstream([answer(body)]) as server:
            got = inside(server.url).post(path, json=chat(stream=False)).json
        assert got is not None
        assert ({"kv_transfer_params", "service_tier", "system_fingerprint"} <= got.keys()) is kept
        assert ("stop_reason" in got["choices"][0]) is kept
