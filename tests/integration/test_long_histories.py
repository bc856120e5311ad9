"""Long texts in a history: parsing time is linear in their length, whatever they contain (C7)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import Inside
from tests.support import messages_ask as in_messages
from tests.support import responses_ask as in_responses
from tests.support.dialects import DIALECTS
from tests.support.rows import table
from tests.support.scripted import Upstream, whole_reply

pytestmark = pytest.mark.once

# An idle processor needs 0.05 s for this size. With quadratic parsing it would need minutes.
SIZE = 250_000
SECONDS = 2.0
UNITS: dict[str, str] = table(__file__, "UNITS")
ARGUMENTS: dict[str, Callable[[str], str]] = {
    "alone": str,
    "in JSON": lambda text: json.dumps({"path": "a", "content": text}),
    "in a string": lambda text: f'{{"path": "a", "content": "{text}"}}',
    "in a string that breaks off": lambda text: f'{{"path": "a", "content": "{text}',
    "in Python": lambda text: f"{{'path': 'a', 'content': '{text}'}}",
    "after an object": lambda text: f'{{"path": "a", "content": "b"}}{text}',
}


def chat(text: str, arguments: str = "{}", result: str = "done") -> dict[str, Any]:
    """Return a chat request whose history contains this model text, a call and its result."""
    function = {"name": "write_file", "arguments": arguments}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": text, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]
    return DIALECTS["chat"].ask(streamed=False, tools=True, messages=messages)


def messages(text: str, arguments: str = "{}", result: str = "done") -> dict[str, Any]:
    """Return the same as a Messages request, where arguments are an object."""
    call = in_messages.call(name="write_file", input={"path": "a", "content": arguments})
    said = in_messages.assistant(in_messages.text(text), call)
    turns = [in_messages.user("Hi"), said, in_messages.user(in_messages.result(result))]
    return DIALECTS["messages"].ask(streamed=False, tools=True, messages=turns)


def responses(text: str, arguments: str = "{}", result: str = "done") -> dict[str, Any]:
    """Return the same as a Responses request."""
    said = in_responses.assistant(text), in_responses.call(name="write_file", arguments=arguments)
    items = [in_responses.user("Hi"), *said, in_responses.output(result)]
    return DIALECTS["responses"].ask(streamed=False, tools=True, input=items)


HISTORIES = {"chat": chat, "messages": messages, "responses": responses}


@pytest.fixture(scope="module", name="proxied")
def _proxied() -> Iterator[tuple[FlaskClient, Upstream]]:
    with Upstream() as server:
        yield Inside()(server.url), server


def seconds(proxied: tuple[FlaskClient, Upstream], dialect: str, body: dict[str, Any]) -> float:
    """Return the CPU time of a request. Its reply is a call, so the proxy searches the history for that call."""
    client, server = proxied
    said = '<tool_call>\n{"name": "write_file", "arguments": {"path": "b", "content": "c"}}\n</tool_call>'
    server.paths = {"/v1/chat/completions": whole_reply(said)}
    data = json.dumps(body).encode()
    began = time.thread_time()
    response = client.post(DIALECTS[dialect].path, data=data, content_type="application/json")
    taken = time.thread_time() - began
    assert response.status_code in (200, 400), response.data[:300]
    return taken


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("dialect", HISTORIES)
def test_long_texts_take_linear_time(proxied: tuple[FlaskClient, Upstream], dialect: str, unit: str) -> None:
    text = unit * (SIZE // len(unit))
    assert seconds(proxied, dialect, HISTORIES[dialect](text)) < SECONDS
    assert seconds(proxied, dialect, HISTORIES[dialect]("So.", result=text)) < SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("form", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("dialect", HISTORIES)
def test_long_arguments_take_linear_time(
    proxied: tuple[FlaskClient, Upstream], dialect: str, form: Callable[[str], str], unit: str
) -> None:
    arguments = form(unit * (SIZE // len(unit)))
    assert seconds(proxied, dialect, HISTORIES[dialect]("So.", arguments)) < SECONDS
