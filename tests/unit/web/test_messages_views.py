"""The views of the Messages dialect beside the message itself: its tokens counted, and the models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from proxy.dialects.token_count import HEADER
from proxy.errors import UpstreamUnreachable
from tests.conftest import Inside
from tests.support.answered_exchange import JSON, Answer, answering
from tests.support.messages_checker import check_error
from tests.support.messages_client import COUNT, MODELS, VERSION

URL = "http://127.0.0.1:9"
ASKED: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
ALIAS = 'aliases: {"mine": tiny, "claude-*": tiny}\n'


@pytest.fixture(name="client")
def _client(inside: Inside) -> FlaskClient:
    return inside(URL)


def told(body: Any, status: int = 200) -> Answer:
    return Answer([json.dumps(body).encode()], JSON, status)


def listed(*names: str) -> Answer:
    return told({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "vllm"} for name in names]})


def test_tokens_are_counted_by_the_server_and_the_answer_says_how(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F95."""
    answering(monkeypatch, told({"count": 7, "max_model_len": 10, "tokens": []}), models=("tiny",))
    answer = client.post(COUNT, json=ASKED)
    assert (answer.status_code, answer.get_json()) == (200, {"input_tokens": 7})
    assert answer.headers[HEADER]


def test_where_no_server_counts_they_are_estimated(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, *[told({"detail": "Not Found"}, 404)] * 9, models=("tiny",))
    few = client.post(COUNT, json=ASKED)
    many = client.post(COUNT, json={**ASKED, "messages": [{"role": "user", "content": "word " * 1000}]})
    assert 0 < few.get_json()["input_tokens"] < 100 < many.get_json()["input_tokens"]
    assert few.headers[HEADER] == many.headers[HEADER] != ""


def test_a_key_that_the_server_refuses_is_told(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, *[told({"error": {"message": "wrong key"}}, 401)] * 9, models=("tiny",))
    answer = client.post(COUNT, json=ASKED)
    assert answer.status_code == 401 and "wrong key" in check_error(answer.data, 401)["error"]["message"]


def test_the_models_are_those_of_the_server_and_then_those_of_the_rules(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, listed("tiny", "large"))
    page = inside(URL, ALIAS).get(MODELS, headers=VERSION).get_json()
    assert page is not None and [each["id"] for each in page["data"]] == ["tiny", "large", "mine", "claude-tiny"]
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, "tiny", "claude-tiny")


def test_a_page_of_models_is_as_long_as_it_was_asked_for(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, listed("a", "b", "c"), listed("a", "b", "c"))
    first = client.get(f"{MODELS}?limit=2", headers=VERSION).get_json()
    assert first is not None and [each["id"] for each in first["data"]] == ["a", "b"] and first["has_more"]
    second = client.get(f"{MODELS}?limit=2&after_id=b", headers=VERSION).get_json()
    assert second is not None and [each["id"] for each in second["data"]] == ["c"] and not second["has_more"]


def test_other_clients_have_the_names_of_the_rules_too(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, listed("tiny"))
    page = inside(URL, ALIAS).get(MODELS).get_json()
    assert page is not None and page["object"] == "list"
    assert [each["id"] for each in page["data"]] == ["tiny", "mine", "claude-tiny"]


@pytest.mark.parametrize(("name", "status"), [("tiny", 200), ("mine", 200), ("claude-x", 200), ("other", 404)])
def test_a_model_is_there_under_each_of_its_names(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, name: str, status: int
) -> None:
    answering(monkeypatch, *[listed("tiny", "large")] * 2)
    answer = inside(URL, ALIAS).get(f"{MODELS}/{name}", headers=VERSION)
    assert answer.status_code == status
    if status == 200:
        assert answer.get_json()["id"] == name
    else:
        assert "is not served" in check_error(answer.data, status)["error"]["message"]


@pytest.mark.parametrize("name", ["tiny", "mine", "claude-tiny"])
@pytest.mark.parametrize(
    ("entry", "efforts"), [("", []), ("models: [{match: tiny, family: gpt-oss}]\n", ["low", "medium", "high"])]
)
def test_a_model_says_how_much_it_can_be_told_to_think_under_each_of_its_names(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, name: str, entry: str, efforts: list[str]
) -> None:
    """By its family in the rules, where its name does not tell it."""
    answering(monkeypatch, *[listed("tiny", "large")] * 2)
    told_of = inside(URL, ALIAS + entry).get(f"{MODELS}/{name}", headers=VERSION).get_json()
    assert told_of is not None and (told_of["display_name"], told_of["efforts"]) == ("tiny", efforts)


@pytest.mark.parametrize(
    ("failure", "status"), [(told({"error": {"message": "loading"}}, 503), 529), (UpstreamUnreachable("gone"), 502)]
)
@pytest.mark.parametrize("path", [MODELS, f"{MODELS}/tiny"])
def test_a_server_that_does_not_list_its_models_is_an_error(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch, path: str, failure: Answer | Exception, status: int
) -> None:
    answering(monkeypatch, failure)
    answer = client.get(path, headers=VERSION)
    assert answer.status_code == status
    check_error(answer.data, status)
