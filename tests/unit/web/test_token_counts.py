"""The tokens of a text, counted by the model server: 0 where nobody says."""

from __future__ import annotations

import json
from typing import cast

import pytest

from proxy.errors import UpstreamBroken, UpstreamUnreachable
from proxy.upstream.client import ModelServer
from proxy.web.answer import tokens_of
from tests.support.answered_exchange import JSON, Answer, Server, answering


def counted(monkeypatch: pytest.MonkeyPatch, answer: Answer | Exception) -> tuple[int, Server]:
    server = answering(monkeypatch, answer)
    return tokens_of("a text", "tiny", cast(ModelServer, server), {"X-Request-Id": "r1"}), server


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"count": 3, "tokens": [1, 2]}', 3),
        (b'{"count": 0}', 0),
        (b'{"tokens": [1, 2, 3, 4]}', 4),
        (b'{"count": true, "tokens": [1]}', 1),
        (b'{"count": "3"}', 0),
        (b"[1, 2]", 0),
        (b"not json", 0),
        (b"", 0),
    ],
)
def test_the_answer_of_either_kind_of_server_is_read(monkeypatch: pytest.MonkeyPatch, body: bytes, count: int) -> None:
    answer = Answer([body[:4], None, body[4:]], JSON)
    assert counted(monkeypatch, answer)[0] == count
    assert answer.closed


def test_both_kinds_are_asked_with_one_body(monkeypatch: pytest.MonkeyPatch) -> None:
    _, server = counted(monkeypatch, Answer([b"{}"], JSON))
    assert server.seen == [("POST", "/tokenize", {"X-Request-Id": "r1"})]
    asked = json.loads(server.asked[0])
    assert (asked["model"], asked["prompt"], asked["content"]) == ("tiny", "a text", "a text")


@pytest.mark.parametrize(
    "answer",
    [Answer([b'{"count": 3}'], JSON, 404), UpstreamUnreachable("nobody there"), Answer([UpstreamBroken("off")], JSON)],
    ids=["no such path", "not there", "broken off"],
)
def test_an_error_costs_the_number_alone(monkeypatch: pytest.MonkeyPatch, answer: Answer | Exception) -> None:
    assert counted(monkeypatch, answer)[0] == 0
