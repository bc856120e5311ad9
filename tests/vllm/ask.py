"""Requests to vLLM, directly or through the proxy, and one-word results for a client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from tests.agents.shape import answers_in
from tests.agents.tap import Tap
from tests.real.vllm import VllmServer
from tests.support import messages_checker, messages_client, responses_checker, responses_client
from tests.support.reply import Call, Reply, Seen, events, read
from tests.support.scripted import WRITE_FILE

PATIENCE = 120
Checker = Callable[[bytes], object]
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
OFFERED = {"chat": WRITE_FILE, "messages": messages_client.TOOL, "responses": responses_client.TOOL}
_CHECKERS: Mapping[str, tuple[Checker, Checker]] = {
    "messages": (messages_checker.check_message, messages_checker.check_stream),
    "responses": (responses_checker.check_response, responses_checker.check_stream),
}


@dataclass(frozen=True)
class Side:
    """The target of a row's requests: its `url`, the vLLM server, and the row's model name.

    If the target is the proxy, `tap` records the traffic between the proxy and vLLM.
    """

    url: str
    server: VllmServer
    model: str
    tap: Tap | None = None

    def body(self, dialect: str, script: str, **more: Any) -> dict[str, Any]:
        """Return a request with a script and an offered tool, without the fields that are None."""
        words = f"Go on. [[script:{script}]]"
        turns: dict[str, Any] = {"input": words}
        if dialect != "responses":
            turns = {"messages": [{"role": "user", "content": words}]}
        if dialect == "messages":
            turns["max_tokens"] = 1000
        body = {"model": self.model, **turns, "tools": [OFFERED[dialect]], **more}
        return {name: value for name, value in body.items() if value is not None}

    def post(self, dialect: str, body: dict[str, Any]) -> Reply:
        with session() as client:
            answer = client.post(self.url + PATHS[dialect], json=body, timeout=PATIENCE)
        return read(dialect, answer.status_code, answer.content)


def session() -> requests.Session:
    """Return a client that ignores proxies in the environment."""
    made = requests.Session()
    made.trust_env = False
    return made


def cell(reply: Reply, expected: Sequence[Call]) -> str:
    """Return a client's result of the answer, one word per choice."""
    if reply.status >= 400:
        return str(reply.status)
    if reply.error:
        return "ERROR"
    return "+".join(_word(reply.choices[index], expected) for index in sorted(reply.choices)) or "SILENT"


def _word(seen: Seen, expected: Sequence[Call]) -> str:
    if seen.calls:
        return "call" if seen.calls == [*expected] else f"wrong call {seen.calls}"
    if seen.text.strip():
        return "TEXT"
    return "thought" if seen.thinking.strip() else "SILENT"


def misshapen(dialect: str, reply: Reply) -> str:
    """Return the rule of its dialect that a success breaks, or "". Chat has no such strict reader."""
    if reply.status != 200 or dialect not in _CHECKERS:
        return ""
    whole, streamed = _CHECKERS[dialect]
    try:
        if reply.data.lstrip().startswith(b"{"):
            whole(reply.data)
        else:
            streamed(reply.data)
    except AssertionError as error:
        return str(error)
    return ""


def is_one_of(sent: Sequence[bytes], got: bytes) -> bool:
    """Return whether the answer is one of `sent`.

    The events of two choices may be reordered: text that may become a call is held while the other choice continues.
    """
    return got in sent or any(_by_choice(each) == _by_choice(got) for each in sent)


def _by_choice(data: bytes) -> dict[tuple[int, ...], list[bytes]]:
    """Return the events of a stream by choice."""
    found: dict[tuple[int, ...], list[bytes]] = {}
    for event in data.split(b"\n\n"):
        indexes = tuple(entry["index"] for body in events(event) for entry in body.get("choices") or ())
        found.setdefault(indexes, []).append(event)
    return found


def bodies(got: bytes) -> list[bytes]:
    """Return the bodies of the answers on one connection, in order."""
    return [each.body for each in answers_in(got, itertools.repeat("POST"))]
