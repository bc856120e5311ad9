"""Hostile Responses requests: the result is a 400 that names the field or a valid response, never a defect."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from proxy.server.shared_file import FILE_NAME
from tests.conftest import Inside
from tests.support.messages_client import reply, serving
from tests.support.responses_checker import check_error
from tests.support.responses_client import RESPONSES, ask, response_of

pytestmark = pytest.mark.once


def test_names_ids_and_texts_with_lone_surrogates_are_supported(inside: Inside, tmp_path: Path) -> None:
    half = "\ud800"
    items = [
        {"type": "message", "role": "user", "content": half},
        {"type": "function_call", "call_id": half, "name": half, "arguments": half},
        {"type": "function_call_output", "call_id": half, "output": half},
        {"type": "custom_tool_call", "call_id": "c", "name": half, "input": half * 3},
    ]
    space = {"type": "namespace", "name": half, "description": half, "tools": [{"type": "function", "name": "x"}]}
    tools = [{"type": "function", "name": half}, space]
    body = ask(items, stream=False, tools=tools, instructions=half)
    with serving(reply(False, "Hello"), reply(False, "Hello")) as server:
        client = inside(server.url, runtime=tmp_path)
        made = response_of(client.post(RESPONSES, json={**body, "metadata": {half: half}}))
        goes_on = response_of(client.post(RESPONSES, json=ask("And?", stream=False, previous_response_id=made["id"])))
        contents = [message["content"] for message in server.seen[1].json["messages"]]
        assert half in contents[0] and contents[-1] == "And?"
        unknown = client.post(RESPONSES, json=ask(stream=False, previous_response_id=half))
    assert made["id"] != goes_on["id"]
    assert check_error(unknown.data, 404)["code"] == "previous_response_not_found"


def test_many_items_with_the_same_id(inside: Inside) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"}
    user = {"type": "message", "role": "user", "content": "a", "id": "msg_1"}
    with serving(reply(False, "Hello")) as server:
        body = ask([user, *[call] * 5_000, *[{"type": "function_call_output", "call_id": "c", "output": "x"}] * 5_000])
        response_of(inside(server.url).post(RESPONSES, json={**body, "stream": False}))
        messages = server.seen[0].json["messages"]
    made = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    paired = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert len(set(made)) == 5_000 and sorted(paired) == sorted(made)


def damaged(path: Path, how: str) -> None:
    """Damage the file while the proxy runs."""
    for beside in path.parent.glob(f"{FILE_NAME}-*"):
        beside.unlink()
    if how == "deleted":
        path.unlink()
    elif how == "other bytes":
        path.write_bytes(b"no database at all, but long enough " * 200)
    elif how == "broken pages":
        data = path.read_bytes()
        path.write_bytes(data[:100] + bytes(at % 251 for at in range(len(data) - 100)))


def test_a_deleted_file_is_created_again(inside: Inside, tmp_path: Path) -> None:
    with serving(*[reply(False, "Hello")] * 2) as server:
        client = inside(server.url, runtime=tmp_path)
        made = _made(client)
        damaged(tmp_path / FILE_NAME, "deleted")
        assert client.get(f"{RESPONSES}/{made['id']}").status_code == 404
        assert client.get(f"{RESPONSES}/{_made(client)['id']}").status_code == 200


@pytest.mark.parametrize("how", ["other bytes", "broken pages"])
def test_a_damaged_file_is_replaced(inside: Inside, tmp_path: Path, how: str, logged: pytest.LogCaptureFixture) -> None:
    with serving(*[reply(False, "Hello")] * 2) as server:
        made = _made(inside(server.url, runtime=tmp_path))
        gc.collect()  # closes the first worker's connection
        damaged(tmp_path / FILE_NAME, how)
        client = inside(server.url, runtime=tmp_path)
        assert client.get(f"{RESPONSES}/{made['id']}").status_code == 404
        assert client.get(f"{RESPONSES}/{_made(client)['id']}").status_code == 200
    assert "it is deleted and created again" in logged.text


def _made(client: FlaskClient) -> dict[str, Any]:
    return response_of(client.post(RESPONSES, json=ask(stream=False)))
