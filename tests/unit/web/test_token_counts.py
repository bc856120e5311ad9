"""Tokens of a text, counted by the model server, or 0 if it does not report them."""

from __future__ import annotations

import pytest

from proxy.config.rules import Profile
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.web.answer import tokens_of
from proxy.web.context import TargetModel
from tests.support.scripted import Script, Upstream, answer


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ([answer(b'{"count": 3, "tokens": [1, 2]}')], 3),
        ([answer(b'{"count": 0}')], 0),
        ([answer(b'{"tokens": [1, 2, 3, 4]}')], 4),
        ([answer(b'{"count": true, "tokens": [1]}')], 1),
        *(([answer(body)], 0) for body in (b'{"count": "3"}', b"[1, 2]", b"not json", b"")),
        ([answer(b'{"count": 3}', 404)], 0),
        ([answer(b'{"count": 3}', headers={"Content-Length": "99"})], 0),
        ([answer(b'{"count": 3}')[:-6], 0.05, b'": 4}'], 0),
    ],
)
def test_the_answers_of_both_kinds_of_servers_are_read(script: Script, count: int) -> None:
    with Upstream(script) as server:
        upstream = ModelServer(ServerOptions(server.url))
        target = TargetModel("tiny", Profile(), upstream, {"X-Request-Id": "r1"}, family=None)
        assert tokens_of(target, "tiny", "a text") == count
        (seen,) = server.seen
    assert (seen.line, seen.headers["X-Request-Id"]) == ("POST /tokenize HTTP/1.1", "r1")
    assert (seen.json["model"], seen.json["prompt"], seen.json["content"]) == ("tiny", "a text", "a text")
