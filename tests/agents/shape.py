"""Checks of a run's traffic: the dialect's rules, reasoning in both directions, and the server's answers."""

from __future__ import annotations

import contextlib
import io
import json
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents.agent import THOUGHT
from tests.agents.tap import Request, requests_in
from tests.support import messages_checker, responses_checker
from tests.support.reply import Reply, Seen, read


class Answer(NamedTuple):
    """A received answer; `whole` is false if its connection ended early."""

    status: int
    type: str
    body: bytes
    whole: bool = True


class _Bytes(io.BytesIO):
    """Received bytes, as the socket that `HTTPResponse` reads and closes after each answer."""

    def makefile(self, mode: str) -> _Bytes:
        """Return the bytes after the last answer."""
        return self

    def close(self) -> None:
        """Stay open for the next answer."""


def answers_in(data: bytes, methods: Iterable[str]) -> Iterator[Answer]:
    """Yield the answers of a server on one connection, to requests of these methods."""
    source = _Bytes(data)
    for method in methods:
        answer = HTTPResponse(source, method=method)  # type: ignore[arg-type]
        try:
            answer.begin()
        except (HTTPException, ConnectionError):
            return  # the connection ended early
        kind = answer.headers.get_content_type()
        try:
            yield Answer(answer.status, kind, answer.read())
        except IncompleteRead as cut:
            yield Answer(answer.status, kind, cut.partial, whole=False)


def faults(folder: Path, dialect: str) -> Iterator[str]:
    """Yield the rules that a run's answers to the agent break. Chat completions are not checked."""
    if dialect not in RULES:
        return
    for request, answer in exchanges(folder):
        if fault := fault_of(RULES[dialect], request, answer):
            yield f"{request.method} {request.path}: {fault}"


def exchanges(folder: Path, side: str = "agent") -> Iterator[tuple[Request, Answer]]:
    """Yield the requests with their answers on a side of a run, the agent's or the model server's."""
    for sent in sorted(folder.glob(f"{side}-*-sent.txt")):
        asked = [*requests_in(sent.read_bytes())]
        got = sent.with_name(sent.name.replace("-sent", "-got")).read_bytes()
        yield from zip(asked, answers_in(got, [each.method for each in asked]), strict=False)


DIALECTS = {"/v1/chat/completions": "chat", "/v1/messages": "messages", "/v1/responses": "responses"}


def said(folder: Path, side: str = "agent") -> list[Seen]:
    """Return the content of each answer on a side of a run; unreadable answers are empty."""
    found = []
    for request, answer in exchanges(folder, side):
        if request.path in DIALECTS:
            reply = Reply(answer.status, answer.body)
            with contextlib.suppress(ValueError, LookupError):
                reply = read(DIALECTS[request.path], answer.status, answer.body)
            found.append(reply.choice())
    return found


class Rules(NamedTuple):
    """A dialect's path, and its checks, which raise AssertionError for an answer that breaks a rule."""

    path: str
    stream: Callable[[bytes], object]
    whole: Callable[[bytes], object]
    error: Callable[[bytes, int], object]


RULES: Mapping[str, Rules] = {
    "messages": Rules(
        "/v1/messages",
        partial(messages_checker.check_stream, left_open=True),
        messages_checker.check_message,
        messages_checker.check_error,
    ),
    "responses": Rules(
        "/v1/responses",
        responses_checker.check_stream,
        responses_checker.check_response,
        responses_checker.check_error,
    ),
}


def fault_of(rules: Rules, request: Request, answer: Answer) -> str:
    """Return the fault of an answer, or "". Only answers from the dialect's own path are checked."""
    if (request.method, request.path) != ("POST", rules.path):
        return ""
    streamed = bool(json.loads(request.body).get("stream"))
    # After the last event, which the rules check, an agent may close the connection before the last chunk.
    if not answer.whole and not (streamed and answer.status == 200):
        return "the answer is incomplete"
    try:
        if answer.status != 200:
            rules.error(answer.body, answer.status)
        elif streamed:
            rules.stream(answer.body)
        else:
            rules.whole(answer.body)
    except AssertionError as fault:
        return str(fault)
    return ""


Body = Mapping[str, Any]
# The reasoning's place in the template.
_PLACE = f"<|im_start|>assistant\n<think>\n{THOUGHT}\n</think>\n\n"
_SECONDS = 20


def thought_faults(folder: Path, bodies: Iterable[Body], server: str) -> Iterator[str]:
    """Yield the faults of the reasoning: it must reach the agent, and return in the next prompt."""
    answers = said(folder)
    if {each.thinking for each in answers if each.thinking} != {THOUGHT}:
        yield f"the agent received the reasoning {[each.thinking for each in answers]}"
    for each in answers:
        if THOUGHT in each.text or "think>" in each.text:
            yield f"the agent received the text {each.text!r}"
    last = max(bodies, key=lambda body: len(body["messages"]))
    prompt = _rendered(last, server)
    if _PLACE not in prompt:
        yield f"the next prompt lacks the reasoning: {prompt[-600:]!r}"


def _rendered(body: Body, server: str) -> str:
    """Return the model server's prompt for a conversation, without the start of an answer."""
    asked = {"messages": body["messages"], "tools": body.get("tools"), "add_generation_prompt": False}
    request = urllib.request.Request(
        f"{server}/apply-template", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        prompt: str = json.load(answer)["prompt"]
    return prompt


# A server may parse this notation itself.
_MARKS = ("<tool_call>", "</tool_call>")


def server_faults(folder: Path, meant: str) -> Iterator[str]:
    """Yield a fault if no answer of the model server has the model's intended text, or the parsed calls."""
    found = said(folder, "server")
    if not any(_means(each, meant) for each in found):
        yield f"the model server did not send {meant!r}, but {[(each.text, each.calls) for each in found]}"


def _means(found: Seen, meant: str) -> bool:
    if not found.calls:
        return found.text == meant
    before, _, call = meant.partition(_MARKS[0])
    try:
        written = json.loads(call.removesuffix(_MARKS[1]))
    except ValueError:
        return False
    read = [{"name": name, "arguments": arguments} for name, arguments in found.calls]
    return read == [written] and found.text.strip() == before.strip()
