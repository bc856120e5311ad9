"""Replay of one fixture: the server's side as a vLLM without parsers, and what a client of the proxy receives.

Each reply comes from a new application, so that nothing it learns from one reply changes the next. Tools are always
offered, as an agent does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canitoolcall import checks
from canitoolcall.fixtures import Fixture, load_families
from canitoolcall.results import Observation, ParsedToolCall, ParseResult, Status, StreamAccumulator
from werkzeug.test import Client
from werkzeug.wrappers import Response

from proxy.config.settings import Settings
from proxy.upstream.client import USUAL, ModelServer, ServerOptions, UpstreamCall, Waiting
from proxy.web.app import make_app
from tests.support.model_server import NO_PARSER
from tests.support.scripted import DONE, WRITE_FILE, completion, delta
from tests.support.socketless import answer_with
from tests.support.worker_state import make_state, read_rules

URL = "http://127.0.0.1:1"
ALIAS = "local-model"
# Streams per reply with pieces of random length, and the length of the longest piece.
RANDOM_CUTS = 5
LONGEST_PIECE = 12


class ParserlessVllm(ModelServer):
    """vLLM without `--tool-call-parser` and `--reasoning-parser`: the model's text is the content.

    Like vLLM, it rejects requests that let the model call tools, and names the weights as the model's `root`.
    """

    def __init__(self, model: str, root: str, pieces: Sequence[str], finish: str) -> None:
        super().__init__(ServerOptions(URL))
        self._model = model
        self._root = root
        self._pieces = pieces
        self._finish = finish

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, waiting: Waiting = USUAL
    ) -> UpstreamCall:
        if body is None:
            card = {"id": self._model, "object": "model", "owned_by": "vllm", "root": self._root}
            return _answer({"object": "list", "data": [card]})
        asked = json.loads(body)
        if asked.get("tools") and asked.get("tool_choice") != "none":
            return _answer({"error": {"message": NO_PARSER, "type": "BadRequestError", "code": 400}}, 400)
        if not asked.get("stream"):
            return _answer(completion("".join(self._pieces), self._finish))
        events = [delta({"role": "assistant", "content": ""}), *(delta({"content": piece}) for piece in self._pieces)]
        return answer_with(
            200, b"".join([*events, delta({}, self._finish), DONE]), {"Content-Type": "text/event-stream"}
        )


def _answer(body: object, status: int = 200) -> UpstreamCall:
    return answer_with(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def streams_of(text: str) -> dict[str, list[str]]:
    """Return the ways in which a reply is streamed, by name."""
    cuts = {"one piece": [text], "by character": list(text)}
    for seed in range(1, RANDOM_CUTS + 1):
        rng, pieces, rest = random.Random(seed), list[str](), text
        while rest:
            size = rng.randint(1, LONGEST_PIECE)
            pieces, rest = [*pieces, rest[:size]], rest[size:]
        cuts[f"random pieces {seed}"] = pieces
    return cuts


def observe(fixture: Fixture, model: str) -> Observation:
    """Return what a client receives whole and as each stream if the server serves the model under this name."""
    whole = _ask(fixture, model, [fixture.raw_output], stream=False)
    streams = {
        name: _ask(fixture, model, pieces, stream=True) for name, pieces in streams_of(fixture.raw_output).items()
    }
    return Observation(whole, streams)


def _ask(fixture: Fixture, model: str, pieces: Sequence[str], *, stream: bool) -> ParseResult:
    state = make_state(Settings(upstream=URL), read_rules(None))
    finish = "length" if fixture.truncated else "stop"
    state.snapshot.servers = {URL: ParserlessVllm(model, fixture.reference_model, pieces, finish)}
    messages, tools = [{"role": "user", "content": "Hi"}], list(fixture.tools or [WRITE_FILE])
    body: dict[str, Any] = {"model": model, "messages": messages, "tools": tools, "stream": stream}
    if fixture.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": fixture.thinking, "thinking": fixture.thinking}
    with Client(make_app(state)).post("/v1/chat/completions", json=body, buffered=True) as response:
        if response.status_code != 200:
            return ParseResult(exception=f"HTTP {response.status_code}: {response.get_data(as_text=True)}")
        return _streamed(response) if stream else _whole(response)


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


@dataclass(frozen=True)
class Verdict:
    """The suite's verdict on one fixture. `reason` is why it failed, `unstable` how streams differ from the answer."""

    id: str
    family: str
    status: Status
    reason: str
    unstable: str


def judge(fixture: Fixture, model: str | None) -> Verdict:
    """Replay a fixture and judge it; `model` is the served name, None for the fixture's own."""
    observed = observe(fixture, model or fixture.reference_model)
    rows = checks.run_checks(fixture, load_families()[fixture.family], observed)
    bad = [row for row in rows if row.status in (Status.FAIL, Status.ERROR)]
    reason = f"{bad[0].check} ({bad[0].strategy}): {bad[0].detail}" if bad else ""
    apart = [row for row in rows if row.check == "stream_equals_nonstream" and row.status is not Status.PASS]
    unstable = f"{', '.join(row.strategy for row in apart)}: {apart[0].detail}" if apart else ""
    return Verdict(fixture.id, fixture.family, checks.case_status(rows), reason, unstable)
