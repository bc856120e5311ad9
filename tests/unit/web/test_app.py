"""The application: which view a path has, and errors in the path's dialect; no model server is asked."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import pytest
from flask.testing import FlaskClient

from proxy.config.api_keys import ClientKey, Keys
from proxy.web import admission, routes
from proxy.web.routes import Route
from tests.conftest import Inside
from tests.support.messages_checker import check_error as check_messages_error
from tests.support.responses_checker import check_error as check_responses_error

URL = "http://127.0.0.1:9"
VERSION = {"anthropic-version": "2023-06-01"}
MODELS = "/v1/models"


@pytest.fixture(name="client")
def _client(inside: Inside) -> FlaskClient:
    return inside(URL)


def words_of(body: Any) -> str:
    """What an error in the words of OpenAI's chat says."""
    message: str = body["error"]["message"]
    return message


@pytest.mark.parametrize("route", [*routes.API, *routes.HEALTH, routes.READY, routes.RELOAD, routes.METRICS], ids=str)
def test_each_route_takes_its_methods_and_no_other(client: FlaskClient, route: Route) -> None:
    path = route.path.replace("{id}", "tiny").replace("{response}", "resp_1")
    answer = client.options(path)
    assert answer.status_code == 204 and {*answer.headers["Allow"].split(", ")} >= {*route.methods, "OPTIONS"}
    refused = client.patch(path)
    assert refused.status_code == 405 and refused.headers["Allow"] == answer.headers["Allow"]


@pytest.mark.parametrize(
    "headers",
    [
        *({"Host": host} for host in ("localhost", "a b", "[::1", "a/b", "a:b", "a..b", "x" * 300)),
        {"Connection": "Upgrade", "Upgrade": "websocket"},
    ],
)
def test_a_route_is_told_by_its_path_alone(client: FlaskClient, headers: dict[str, str]) -> None:
    """A `Host` that is no name, and an upgrade that need not be taken (RFC 9110, 7.8), were answered 400 in words
    about a browser.
    """
    assert client.get("/health", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/for/pi/", "/health", "/_health", "/metrics"])
def test_what_is_the_proxys_own_is_answered(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers", "dialect"),
    [
        ("/v1/chat/completions", {}, "chat"),
        ("/v1/chat/completions", VERSION, "chat"),
        ("/v1/messages", {}, "messages"),
        ("/for/pi/v1/messages", {}, "messages"),
        ("/v1/responses", {}, "responses"),
        ("/elsewhere", {}, "chat"),
        ("/elsewhere", VERSION, "messages"),
    ],
)
def test_an_error_is_told_in_the_dialect_of_its_path(
    client: FlaskClient, path: str, headers: dict[str, str], dialect: str
) -> None:
    answer = client.patch(path, headers=headers)
    assert answer.status_code in (404, 405) and answer.headers["X-Should-Retry"] == "false"
    assert ("Request-Id" in answer.headers) is (dialect == "messages")
    if dialect == "messages":
        check_messages_error(answer.data, answer.status_code)
    elif dialect == "responses":
        check_responses_error(answer.data, answer.status_code)
    else:
        assert words_of(answer.get_json())


def test_a_path_that_is_none_says_which_there_are(inside: Inside) -> None:
    words = words_of(inside(URL, pass_through=("/rerank",)).get("/nowhere").get_json())
    assert "/v1/chat/completions" in words and "/rerank" in words and "pass_through" in words


@pytest.mark.parametrize("path", ["/rerank", "/for/pi/rerank"])
def test_a_listed_path_takes_the_methods_of_such_paths(inside: Inside, path: str) -> None:
    client = inside(URL, pass_through=("/rerank",))
    assert client.options(path).headers["Allow"] == "GET, HEAD, POST, PUT, DELETE, OPTIONS"
    assert client.patch(path).status_code == 405


@pytest.mark.parametrize("name", ["..", ".", "a/../b", "a%20b", "a%3Fb", "ü", "a//b", "a%0A"])
def test_the_name_of_a_model_is_plain_words(client: FlaskClient, name: str) -> None:
    """It is the only part of a path that goes up and comes from the client."""
    answer = client.get(f"{MODELS}/{name}")
    assert answer.status_code == 404, answer.text


def test_codex_is_told_at_once_that_no_websocket_is_spoken(client: FlaskClient) -> None:
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
    assert client.get("/v1/responses", headers=upgrade).status_code == 426
    assert client.get("/v1/chat/completions", headers=upgrade).status_code == 405
    assert client.get("/v1/responses").status_code == 405


@pytest.mark.parametrize(("given", "kept"), [("my-id.1", True), ("a b", False), ("", False), ("x" * 65, False)])
def test_each_answer_says_its_id(client: FlaskClient, given: str, kept: bool) -> None:
    answer = client.get("/health", headers={"X-Request-Id": given})
    assert (answer.headers["X-Request-Id"] == given) is kept and answer.headers["X-Request-Id"]


def test_a_defect_is_told_without_its_words_and_logged(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("the inside of it")

    monkeypatch.setattr(admission, "let_in", fails)
    answer = client.get("/health")
    assert answer.status_code == 500 and "inside" not in answer.text
    assert any(record.levelno == logging.ERROR and record.exc_info for record in logged.records)


def test_a_key_of_the_client_leaves_in_no_answer(inside: Inside) -> None:
    key = "sk-0123456789-abcdefghijklmnop"
    keys = Keys(clients=(ClientKey("alice", hashlib.sha256(b"other").digest()),))
    client = inside(URL, keys=keys)
    for path in (f"{MODELS}/{key}!", f"/nowhere/{key}", "/v1/chat/completions"):
        answer = client.get(path, headers={"Authorization": f"Bearer {key}", "X-Request-Id": key})
        assert key not in answer.text and key not in str(answer.headers)


def test_a_request_that_ended_holds_nothing(inside: Inside) -> None:
    client = inside(URL)
    for path in ("/health", "/nowhere", "/v1/chat/completions"):
        client.get(path)
    assert client.get("/health").get_json()["active_requests"] == 0


def test_a_page_of_another_site_is_refused_and_an_allowed_one_may_read(inside: Inside) -> None:
    other = {"Origin": "https://evil.example"}
    assert inside(URL).get("/health", headers=other).status_code == 403
    answer = inside(URL, origins=("https://evil.example",)).get("/health", headers=other)
    assert answer.status_code == 200 and answer.headers["Access-Control-Allow-Origin"] == "https://evil.example"
