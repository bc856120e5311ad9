"""Requests that are retried to change who parses the calls: when, how, and never after content was sent."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from urllib3.connection import HTTPConnection

from tests.conftest import Inside
from tests.real.processes import free_port
from tests.support.reply import read
from tests.support.scripted import (
    DONE,
    HELD,
    PATIENCE,
    ROLE,
    SSE,
    WRITE_FILE,
    Script,
    Upstream,
    answer,
    chat,
    chunked,
    event,
    stream,
    text,
    text_reply,
)

CHAT = "/v1/chat/completions"
RECORDINGS = Path(__file__).parents[1] / "recordings"
NO_PARSER = (RECORDINGS / "vllm-0.32.0-none" / "hermes-chat-stream-400.txt").read_bytes()
GRAMMAR_500 = (RECORDINGS / "llama-server-xllamacpp" / "coder-chat-plain-500.txt").read_bytes()
GRAMMAR_EVENT = (RECORDINGS / "llama-server-xllamacpp" / "coder-chat-stream-200.txt").read_bytes()
FAILED_TO_PARSE = b'{"error":{"code":500,"message":"Failed to parse input at pos 3: <tool","type":"server_error"}}'
# llama-server since its new parsers (ggml-org/llama.cpp, 18675). The format is the kind of parser.
NO_MATCH = (
    b'{"error":{"code":500,"message":"The model produced output that does not match the expected peg-native format",'
    b'"type":"server_error"}}'
)
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'
RAW = text_reply(HERMES, "<|im_end|>")
OK = text_reply("a")
REFUSED = [answer(NO_PARSER, 400)]
PARSE = ("auto", "proxy", "server")


def models(owner: str) -> Script:
    return [answer({"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": owner}]})]


def with_tools(**more: object) -> dict[str, Any]:
    return chat(tools=[WRITE_FILE], **more)


def finish_of(data: bytes) -> str:
    return read("chat", 200, data).choice().finish


def test_vllm_without_a_parser_flag_is_asked_for_the_raw_text(inside: Inside) -> None:
    """The request is retried as `proxy`. The calls are found in the raw text, and the end-of-turn token is removed."""
    with Upstream(REFUSED, RAW) as server:
        server.paths["/v1/models"] = models("vllm")
        response = inside(server.url).post(CHAT, json=with_tools(tool_choice="auto"))
        first, second = (seen.json for seen in server.seen)
    assert first == with_tools(tool_choice="auto")
    assert second == {**first, "tool_choice": "none", "skip_special_tokens": False}
    assert response.status_code == 200 and finish_of(response.data) == "tool_calls"
    assert b"im_end" not in response.data


def test_the_parse_mode_is_remembered_only_for_that_model(inside: Inside) -> None:
    with Upstream(REFUSED, RAW, RAW, OK) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        for model in ("tiny", "tiny", "other"):
            assert client.post(CHAT, json=with_tools(model=model)).data
        choices = [seen.json.get("tool_choice") for seen in server.seen]
        assert choices == [None, "none", "none", None]
        assert server.asked == ["/v1/models"], "the kind of server is requested once"


def test_requests_without_tools_ignore_the_remembered_mode(inside: Inside) -> None:
    """C1."""
    with Upstream(REFUSED, RAW, OK) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        assert client.post(CHAT, json=with_tools()).data
        assert client.post(CHAT, json=chat()).data
        assert server.seen[2].json == chat()


@pytest.mark.parametrize(
    "first",
    [
        [answer(GRAMMAR_500, 500)],
        [answer(FAILED_TO_PARSE, 500)],
        [answer(NO_MATCH, 500)],
        [answer(NO_MATCH.replace(b"native", b"gemma4"), 500)],
        stream(GRAMMAR_EVENT),
        stream(event(json.loads(NO_MATCH))),
        stream(event(json.loads(FAILED_TO_PARSE))),
        stream(ROLE, event(json.loads(FAILED_TO_PARSE)), DONE),
    ],
    ids=[
        *("empty grammar stack, 500", "failed to parse, 500", "no match, 500", "no match of another format, 500"),
        *("the recording", "no match, event", "event", "event after the role"),
    ],
)
def test_the_proxy_parses_after_a_parser_error_of_llama_server(inside: Inside, first: Script) -> None:
    with Upstream(first, RAW) as server:
        server.paths["/v1/models"] = models("llamacpp")
        response = inside(server.url).post(CHAT, json=with_tools())
        second = server.seen[1].json
    assert second["tool_choice"] == "none" and "skip_special_tokens" not in second
    assert response.status_code == 200 and finish_of(response.data) == "tool_calls"
    assert response.data.count(b'"role"') <= 1, "no part of the first try reaches the client"


def test_a_failed_plain_text_parser_is_not_retried(inside: Inside) -> None:
    """The plain text format fails if the prompt ends within a character. Parsing in the proxy would not help."""
    with Upstream([answer(NO_MATCH.replace(b"peg-native", b"Content-only"), 500)], OK) as server:
        client = inside(server.url)
        assert client.post(CHAT, json=with_tools()).status_code == 500
        assert finish_of(client.post(CHAT, json=with_tools()).data) == "stop"
        assert [seen.json for seen in server.seen] == [with_tools(), with_tools()]


def test_a_late_parser_error_is_remembered(inside: Inside) -> None:
    """When the agent retries, the proxy parses from the start."""
    first = [*stream(ROLE, text("Hi "))[:-1], 0.05, chunked(event(json.loads(FAILED_TO_PARSE)))]
    with Upstream(first, RAW) as server:
        server.paths["/v1/models"] = models("llamacpp")
        client = inside(server.url)
        assert DONE not in client.post(CHAT, json=with_tools()).data
        assert finish_of(client.post(CHAT, json=with_tools()).data) == "tool_calls"
        assert [seen.json.get("tool_choice") for seen in server.seen] == [None, "none"]


def test_parse_proxy_requests_raw_text_immediately(inside: Inside) -> None:
    with Upstream(RAW) as server:
        server.paths["/v1/models"] = models("vllm")
        rules = 'models:\n  - {match: "*", parse: proxy}\n'
        assert finish_of(inside(server.url, rules).post(CHAT, json=with_tools()).data) == "tool_calls"
        assert server.seen[0].json["tool_choice"] == "none"


@pytest.mark.parametrize(
    "message",
    [
        "[{'type': 'extra_forbidden', 'loc': ('body', 'store'), 'msg': 'Extra inputs are not permitted'}]",
        "Unsupported parameter: 'store' is not supported with this model.",
        "unknown field `store`",
    ],
)
def test_a_rejected_field_is_left_out_of_the_retry(inside: Inside, message: str) -> None:
    with Upstream([answer({"error": {"message": message, "code": 400}}, 400)], OK) as server:
        response = inside(server.url).post(CHAT, json=with_tools(store=True, user="u"))
        assert [("store" in seen.json, "user" in seen.json) for seen in server.seen] == [(True, True), (False, True)]
    assert response.status_code == 200


VLLM_CONTEXT = (
    "This model's maximum context length is 8192 tokens. However, you requested 32000 output tokens and your prompt "
    "contains at least 1000 input tokens, for a total of at least 33000 tokens. Please reduce the length of the input "
    "prompt or the number of requested output tokens."
)
OLD_VLLM_CONTEXT = (
    "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens "
    "and your request has 1000 input tokens (32000 > 8192 - 1000)."
)
OPENAI_CONTEXT = (
    "This model's maximum context length is 8192 tokens. However, you requested 33000 tokens (1000 in the messages, "
    "32000 in the completion). Please reduce the length of the messages or completion."
)


def refusal(message: str, status: int = 400) -> list[bytes]:
    return [answer({"error": {"message": message, "code": status}}, status)]


NAMED = {"type": "function", "function": {"name": "write_file"}}
FIELDS = {"store": True, "user": "u", "response_format": {"type": "text"}}
OTHER_WORDS = [
    *("'tools' is not supported", "'messages' is not supported", "'response_format' is not supported"),
    *("'store' and 'user' are not supported", "'absent' is not supported", "the prompt says 'store'"),
]
# Refusals that are final: the answer, additional request fields, the rules, and the server.
FINAL: dict[str, tuple[list[bytes], dict[str, Any], str, str]] = {
    # These servers are unknown or would drop the tools.
    **{f"the server is {owner!r}": (REFUSED, {}, "", owner) for owner in ("sglang", "lmdeploy", "someone", "")},
    # F87: guided decoding makes the arguments valid, so a refusal of it is not retried with `none`.
    **{f"forced, {parse}": (REFUSED, {"tool_choice": "required"}, f"parse: {parse}", "vllm") for parse in PARSE},
    **{f"named, {parse}": (REFUSED, {"tool_choice": NAMED}, f"parse: {parse}", "vllm") for parse in PARSE},
    "parse: server": (REFUSED, {}, "parse: server", "vllm"),
    "parse: server, a field": (refusal("'store' is not supported"), FIELDS, "parse: server", "vllm"),
    # The field is not named, not sent, or part of the prompt.
    **{words: (refusal(words), FIELDS, "", "") for words in OTHER_WORDS},
    "the prompt fills the context": (refusal(VLLM_CONTEXT.replace("1000", "9000")), {"max_tokens": 32000}, "", ""),
    **{
        f"status {status}": (refusal("'store' is not supported; see --tool-call-parser", status), FIELDS, "", "vllm")
        for status in (401, 404, 422, 429, 503)
    },
}


@pytest.mark.parametrize("case", FINAL)
def test_a_final_refusal_is_returned(inside: Inside, case: str) -> None:
    first, more, rules, owner = FINAL[case]
    with Upstream(first, RAW) as server:
        server.paths["/v1/models"] = models(owner)
        client = inside(server.url, f'models: [{{match: "*", {rules}}}]' if rules else "")
        response = client.post(CHAT, json=with_tools(**more))
        assert [seen.json for seen in server.seen] == [with_tools(**more)]
    assert response.status_code == int(first[0].split()[1])


@pytest.mark.parametrize("message", [OLD_VLLM_CONTEXT, OPENAI_CONTEXT], ids=["older", "openai"])
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_max_tokens_are_reduced_to_the_remaining_context(inside: Inside, message: str, field: str) -> None:
    """F85."""
    with Upstream([answer({"error": {"message": message, "code": 400}}, 400)], OK) as server:
        response = inside(server.url).post(CHAT, json=chat(**{field: 32000}))
        assert server.seen[1].json == chat(**{field: 7192})
    assert response.status_code == 200


@pytest.mark.parametrize("message", [VLLM_CONTEXT, "max_tokens=32000cannot be greater than max_model_len=8192."])
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_max_tokens_is_omitted_if_the_prompt_was_not_counted(inside: Inside, field: str, message: str) -> None:
    """vLLM stops counting when the prompt is too long ("at least"). The retry leaves the limit to the server (F85)."""
    with Upstream([answer({"error": {"message": message, "code": 400}}, 400)], OK) as server:
        response = inside(server.url).post(CHAT, json=chat(**{field: 32000}))
        assert server.seen[1].json == chat()
    assert response.status_code == 200


@pytest.mark.parametrize(("prompt", "asked"), [(7936, 256), (7937, 0), (8191, 0), (7000, 1192)])
def test_there_is_no_retry_if_too_few_tokens_remain(inside: Inside, prompt: int, asked: int) -> None:
    """A one-token answer would look valid. The error tells the client to make room."""
    message = OLD_VLLM_CONTEXT.replace("1000", str(prompt))
    with Upstream([answer({"error": {"message": message, "code": 400}}, 400)], OK) as server:
        response = inside(server.url).post(CHAT, json=chat(max_tokens=32000))
        assert response.status_code == (200 if asked else 400)
        assert [seen.json["max_tokens"] for seen in server.seen] == [32000, asked][: 2 if asked else 1]


@pytest.mark.parametrize(
    "second", [REFUSED, [answer(FAILED_TO_PARSE, 500)], [answer({"error": "unknown field 'user'"}, 400)]]
)
def test_no_request_is_sent_a_third_time(inside: Inside, second: Script) -> None:
    with Upstream([answer({"error": {"message": "'store' is not supported"}}, 400)], second, RAW) as server:
        server.paths["/v1/models"] = models("vllm")
        assert inside(server.url).post(CHAT, json=with_tools(store=True, user="u")).status_code >= 400
        assert len(server.seen) == 2


def test_a_refused_connection_is_retried_once(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server starts between the two tries."""
    port, tries = free_port(), []
    with Upstream(OK, port=port) as server:
        real = HTTPConnection.connect

        def connect(self: Any) -> None:
            tries.append(self)
            if len(tries) == 1:
                self.port, up = free_port(), self.port
                try:
                    real(self)
                finally:
                    self.port = up
            real(self)

        monkeypatch.setattr(HTTPConnection, "connect", connect)
        response = inside(server.url).post(CHAT, json=chat())
        assert response.status_code == 200 and len(server.seen) == 1 and len(tries) == 2


def test_a_retry_is_counted_and_logged(inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "proxy")
    with Upstream(REFUSED, RAW) as server:
        server.paths["/v1/models"] = models("vllm")
        assert inside(server.url).post(CHAT, json=with_tools(model="tiny")).data
    assert "tries=2" in caplog.text and "parse=proxy" in caplog.text
    assert "cannot parse the calls of model 'tiny'" in caplog.text


def test_the_first_try_is_closed_before_the_second_begins(inside: Inside) -> None:
    first: Script = [SSE + chunked(event(json.loads(FAILED_TO_PARSE))), HELD]
    with Upstream(first, RAW) as server:
        server.paths["/v1/models"] = models("llamacpp")
        assert inside(server.url).post(CHAT, json=with_tools()).status_code == 200
        assert server.seen[0].closed.wait(PATIENCE)
