"""The official anthropic SDK and the proxy, in front of a real llama.cpp server and of scripted servers.

The checker also validates every byte that the SDK receives: streams, whole answers and errors (F93). The SDK is
configured to reject whole answers that do not match its types.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import anthropic
import pytest
from anthropic.lib.tools import ToolError
from anthropic.types import Message

from tests.conftest import Front, Proxy
from tests.integration.test_sdk import SCRIPTS
from tests.support.messages_checker import check_error, check_message, check_stream
from tests.support.messages_client import MODELS, TOOL, cards
from tests.support.noting import Answered, Noting
from tests.support.scripted import (
    DONE,
    PATIENCE,
    ROLE,
    USAGE,
    Act,
    Script,
    Upstream,
    arguments,
    event,
    finish,
    opened,
    stream,
    text,
)


@dataclass
class Sdk:
    """The SDK, configured for a proxy and without retries."""

    client: anthropic.Anthropic
    wire: Noting

    @property
    def last(self) -> Answered:
        return self.wire.answers[-1]

    def create(self, **request: Any) -> Message:
        message = self.client.messages.create(**request)
        assert isinstance(message, Message)
        return message

    def got(self, streamed: bool, **request: Any) -> Any:
        if not streamed:
            return self.create(**request)
        with self.client.messages.stream(**request) as stream:
            return stream.get_final_message()

    def post(self, body: object, path: str = "/v1/messages") -> Message:
        """Send a request that the SDK's functions would reject."""
        return self.client.post(path, cast_to=Message, body=body)


@contextlib.contextmanager
def talking(url: str, **options: Any) -> Iterator[Sdk]:
    """Yield the SDK, and check everything that it received."""
    wire = Noting()
    client = anthropic.Anthropic(
        base_url=url,
        max_retries=0,
        timeout=PATIENCE,
        http_client=anthropic.DefaultHttpxClient(transport=wire),
        _strict_response_validation=True,
        **(options or {"api_key": "k"}),
    )
    with client:
        yield Sdk(client, wire)
    assert wire.answers
    for answered in wire.answers:
        answered.check("/v1/messages", error=check_error, stream=check_stream, body=check_message)


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def sdk(llama_front: Proxy) -> Iterator[Sdk]:
    with talking(llama_front.url) as sdk:
        yield sdk


Scripted = Callable[..., AbstractContextManager[tuple[Sdk, Upstream]]]


@pytest.fixture
def scripted(front: Front) -> Scripted:
    """Yield the SDK and a server with these scripts that lists its model."""

    @contextlib.contextmanager
    def scripted(*scripts: Script, **options: Any) -> Iterator[tuple[Sdk, Upstream]]:
        front.upstream.play(*scripts)
        front.upstream.paths[MODELS] = cards("tiny")
        with talking(front.proxy.url, **options) as sdk:
            yield sdk, front.upstream

    return scripted


def asking(script: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Write a.txt [[script:{script}]]"}]
    return {"model": "parrot", "max_tokens": 500, "messages": messages, "tools": [TOOL], **more}


def simply(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}], **more}


def calls_of(message: Any) -> list[tuple[str, Any]]:
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text").strip()


@pytest.mark.parametrize("streamed", [False, True])
def test_text_is_unchanged_and_streamed_in_pieces(sdk: Sdk, streamed: bool) -> None:
    """C2: not only at the end."""
    if not streamed:
        message = sdk.create(**asking("plain"))
        assert (text_of(message), message.stop_reason) == ("Just text.", "end_turn")
        return
    with sdk.client.messages.stream(**asking("plain")) as stream:
        pieces = list(stream.text_stream)
    assert "".join(pieces) == "Just text." and len(pieces) > 1
    assert stream.get_final_message().stop_reason == "end_turn"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_conversation_continues_after_the_tool_results(sdk: Sdk, script: str, streamed: bool) -> None:
    """The blocks, including their ids, are sent back unchanged, and the model returns the next turn."""
    request = asking(script)
    for turn in range(2):
        message = sdk.got(streamed, **request)
        if turn == 0:
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": "ok"}
                for block in message.content
                if block.type == "tool_use"
            ]
            assert (calls_of(message), text_of(message)) == SCRIPTS[script]
            assert (message.stop_reason, message.model, message.role) == ("tool_use", "parrot", "assistant")
            assert message.usage.output_tokens > 0
            request["messages"] += [
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": results},
            ]
    assert (text_of(message), message.stop_reason, calls_of(message)) == ("Done.", "end_turn", [])


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("options", [{}, {"thread": False}], ids=["threads", "no threads"])
@pytest.mark.parametrize("script", ["hermes", "two", "coder"])
def test_the_tool_runner_calls_the_function(sdk: Sdk, script: str, options: dict[str, Any], streamed: bool) -> None:
    """The runner asks for a server-side thread. Without one, it sends the whole conversation."""
    written: list[tuple[str, Any]] = []

    @anthropic.beta_tool
    def write_file(path: str, content: str) -> str:
        """Write a file.

        Args:
            path: Where to.
            content: What.
        """
        written.append(("write_file", {"path": path, "content": content}))
        return "written"

    request = {**asking(script), "tools": [write_file], **options, **({"stream": True} if streamed else {})}
    runner: Any = sdk.client.beta.messages.tool_runner(**request)
    message = runner.until_done()
    assert written == SCRIPTS[script][0]
    assert (text_of(message), message.stop_reason) == ("Done.", "end_turn")
    body = json.loads(sdk.last.request.read())
    assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user"]


def test_a_failed_function_is_reported_to_the_model(sdk: Sdk) -> None:
    """`is_error` is sent upstream, and the conversation continues."""

    @anthropic.beta_tool
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        raise ToolError("the disk is full")

    request = {**asking("hermes"), "tools": [write_file], "thread": False}
    message = sdk.client.beta.messages.tool_runner(**request).until_done()
    assert text_of(message) == "Done."
    (result,) = json.loads(sdk.last.request.read())["messages"][-1]["content"]
    assert result["is_error"] is True


def test_tokens_are_counted_by_the_servers_own_endpoint(sdk: Sdk) -> None:
    """F95: llama-server's `/tokenize` takes no messages, but it has its own endpoint for counting."""
    request = asking("plain")
    del request["max_tokens"]
    raw = sdk.client.messages.with_raw_response.count_tokens(**request)
    assert raw.parse().input_tokens > 0
    assert raw.headers["x-tool-proxy-count"] == "count_tokens"
    few = sdk.client.messages.count_tokens(model="parrot", messages=[{"role": "user", "content": "Hi there"}])
    many = sdk.client.messages.count_tokens(model="parrot", messages=[{"role": "user", "content": "Hi there" * 99}])
    assert many.input_tokens > few.input_tokens


@pytest.mark.slow
@pytest.mark.parametrize("max_tokens", range(4, 40, 3))
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_truncated_by_max_tokens_is_never_completed(sdk: Sdk, max_tokens: int, streamed: bool) -> None:
    """C4: `max_tokens` always marks it as incomplete, so no client executes a truncated call."""
    request = {**asking("hermes"), "max_tokens": max_tokens}
    message = sdk.got(streamed, **request)
    whole = calls_of(message) == SCRIPTS["hermes"][0]
    assert message.stop_reason == "max_tokens" or (message.stop_reason == "tool_use" and whole)
    assert streamed or not calls_of(message) or whole


FULL = event({"error": {"message": "full", "type": "overloaded_error", "code": 503}})
BROKEN_OFF: dict[str, tuple[Script, str]] = {
    "an error event": (stream(ROLE, text("Half a "), FULL, DONE), "overloaded_error"),
    "a reset": (stream(ROLE, text("Half a "), 0.05, Act.RST, ended=False), "api_error"),
}


@pytest.mark.parametrize("name", BROKEN_OFF)
def test_a_stream_that_breaks_off_raises_and_never_looks_complete(scripted: Scripted, name: str) -> None:
    """C4: received text is shown, the open block is closed, and the error event is the last one."""
    script, kind = BROKEN_OFF[name]
    with scripted(script, script) as (sdk, _):
        got = []
        with (
            pytest.raises(anthropic.APIStatusError) as caught,
            sdk.client.messages.stream(**simply(tools=[TOOL])) as said,
        ):
            for piece in said.text_stream:
                got.append(piece)
        assert "".join(got).strip() == "Half a"
        assert caught.value.type == kind
        assert check_stream(bytes(sdk.last.data))["error"]["type"] == kind
        assert sdk.last.data.endswith(b"\n\n") and b"message_stop" not in sdk.last.data


@pytest.mark.parametrize("blanks", [" ", "\n  ", "\t"])
def test_whitespace_before_arguments_is_not_sent_on_its_own(scripted: Scripted, blanks: str) -> None:
    """The SDK parses the arguments after each delta and raises if they are only whitespace."""
    call = [opened(0, "call_1", "write_file"), arguments(0, blanks), arguments(0, '{"path": "a", "content": "b"}')]
    with scripted(stream(ROLE, *call, finish("tool_calls"), USAGE, DONE)) as (sdk, _):
        with sdk.client.messages.stream(**simply(tools=[TOOL])) as said:
            message = said.get_final_message()
        assert calls_of(message) == [("write_file", {"path": "a", "content": "b"})]
        assert check_stream(bytes(sdk.last.data))["stop_reason"] == "tool_use"
