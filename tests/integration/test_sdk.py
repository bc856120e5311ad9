"""The official openai SDK against the proxy in front of a real llama.cpp server, streamed and whole."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import openai
import pytest

from tests.conftest import Proxy
from tests.support.scripted import PATIENCE, WRITE_FILE

A = ("write_file", {"path": "a.txt", "content": "hi\n"})
B = ("write_file", {"path": "b.txt", "content": "ho"})
SHORT = ("write_file", {"path": "a.txt", "content": "hi"})
# script -> its calls and the other text
SCRIPTS: dict[str, tuple[list[tuple[str, Any]], str]] = {
    "hermes": ([A], "I will write it."),
    "toolstag": ([A], "I will write it."),
    "two": ([A, B], ""),
    "coder": ([SHORT], ""),
    "fence": ([SHORT], ""),
}


@pytest.fixture
def sdk(llama_front: Proxy) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{llama_front.url}/v1", api_key="k", max_retries=0, timeout=PATIENCE) as client:
        yield client


def asking(script: str, **more: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Write a.txt [[script:{script}]]"}]
    return {"model": "parrot", "messages": messages, "tools": [WRITE_FILE], **more}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_calls_of_a_stream_are_structured(sdk: openai.OpenAI, script: str) -> None:
    """C5: the name is sent once and first, indexes are 0 and 1, ids are stable, and nothing follows the finish."""
    calls, text = SCRIPTS[script]
    gathered: dict[int, dict[str, str]] = {}
    said = ""
    reasons: list[str] = []
    for chunk in sdk.chat.completions.create(**asking(script), stream=True):
        for choice in chunk.choices:
            assert not reasons, "nothing follows the finish"
            said += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                assert call.function is not None
                if call.index not in gathered:
                    assert call.id and call.function.name
                    gathered[call.index] = {"id": call.id, "name": call.function.name, "arguments": ""}
                else:
                    assert not call.function.name and call.id in (None, gathered[call.index]["id"])
                gathered[call.index]["arguments"] += call.function.arguments or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert list(gathered) == list(range(len(calls)))
    assert [(each["name"], json.loads(each["arguments"])) for each in gathered.values()] == calls
    assert said.strip() == text
    assert reasons == ["tool_calls"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_conversation_continues_after_the_tool_results(sdk: openai.OpenAI, script: str) -> None:
    request = asking(script)
    (choice,) = sdk.chat.completions.create(**request).choices
    calls = choice.message.tool_calls or []
    assert [(each.function.name, json.loads(each.function.arguments)) for each in calls] == SCRIPTS[script][0]
    assert ((choice.message.content or "").strip(), choice.finish_reason) == (SCRIPTS[script][1], "tool_calls")
    results = [{"role": "tool", "tool_call_id": each.id, "content": "ok"} for each in calls]
    request["messages"] += [choice.message.model_dump(exclude_none=True), *results]
    choice = sdk.chat.completions.create(**request).choices[0]
    assert (choice.message.content, choice.finish_reason, choice.message.tool_calls) == ("Done.", "stop", None)


def events(url: str, body: object) -> list[Any]:
    """Return the parsed events of a stream, without ids and times."""
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)) as client:
        client.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = client.getresponse()
        assert response.status == 200
        blocks = response.read().split(b"\n\n")
    found: list[Any] = []
    for block in filter(None, blocks):
        data = block.removeprefix(b"data: ")
        parsed = {} if data == b"[DONE]" else json.loads(data)
        found.append([parsed.pop(name, None) is None for name in ("id", "created", "timings")] + [list(parsed.items())])
    return found


@pytest.mark.parametrize("tools", [[], [WRITE_FILE]], ids=["no tools", "tools"])
@pytest.mark.parametrize("usage", [{}, {"stream_options": {"include_usage": True}}], ids=["", "usage"])
def test_plain_text_is_unchanged(llama: str, llama_front: Proxy, tools: list[object], usage: dict[str, object]) -> None:
    """C1: the same events in the same order, with the same keys in the same order."""
    request = {**asking("plain", stream=True), **usage, "tools": tools}
    assert events(llama_front.url, request) == events(llama, request)


def test_the_sdk_raises_the_servers_error(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        sdk.chat.completions.create(**{**asking("plain"), "messages": "no list"})
    assert 400 <= caught.value.status_code < 600
