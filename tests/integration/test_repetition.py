"""A stream that repeats itself ends where a rule says so: the upstream is closed, and no half call looks whole."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.messages_ask import ask
from tests.support.messages_checker import check_stream
from tests.support.scripted import (
    DONE,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Upstream,
    answer,
    arguments,
    chat,
    chunked,
    delta,
    opened,
    text,
)

CHAT = "/v1/chat/completions"
RULE = 'models: [{match: "*", repetition: {longest: 10, times: 20}}]'
FOREVER = [chunked(text("and on ")) for _ in range(40)]


def finishes(data: bytes) -> list[str]:
    lines = [line.removeprefix("data: ") for line in data.decode().splitlines() if line.startswith("data: {")]
    reasons = [choice["finish_reason"] for line in lines for choice in json.loads(line)["choices"]]
    return [reason for reason in reasons if reason]


@pytest.mark.parametrize("tools", [None, [WRITE_FILE]])
def test_the_upstream_is_closed_and_the_reply_ends_as_cut(
    inside: Inside, tools: Any, logged: pytest.LogCaptureFixture
) -> None:
    with Upstream([SSE, chunked(ROLE), *FOREVER, Act.EXPECT_CLOSE]) as server:
        data = inside(server.url, rules=RULE).post(CHAT, json=chat(tools=tools)).data
        assert server.wait().gone_after(time.monotonic())
    assert finishes(data) == ["length"] and data.endswith(DONE)
    assert 28 <= data.count(b"and on ") <= 40 and "repetition" in logged.text


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_that_repeats_ends_too(inside: Inside, name: str) -> None:
    thoughts = [chunked(delta({name: "and on "})) for _ in range(40)]
    with Upstream([SSE, chunked(ROLE), *thoughts, Act.EXPECT_CLOSE]) as server:
        data = inside(server.url, rules=RULE).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert finishes(data) == ["length"]


def test_a_call_whose_text_repeats_stays_half(inside: Inside) -> None:
    """C4: what is cut off is not completed."""
    begun = [chunked(opened(0, "c", "write_file")), chunked(arguments(0, '{"path": "a", "content": "'))]
    more = [chunked(arguments(0, "and on ")) for _ in range(60)]
    with Upstream([SSE, chunked(ROLE), *begun, *more, Act.EXPECT_CLOSE]) as server:
        data = inside(server.url, rules=RULE).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert finishes(data) == ["length"] and b'on \\"}' not in data


def test_a_message_ends_too(inside: Inside) -> None:
    with Upstream([SSE, chunked(ROLE), *FOREVER, Act.EXPECT_CLOSE]) as server:
        server.paths["/v1/models"] = [answer({"object": "list", "data": [{"id": "tiny"}]})]
        client = inside(server.url, rules=RULE)
        made = check_stream(client.post("/v1/messages", json=ask({"role": "user", "content": "a"}, stream=True)).data)
    assert made["stop_reason"] == "max_tokens"


def test_it_is_off_by_default(inside: Inside) -> None:
    whole = [SSE, chunked(ROLE), *FOREVER, chunked(delta({}, "stop")), chunked(DONE), b"0\r\n\r\n"]
    with Upstream(whole) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
        assert data.count(b"and on ") == 40 and finishes(data) == ["stop"]


def test_vllms_own_detection_is_set_by_a_rule(inside: Inside) -> None:
    rule = 'models: [{match: "*", sampling: {set: {repetition_detection: {max_pattern_size: 50, min_count: 20}}}}]'
    with Upstream([SSE, chunked(ROLE + text("a") + delta({}, "stop") + DONE), b"0\r\n\r\n"]) as server:
        assert inside(server.url, rules=rule).post(CHAT, json=chat()).data
        assert server.seen[0].json["repetition_detection"] == {"max_pattern_size": 50, "min_count": 20}
