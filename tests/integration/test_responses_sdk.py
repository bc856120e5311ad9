"""The official openai SDK's `responses` and the proxy, in front of a real llama.cpp server and of scripted servers.

The checker also validates every byte that the SDK receives: streams, whole responses and errors. The SDK is configured
to reject whole responses that do not match its types.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.conftest import Front, Proxy
from tests.integration.test_sdk import SCRIPTS
from tests.support.messages_client import MODELS, cards, reply
from tests.support.noting import Noting
from tests.support.responses_checker import check_error, check_response, check_stream
from tests.support.responses_client import TOOL
from tests.support.scripted import PATIENCE, Act, Script, Upstream, answer, completion, opened, stream
from tests.support.scripted import arguments as fragment

pytestmark = pytest.mark.once


@contextlib.contextmanager
def talking(url: str) -> Iterator[openai.OpenAI]:
    """Yield the SDK without retries, and check everything that it received."""
    wire = Noting()
    client = openai.OpenAI(
        base_url=f"{url}/v1",
        api_key="k",
        max_retries=0,
        timeout=PATIENCE,
        http_client=openai.DefaultHttpxClient(transport=wire),
        _strict_response_validation=True,
    )
    with client:
        yield client
    assert wire.answers
    for answered in wire.answers:
        answered.check("/responses", error=check_error, stream=check_stream, body=check_response)


@pytest.fixture
def sdk(llama_front: Proxy) -> Iterator[openai.OpenAI]:
    with talking(llama_front.url) as client:
        yield client


Scripted = Callable[..., AbstractContextManager[tuple[openai.OpenAI, Upstream]]]


@pytest.fixture
def scripted(front: Front) -> Scripted:
    """Yield the SDK and a server with these scripts that lists its model."""

    @contextlib.contextmanager
    def scripted(*scripts: Script) -> Iterator[tuple[openai.OpenAI, Upstream]]:
        front.upstream.play(*scripts)
        front.upstream.paths[MODELS] = cards("tiny")
        with talking(front.proxy.url) as client:
            yield client, front.upstream

    return scripted


def asking(script: str, **more: Any) -> dict[str, Any]:
    return {"model": "parrot", "input": f"Write a.txt [[script:{script}]]", "tools": [TOOL], **more}


def simply(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "input": "Hi", **more}


def calls_of(response: Any) -> list[tuple[str, Any]]:
    return [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]


def got(client: openai.OpenAI, streamed: bool, **request: Any) -> Any:
    if not streamed:
        return client.responses.create(**request)
    with client.responses.stream(**request) as stream:
        for _ in stream:
            pass
        return stream.get_final_response()


MODES = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@MODES
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_conversation_continues_after_the_tool_outputs(sdk: openai.OpenAI, script: str, streamed: bool) -> None:
    """The items, including their ids, are sent back unchanged, and the model returns the next turn."""
    request = asking(script)
    response = got(sdk, streamed, **request)
    outputs = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "ok"}
        for item in response.output
        if item.type == "function_call"
    ]
    assert (calls_of(response), response.output_text.strip()) == SCRIPTS[script]
    assert (response.status, response.model) == ("completed", "parrot")
    assert response.usage is not None and response.usage.output_tokens > 0
    request["input"] = [{"role": "user", "content": request["input"]}, *response.output, *outputs]
    response = got(sdk, streamed, **request)
    assert (response.output_text, calls_of(response)) == ("Done.", [])


class WriteFile(BaseModel):
    """Write a file."""

    path: str
    content: str


@MODES
def test_arguments_are_parsed_into_the_callers_type(sdk: openai.OpenAI, streamed: bool) -> None:
    tool = openai.pydantic_function_tool(WriteFile, name="write_file")["function"]
    request = {**asking("hermes"), "tools": [{"type": "function", **tool}]}
    if streamed:
        with sdk.responses.stream(**request) as stream:
            response: Any = stream.until_done().get_final_response()
    else:
        response = sdk.responses.parse(**request)
    (parsed,) = [item.parsed_arguments for item in response.output if item.type == "function_call"]
    assert parsed in (WriteFile(path="a.txt", content="hi\n"), {"path": "a.txt", "content": "hi\n"})


@pytest.mark.parametrize("limit", range(4, 40, 6))
@MODES
def test_a_truncated_call_is_never_completed(sdk: openai.OpenAI, limit: int, streamed: bool) -> None:
    """C4."""
    request = asking("hermes", max_output_tokens=limit)
    if streamed:
        with sdk.responses.stream(**request) as stream:
            events = [*stream]
        done = [event.item for event in events if event.type == "response.output_item.done"]
        calls = [item for item in done if item.type == "function_call"]
        last: Any = events[-1].response
    else:
        last = sdk.responses.create(**request)
        calls = [item for item in last.output if item.type == "function_call" and item.status == "completed"]
    found = [(item.name, json.loads(item.arguments)) for item in calls]
    assert found in ([], SCRIPTS["hermes"][0])
    assert found or (last.status, last.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_a_schema_is_enforced(sdk: openai.OpenAI) -> None:
    """`text.format`: llama-server's grammar restricts the reply."""
    request: Any = {"model": "parrot", "input": "Say JSON", "text": {"format": {"type": "json_object"}}}
    response = sdk.responses.create(**request, max_output_tokens=5)
    assert response.text is not None and response.text.format is not None and response.text.format.type == "json_object"


class Answer(BaseModel):
    number: int


@MODES
def test_text_is_parsed_into_the_callers_type(scripted: Scripted, streamed: bool) -> None:
    with scripted(reply(streamed, '{"number": 7}')) as (client, upstream):
        if streamed:
            with client.responses.stream(**simply(text_format=Answer)) as stream:
                response: Any = stream.get_final_response()
        else:
            response = client.responses.parse(**simply(text_format=Answer))
        assert response.output_parsed == Answer(number=7)
        assert upstream.seen[0].json["response_format"]["json_schema"]["name"] == "Answer"


def test_a_reply_that_breaks_off_is_a_failed_response(scripted: Scripted) -> None:
    script = stream(opened(0, "c1", "write_file"), fragment(0, '{"path": "a'), 0.05, Act.RST, ended=False)
    with scripted(script) as (client, _), client.responses.stream(**simply(tools=[TOOL])) as said:
        events = [*said]
        assert events[-1].type == "response.failed"
        assert events[-1].response.error is not None and events[-1].response.error.code == "server_error"
        assert [event.type for event in events].count("response.output_item.done") == 0


def test_the_refusal_field_becomes_a_refusal_item(scripted: Scripted) -> None:
    body = completion({"role": "assistant", "content": None, "refusal": "I cannot"})
    with scripted([answer(body)]) as (client, _):
        (item,) = client.responses.create(**simply()).output
        assert item.type == "message" and item.content[0].type == "refusal"
