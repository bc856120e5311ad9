"""The way of a chat request's body up to the model server: down through the modules, and back into none of them.

`docs/architecture.md` tells it; the bytes, the object that they are, and the request that is read of it are followed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from proxy.dialects.chat.request import ChatRequest
from tests.conftest import Inside
from tests.support.scripted import DONE, ROLE, WRITE_FILE, Upstream, answer, chat, completion, finish, stream, text

WAY = [
    "proxy.web.request_body.parse_body",
    "proxy.codec.json_text.load_json",
    "proxy.exchange.routing.conversation_of",
    "proxy.dialects.conversation_key.conversation_key",
    "proxy.dialects.chat.request.read_chat",
    "proxy.web.thinking.with_thinking",
    "proxy.thinking.request.think",
    "proxy.thinking.switches.switched",
    "proxy.thinking.history.given_back",
    "proxy.thinking.splitting.thoughts_of",
    "proxy.exchange.loop_guard.limit_answer",
    "proxy.exchange.second_try.reasons_to_ask_again",
    "proxy.exchange.plan.upstream_request",
    "proxy.healing.heal.heal_request",
    "proxy.exchange.task.make_task",
    "proxy.activity.recording.begin_try",
    "proxy.exchange.capture.__init__",
    "proxy.upstream.client.open",
    "proxy.upstream.connections.request",
]


def is_body(value: object) -> bool:
    """True for the body of a chat request, in each form that it has on its way."""
    if isinstance(value, ChatRequest):
        return True
    if isinstance(value, bytes):
        return b'"messages"' in value
    return isinstance(value, dict) and "messages" in value


@contextmanager
def followed(entered: list[str]) -> Iterator[None]:
    """While it lasts, note each function of the proxy that another module of the proxy calls with the body."""

    def profile(frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back
        if event != "call" or caller is None or frame.f_code.co_filename == "<string>":
            return
        module, above = frame.f_globals.get("__name__", ""), caller.f_globals.get("__name__", "")
        if module == above or {"proxy.healing"} == {each.rpartition(".")[0] for each in (module, above)}:
            return  # what the healing does within itself is its own matter
        if not (module.startswith("proxy.") and above.startswith("proxy.")):
            return
        given = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
        if any(is_body(frame.f_locals[name]) for name in given):
            entered.append(f"{module}.{frame.f_code.co_name}")

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_chat_body_enters_each_module_at_most_once(inside: Inside, streamed: bool) -> None:
    entered: list[str] = []
    whole = [answer(completion("a"))]
    with Upstream(stream(ROLE, text("a"), finish(), DONE) if streamed else whole) as server:
        client = inside(server.url)
        with followed(entered):
            response = client.post("/v1/chat/completions", json=chat(stream=streamed, tools=[WRITE_FILE]))
        assert response.status_code == 200
    assert entered == WAY
    modules = [each.rpartition(".")[0] for each in entered]
    assert len(modules) == len(set(modules))
