"""The views of the Responses dialect beside the response itself: its tokens counted, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import Inside
from tests.support.answered_exchange import JSON, Answer, answering
from tests.support.helpers import ends, says
from tests.support.responses_checker import check_error, check_response, text_of
from tests.support.responses_client import INPUT_TOKENS, RESPONSES, ask, response_of
from tests.unit.exchange.test_reply_stream import ROLE, wire

URL = "http://127.0.0.1:9"
KEY, OTHER = {"Authorization": "Bearer one"}, {"Authorization": "Bearer two"}
METHODS = ["GET", "DELETE"]


@pytest.fixture(name="keeping")
def _keeping(inside: Inside, tmp_path: Path) -> FlaskClient:
    """The application, which keeps responses."""
    return inside(URL, runtime=tmp_path)


def made(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A response, kept for a key."""
    answering(monkeypatch, Answer([wire([ROLE, says("Hello"), ends()])]), models=("tiny",))
    return response_of(client.post(RESPONSES, json=ask("Hi"), headers=KEY))


def test_a_kept_response_is_there_for_its_key_until_it_is_deleted(
    keeping: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = made(keeping, monkeypatch)
    assert text_of(response) == "Hello"
    path = f"{RESPONSES}/{response['id']}"
    assert check_response(keeping.get(path, headers=KEY).data) == response
    assert keeping.delete(path, headers=KEY).json == {"id": response["id"], "object": "response", "deleted": True}
    assert keeping.get(path, headers=KEY).status_code == 404


@pytest.mark.parametrize("method", METHODS)
def test_under_another_key_or_another_name_there_is_none(
    keeping: FlaskClient, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    id_ = made(keeping, monkeypatch)["id"]
    for name, headers in ((id_, OTHER), (f"{id_}x", KEY)):
        answer = keeping.open(f"{RESPONSES}/{name}", method=method, headers=headers)
        assert "there is no response" in check_error(answer.data, answer.status_code)["message"]
        assert answer.status_code == 404


@pytest.mark.parametrize("method", METHODS)
def test_where_nothing_is_kept_the_client_is_told_what_to_do(inside: Inside, method: str) -> None:
    answer = inside(URL).open(f"{RESPONSES}/resp_1", method=method)
    assert answer.status_code == 400
    assert "send the whole conversation" in check_error(answer.data, 400)["message"]


def test_nothing_can_be_cancelled(keeping: FlaskClient) -> None:
    answer = keeping.post(f"{RESPONSES}/resp_1/cancel", headers=KEY)
    assert answer.status_code == 400
    assert "close the connection of a response to stop it" in check_error(answer.data, 400)["message"]


def test_a_kept_response_comes_whole(keeping: FlaskClient) -> None:
    answer = keeping.get(f"{RESPONSES}/resp_1?stream=true", headers=KEY)
    assert (answer.status_code, "comes whole" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("answer", "method", "number"),
    [(Answer([b'{"count": 41}'], JSON), "tokenize", 41), (Answer([b"no"], JSON, 404), "estimate", None)],
    ids=["by the server", "without it"],
)
def test_the_tokens_of_a_request_are_counted_and_the_way_is_told(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, answer: Answer, method: str, number: int | None
) -> None:
    server = answering(monkeypatch, answer, models=("tiny",))
    response = inside(URL).post(INPUT_TOKENS, json={"model": "tiny", "input": "Hi", "instructions": "rules"})
    assert (response.status_code, response.headers["X-Tool-Proxy-Count"]) == (200, method)
    told = response.json
    assert told is not None and told["object"] == "response.input_tokens" and told["input_tokens"] > 0
    assert number in (None, told["input_tokens"])
    contents = [message["content"] for message in json.loads(server.asked[0])["messages"]]
    assert contents == ["rules", "Hi"]
