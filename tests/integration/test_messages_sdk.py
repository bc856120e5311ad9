"""The official anthropic SDK against the proxy: in front of a real llama.cpp server, and of scripted ones.

Every byte that the SDK gets goes through the checker too: streams, whole answers and errors (F93). The SDK itself is
told to refuse whole answers that are not of its own types.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import anthropic
import pytest
from anthropic.lib.tools import ToolError
from anthropic.types import Message

from tests.conftest import Front, Proxy, Start
from tests.integration.test_sdk import SCRIPTS
from tests.support.messages_checker import check_error, check_message, check_stream
from tests.support.noting import Answered, Noting
from tests.support.scripted import (
    DONE,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    USAGE,
    Act,
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
)

WRITE_FILE: dict[str, Any] = {
    "name": "write_file",
    "description": "Write a file.",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
}
MODELS = [answer({"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "vllm", "root": "tiny"}]})]


@dataclass
class Sdk:
    """The SDK, pointed at a proxy; it does not retry."""

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
        """The message: whole, or as the SDK's accumulator has it."""
        if not streamed:
            return self.create(**request)
        with self.client.messages.stream(**request) as stream:
            return stream.get_final_message()

    def post(self, body: object, path: str = "/v1/messages") -> Message:
        """A request that the SDK's own functions would not let through."""
        return self.client.post(path, cast_to=Message, body=body)


@contextlib.contextmanager
def talking(url: str, **options: Any) -> Iterator[Sdk]:
    """The SDK in front of a proxy; at the end all that it got is checked."""
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
    """The SDK, the proxy, and the real llama.cpp server."""
    with talking(llama_front.url) as sdk:
        yield sdk


Scripted = Callable[..., AbstractContextManager[tuple[Sdk, Upstream]]]


@pytest.fixture
def scripted(front: Front) -> Scripted:
    """The SDK, the proxy, and a server that answers with these scripts and knows its model."""

    @contextlib.contextmanager
    def scripted(*scripts: Script, **options: Any) -> Iterator[tuple[Sdk, Upstream]]:
        front.upstream.play(*scripts)
        front.upstream.paths["/v1/models"] = MODELS
        with talking(front.proxy.url, **options) as sdk:
            yield sdk, front.upstream

    return scripted


def asking(script: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Write a.txt [[script:{script}]]"}]
    return {"model": "parrot", "max_tokens": 500, "messages": messages, "tools": [WRITE_FILE], **more}


def simply(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}], **more}


def calls_of(message: Any) -> list[tuple[str, Any]]:
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text").strip()


# In front of the real server.


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_calls_of_a_whole_answer_are_blocks(sdk: Sdk, script: str) -> None:
    message = sdk.create(**asking(script))
    assert (calls_of(message), text_of(message)) == SCRIPTS[script]
    assert (message.stop_reason, message.model, message.role) == ("tool_use", "parrot", "assistant")
    assert message.usage.output_tokens > 0


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_calls_of_a_stream_are_blocks_in_the_sdk_s_accumulator(sdk: Sdk, script: str) -> None:
    with sdk.client.messages.stream(**asking(script)) as stream:
        said = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert (calls_of(message), said.strip()) == SCRIPTS[script]
    assert (message.stop_reason, message.model) == ("tool_use", "parrot")
    assert message.usage.output_tokens > 0
    assert sdk.last.whole and sdk.last.kind.startswith("text/event-stream")


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_events_of_a_stream_are_those_of_the_raw_api(sdk: Sdk, script: str) -> None:
    """`create(stream=True)`: the SDK hands out each event as it came."""
    events = list(sdk.client.messages.create(**asking(script), stream=True))
    message = check_stream(bytes(sdk.last.data))
    assert [block["input"] for block in message["content"] if block["type"] == "tool_use"] == [
        given for _, given in SCRIPTS[script][0]
    ]
    assert (events[0].type, events[-2].type, events[-1].type) == ("message_start", "message_delta", "message_stop")


@pytest.mark.parametrize("streamed", [False, True])
def test_text_stays_text_and_comes_in_pieces(sdk: Sdk, streamed: bool) -> None:
    """C2: not at the end only."""
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
def test_a_conversation_goes_on_after_the_tools_results(sdk: Sdk, script: str, streamed: bool) -> None:
    """The blocks go back as the SDK gave them, ids and all, and the model says the next turn."""
    request = asking(script)
    for turn in range(2):
        message = sdk.got(streamed, **request)
        if turn == 0:
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": "ok"}
                for block in message.content
                if block.type == "tool_use"
            ]
            assert len(results) == len(SCRIPTS[script][0])
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
    """The runner asks for a thread that the server keeps; told that there is none, it sends the whole conversation."""
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


def test_a_function_that_fails_is_told_to_the_model(sdk: Sdk) -> None:
    """`is_error` goes up, and the conversation goes on."""

    @anthropic.beta_tool
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        raise ToolError("the disk is full")

    request = {**asking("hermes"), "tools": [write_file], "thread": False}
    message = sdk.client.beta.messages.tool_runner(**request).until_done()
    assert text_of(message) == "Done."
    (result,) = json.loads(sdk.last.request.read())["messages"][-1]["content"]
    assert result["is_error"] is True


def test_tokens_are_counted_by_the_server_s_own_count(sdk: Sdk) -> None:
    """F95: llama-server has no `/tokenize` for messages, and a count of its own."""
    request = asking("plain")
    del request["max_tokens"]
    raw = sdk.client.messages.with_raw_response.count_tokens(**request)
    assert raw.parse().input_tokens > 0
    assert raw.headers["x-tool-proxy-count"] == "count_tokens"
    few = sdk.client.messages.count_tokens(model="parrot", messages=[{"role": "user", "content": "Hi there"}])
    many = sdk.client.messages.count_tokens(model="parrot", messages=[{"role": "user", "content": "Hi there" * 99}])
    assert many.input_tokens > few.input_tokens


def test_models_are_listed_and_found(sdk: Sdk) -> None:
    """F95: Claude Code refuses a model that it does not find."""
    (model,) = list(sdk.client.models.list())
    assert (model.id, model.type) == ("parrot", "model")
    assert model.display_name and model.created_at
    assert sdk.client.models.retrieve("parrot").id == "parrot"
    assert len(list(sdk.client.models.list(limit=1))) == 1
    with pytest.raises(anthropic.NotFoundError) as caught:
        sdk.client.models.retrieve("nobody")
    assert caught.value.type == "not_found_error"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_claude_name_is_the_only_model_that_there_is(sdk: Sdk, streamed: bool) -> None:
    request = {**asking("hermes"), "model": "claude-for-tests"}
    message = sdk.got(streamed, **request)
    assert calls_of(message) == SCRIPTS["hermes"][0]
    assert message.model == "claude-for-tests"


@pytest.mark.parametrize("streamed", [False, True])
def test_max_tokens_that_are_used_up_are_the_reason(sdk: Sdk, streamed: bool) -> None:
    request = {**asking("plain"), "max_tokens": 2}
    message = sdk.got(streamed, **request)
    assert message.stop_reason == "max_tokens"
    assert 0 < len(text_of(message)) < len("Just text.")
    assert message.usage.output_tokens == 2


@pytest.mark.slow
@pytest.mark.parametrize("max_tokens", range(4, 40, 3))
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_that_is_cut_by_max_tokens_is_never_completed(sdk: Sdk, max_tokens: int, streamed: bool) -> None:
    """C4: whatever became of it, `max_tokens` says that it is not whole; no client executes half a call as a whole."""
    request = {**asking("hermes"), "max_tokens": max_tokens}
    message = sdk.got(streamed, **request)
    whole = calls_of(message) == SCRIPTS["hermes"][0]
    assert message.stop_reason == "max_tokens" or (message.stop_reason == "tool_use" and whole)
    assert streamed or not calls_of(message) or whole


@pytest.mark.parametrize("streamed", [False, True])
def test_a_stop_sequence_ends_the_text(sdk: Sdk, streamed: bool) -> None:
    """llama-server does not say which sequence it was."""
    request = {**asking("plain"), "stop_sequences": ["text"]}
    message = sdk.got(streamed, **request)
    assert text_of(message) == "Just"
    assert message.stop_reason in ("end_turn", "stop_sequence")


@pytest.mark.slow
def test_a_prompt_over_the_context_is_told_in_the_words_by_which_clients_compact(sdk: Sdk) -> None:
    """F95: `prompt is too long: N tokens > M maximum`, from llama-server's own words."""
    messages: Any = [{"role": "user", "content": "many words " * 4000}]
    for streamed in (False, True):
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 8192 maximum") as caught:
            sdk.client.messages.create(model="parrot", max_tokens=9, messages=messages, stream=streamed)
        assert caught.value.type == "invalid_request_error"
        assert caught.value.api_message and caught.value.api_message.startswith("prompt is too long: ")


def test_more_max_tokens_than_the_context_holds_are_no_error(sdk: Sdk) -> None:
    """F85: Claude Code asks for 32,000."""
    message = sdk.create(**{**asking("hermes"), "max_tokens": 32000})
    assert calls_of(message) == SCRIPTS["hermes"][0]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"model": "parrot", "messages": [{"role": "user", "content": "Hi"}]}, "max_tokens"),
        ({"model": "parrot", "max_tokens": 0, "messages": [{"role": "user", "content": "Hi"}]}, "max_tokens"),
        ({"model": "parrot", "max_tokens": True, "messages": [{"role": "user", "content": "Hi"}]}, "max_tokens"),
        ({"model": "parrot", "max_tokens": "9", "messages": [{"role": "user", "content": "Hi"}]}, "max_tokens"),
        ({"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}, "model"),
        ({"model": "parrot", "max_tokens": 9}, "messages"),
        ({"model": "parrot", "max_tokens": 9, "messages": "Hi"}, "messages"),
        ({"model": "parrot", "max_tokens": 9, "messages": [{"role": "tool", "content": "Hi"}]}, "messages.0"),
        ({"model": "parrot", "max_tokens": 9, "messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        (
            {"model": "parrot", "max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "picture"}]}]},
            "messages.0.content.0",
        ),
        ([], "object"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_cannot_be_used_is_a_bad_request(sdk: Sdk, body: Any, place: str, streamed: bool) -> None:
    """Told as a status, also where a stream was asked for, with the place."""
    with pytest.raises(anthropic.BadRequestError, match=place) as caught:
        sdk.post({**body, "stream": True} if streamed and isinstance(body, dict) else body)
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("path", ["/v1/messages/nothing", "/v1/messages/count_tokens/x"])
def test_a_path_that_there_is_not_is_not_found(sdk: Sdk, path: str) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        sdk.post({}, path)
    assert caught.value.type == "not_found_error"


# In front of a scripted server.


AS_BEFORE = {"X-Api-Key": "sk-a", "Authorization": anthropic.Omit()}


@pytest.mark.parametrize(
    "options",
    [{"api_key": "sk-a"}, {"auth_token": "sk-a"}, {"api_key": "unsent", "default_headers": AS_BEFORE}],
    ids=["api_key", "auth_token", "x-api-key"],
)
def test_a_key_goes_up_as_bearer(scripted: Scripted, options: dict[str, Any]) -> None:
    """This SDK sends either key as Bearer itself; the ones before it, and the API's other clients, as `x-api-key`."""
    with scripted([answer(completion("Hi."))], **options) as (sdk, upstream):
        assert text_of(sdk.create(**simply())) == "Hi."
        assert ("x-api-key" in sdk.last.request.headers) == ("default_headers" in options)
        headers = upstream.seen[0].headers
    assert headers.get_all("authorization") == ["Bearer sk-a"]
    assert headers.get("x-api-key") is None


def vllm_error(message: str, kind: str, status: int) -> Script:
    return [answer({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)]


CLASSES: list[tuple[Script, type[anthropic.APIStatusError], int, str]] = [
    (vllm_error("no such thing", "BadRequestError", 400), anthropic.BadRequestError, 400, "no such thing"),
    ([answer({"error": "Unauthorized"}, 401)], anthropic.AuthenticationError, 401, "Unauthorized"),
    (vllm_error("not yours", "PermissionDeniedError", 403), anthropic.PermissionDeniedError, 403, "not yours"),
    (vllm_error("no model", "NotFoundError", 404), anthropic.NotFoundError, 404, "no model"),
    (vllm_error("too large", "RequestTooLarge", 413), anthropic.ContentTooLargeError, 413, "too large"),
    (vllm_error("bad field", "UnprocessableEntity", 422), anthropic.BadRequestError, 400, "bad field"),
    (vllm_error("slow down", "RateLimitError", 429), anthropic.RateLimitError, 429, "slow down"),
    (vllm_error("it broke", "InternalServerError", 500), anthropic.InternalServerError, 500, "it broke"),
    (vllm_error("full", "ServiceUnavailable", 503), anthropic.OverloadedError, 529, "full"),
    ([answer(b"<html>nginx</html>", 502, {"Content-Type": "text/html"})], anthropic.InternalServerError, 502, ""),
    ([answer(b"", 504)], anthropic.GatewayTimeoutError, 504, ""),
    ([answer(b"no json")], anthropic.InternalServerError, 502, ""),
    ([Act.RST], anthropic.InternalServerError, 502, ""),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CLASSES, ids=lambda case: f"{case[2]} {case[3]}")
@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_of_the_server_is_of_the_sdk_s_class(
    scripted: Scripted, case: tuple[Script, type[anthropic.APIStatusError], int, str], streamed: bool
) -> None:
    """Before anything was streamed it is a status; what the server said stays."""
    script, error, status, words = case
    with scripted(script, script) as (sdk, _):
        with pytest.raises(error) as caught:
            sdk.create(**simply(), stream=streamed)
        assert type(caught.value) is error
        assert caught.value.status_code == status
        assert words in str(caught.value.api_message)


@pytest.mark.slow
def test_a_body_over_the_limit_is_too_large(proxy: Start) -> None:
    with Upstream() as server, talking(proxy(server.url, "--max-body", "2000").url) as sdk:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            with pytest.raises(anthropic.ContentTooLargeError) as caught:
                sdk.post(simply(system="x" * 3000), path)
            assert str(caught.value.type) == "request_too_large"


BROKEN_OFF: dict[str, tuple[Script, str]] = {
    "an error event of vLLM": (
        stream(
            ROLE,
            text("Half a "),
            event({"error": {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}}),
            DONE,
        ),
        "api_error",
    ),
    "an error event that says full": (
        stream(
            ROLE, text("Half a "), event({"error": {"message": "full", "type": "overloaded_error", "code": 503}}), DONE
        ),
        "overloaded_error",
    ),
    "a reset": ([SSE + chunked(ROLE) + chunked(text("Half a ")), 0.05, Act.RST], "api_error"),
    "a body that stops": ([SSE + chunked(ROLE) + chunked(text("Half a "))], "api_error"),
    "no finish": ([SSE, chunked(ROLE), chunked(text("Half a ")), LAST], "api_error"),
}


@pytest.mark.parametrize("name", BROKEN_OFF)
def test_a_stream_that_breaks_off_raises_and_never_looks_complete(scripted: Scripted, name: str) -> None:
    """C4: what came is shown; then the open block is closed, then comes the error, then nothing."""
    script, kind = BROKEN_OFF[name]
    with scripted(script, script) as (sdk, _):
        got = []
        with (
            pytest.raises(anthropic.APIStatusError) as caught,
            sdk.client.messages.stream(**simply(tools=[WRITE_FILE])) as said,
        ):
            for piece in said.text_stream:
                got.append(piece)
        assert "".join(got).strip() == "Half a"
        assert caught.value.type == kind
        assert check_stream(bytes(sdk.last.data))["error"]["type"] == kind
        assert sdk.last.data.endswith(b"\n\n") and b"message_stop" not in sdk.last.data


@pytest.mark.parametrize("blanks", [" ", "\n  ", "\t"])
def test_blanks_before_the_arguments_do_not_come_alone(scripted: Scripted, blanks: str) -> None:
    """The SDK reads the arguments with each delta, and raises where there are blanks alone."""
    call = [opened(0, "call_1", "write_file"), arguments(0, blanks), arguments(0, '{"path": "a", "content": "b"}')]
    with scripted(stream(ROLE, *call, finish("tool_calls"), USAGE, DONE)) as (sdk, _):
        with sdk.client.messages.stream(**simply(tools=[WRITE_FILE])) as said:
            message = said.get_final_message()
        assert calls_of(message) == [("write_file", {"path": "a", "content": "b"})]
        assert check_stream(bytes(sdk.last.data))["stop_reason"] == "tool_use"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("streamed", [False, True])
def test_reasoning_is_thinking_with_a_signature(scripted: Scripted, name: str, streamed: bool) -> None:
    """And the SDK sends it back on the next turn, which must not be refused."""
    events = stream(ROLE, delta({name: "Hm, "}), delta({name: "so."}), text("Hi."), finish(), USAGE, DONE)
    whole: Script = [answer(completion({"role": "assistant", "content": "Hi.", name: "Hm, so."}))]
    good = events if streamed else whole
    with scripted(good, good) as (sdk, _):
        request = simply(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000)
        for _ in range(2):
            message = sdk.got(streamed, **request)
            assert [block.type for block in message.content] == ["thinking", "text"]
            assert (message.content[0].thinking, text_of(message)) == ("Hm, so.", "Hi.")
            assert message.content[0].signature
            request["messages"] += [
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": "Go on."},
            ]


def counted(**usage: Any) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "usage": usage}


@pytest.mark.parametrize("streamed", [False, True])
def test_usage_is_split_into_what_was_cached_and_what_not(scripted: Scripted, streamed: bool) -> None:
    """The API counts the tokens from the cache apart; the sum is the server's."""
    usage = {
        **{"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
        **{"prompt_tokens_details": {"cached_tokens": 96}, "completion_tokens_details": {"reasoning_tokens": 3}},
    }
    last = event({**counted(**usage), "choices": []})
    whole: Script = [answer(completion("Hi.", usage=usage))]
    with scripted(stream(ROLE, text("Hi."), finish(), last, DONE) if streamed else whole) as (sdk, _):
        got = sdk.got(streamed, **simply()).usage
        assert (got.input_tokens, got.cache_read_input_tokens, got.output_tokens) == (4, 96, 7)
        assert got.output_tokens_details.thinking_tokens == 3


@pytest.mark.slow
def test_pings_keep_a_waiting_client(proxy: Start) -> None:
    """F75, F76: events of the dialect, not comments, before the first word and within the message."""
    with ExitStack() as stack:
        server = stack.enter_context(Upstream())
        front = proxy(server.url, "--heartbeat", "0.2")
        sdk = stack.enter_context(talking(front.url))
        server.play([SSE, 0.7, chunked(ROLE + text("Hi")), 0.7, *map(chunked, (finish(), USAGE, DONE)), LAST])
        server.paths["/v1/models"] = MODELS
        with sdk.client.messages.stream(**simply()) as said:
            assert said.get_final_text() == "Hi"
        first, _, rest = bytes(sdk.last.data).partition(b"event: message_start")
        ping = b'event: ping\ndata: {"type":"ping"}\n\n'
        assert ping in first and not first.replace(ping, b"") and ping in rest
