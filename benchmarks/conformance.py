"""canitoolcall adapter for a vLLM without parsers behind the proxy.

    canitoolcall run --engine benchmarks.conformance:ProxyAdapter

The suite's runner starts the adapter, replays the fixtures and judges them. Each fixture goes through the view, the
engine and the API of a new application, so that no state carries over between replies. Tools are always offered, as by
an agent. The environment variable `SERVED_NAME` replaces the model's name.

Streams are split into characters instead of tokens, because the models' tokenizers are not available. Splitting at
every character is at least as hard as splitting at tokens.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from canitoolcall.adapters.base import Adapter, ReplayInput, Support, ToolSpec
from canitoolcall.results import ParsedToolCall, ParseResult, StreamAccumulator
from werkzeug.test import Client
from werkzeug.wrappers import Response

from proxy import __version__
from proxy.config.settings import Settings
from proxy.upstream.client import ModelServer, ServerOptions, UpstreamCall
from proxy.web.app import make_app
from tests.support.model_server import NO_PARSER
from tests.support.scripted import DONE, WRITE_FILE, completion, delta
from tests.support.socketless import answer_with
from tests.support.worker_state import make_state, read_rules

URL = "http://127.0.0.1:1"


class ParserlessVllm(ModelServer):
    """vLLM without `--tool-call-parser` and `--reasoning-parser`. All of the model's text is content.

    Like vLLM, it rejects requests with tools unless `tool_choice` is `none`, and returns the name of the weights as the
    model's `root`.
    """

    def __init__(self, model: str, root: str, pieces: Sequence[str], finish: str) -> None:
        super().__init__(ServerOptions(URL))
        self._card = {"id": model, "object": "model", "owned_by": "vllm", "root": root}
        self._pieces = pieces
        self._finish = finish

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, seconds: float = math.inf
    ) -> UpstreamCall:
        if body is None:
            return _answer({"object": "list", "data": [self._card]})
        asked = json.loads(body)
        if asked.get("tools") and asked.get("tool_choice") != "none":
            return _answer({"error": {"message": NO_PARSER, "type": "BadRequestError", "code": 400}}, 400)
        if not asked.get("stream"):
            return _answer(completion("".join(self._pieces), self._finish))
        events = [delta({"role": "assistant", "content": ""}), *(delta({"content": piece}) for piece in self._pieces)]
        return answer_with(
            200, b"".join([*events, delta({}, self._finish), DONE]), {"Content-Type": "text/event-stream"}
        )


class ProxyAdapter(Adapter):
    """The engine "vLLM without a parser + vllm-tool-proxy"."""

    name = "vllm-tool-proxy"
    pinned_version = __version__
    supports_text_deltas = True

    def version(self) -> str:
        return __version__

    def engine_details(self) -> dict[str, Any]:
        return {"server": "vLLM without --tool-call-parser and --reasoning-parser", "units": "characters"}

    def supports(self, family: str, model: str) -> Support:
        return Support(True)

    def parser_config(self, raw: ReplayInput) -> dict[str, Any]:
        return {"rules": "none", "served_model_name": _served_name(raw), "enable_thinking": raw.thinking}

    def units(self, raw: ReplayInput) -> list[int]:
        return [ord(character) for character in raw.text]

    def parse(self, raw: ReplayInput, tools: Sequence[ToolSpec]) -> ParseResult:
        return self._ask(raw, [raw.text], tools, stream=False)

    def parse_stream(self, raw: ReplayInput, chunks: Sequence[Sequence[int]], tools: Sequence[ToolSpec]) -> ParseResult:
        return self._ask(raw, ["".join(map(chr, chunk)) for chunk in chunks], tools, stream=True)

    def parse_stream_text(self, raw: ReplayInput, deltas: Sequence[str], tools: Sequence[ToolSpec]) -> ParseResult:
        return self._ask(raw, deltas, tools, stream=True)

    def _ask(self, raw: ReplayInput, pieces: Sequence[str], tools: Sequence[ToolSpec], *, stream: bool) -> ParseResult:
        """Return the response that a client of the proxy receives if the model writes these pieces."""
        state, model = make_state(Settings(upstream=URL), read_rules(None)), _served_name(raw)
        state.snapshot.servers = {URL: ParserlessVllm(model, raw.model, pieces, "length" if raw.truncated else "stop")}
        messages = [{"role": "user", "content": "Hi"}]
        body: dict[str, Any] = {
            "model": model,
            "messages": messages,
            "tools": list(tools) or [WRITE_FILE],
            "stream": stream,
        }
        if raw.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": raw.thinking, "thinking": raw.thinking}
        with Client(make_app(state)).post("/v1/chat/completions", json=body, buffered=True) as response:
            if response.status_code != 200:
                return ParseResult(exception=f"HTTP {response.status_code}: {response.get_data(as_text=True)}")
            return _streamed(response) if stream else _whole(response)


def _served_name(raw: ReplayInput) -> str:
    return os.environ.get("SERVED_NAME") or raw.model


def _answer(body: object, status: int = 200) -> UpstreamCall:
    return answer_with(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _whole(response: Response) -> ParseResult:
    message = json.loads(response.get_data())["choices"][0]["message"]
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = tuple(ParsedToolCall(function["name"], function["arguments"]) for function in functions)
    return ParseResult(message.get("content"), message.get("reasoning_content"), calls)


def _streamed(response: Response) -> ParseResult:
    received, error = StreamAccumulator(), None
    for line in response.get_data(as_text=True).splitlines():
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            error = f"error event: {event['error']}"
        for choice in event.get("choices") or ():
            received.add_openai_delta(choice["delta"])
    return received.result(error)
