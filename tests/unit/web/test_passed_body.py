"""The body of a path that passes: it is read where something in it counts, and then once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.codec.json_text import load_json
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.upstream.paths import COMPLETIONS, TOKENIZE
from proxy.web import passed as module
from proxy.web.context import RequestContext
from proxy.web.passed import PassedBody
from tests.support.worker_state import make_state, read_rules

EMBEDDINGS = "/v1/embeddings"
KEY = "X-Conversation-Key"
SAID = [{"role": "user", "content": "Hi"}]
CHAT: dict[str, Any] = {"model": "large-1", "messages": SAID}
URLS = 'models: [{match: "large*", url: "http://127.0.0.1:8"}]\n'
# A template that asks for a tool's parameters fails where there are none.
UNTIDY = {**CHAT, "tools": [{"type": "function", "function": {"name": "read"}}]}


def passed(body: dict[str, Any] | bytes, path: str = EMBEDDINGS, rules: str = "", **settings: Any) -> PassedBody:
    read = parse_rules(rules.encode(), "r.yaml", read_rules(None)) if rules else read_rules(None)
    worker = make_state(Settings(**settings), read)
    data = body if isinstance(body, bytes) else json.dumps(body, indent=1).encode()
    return PassedBody(RequestContext("r1", worker, worker.current(), method="POST", body=data), path)


def key(body: dict[str, Any] | bytes, path: str = EMBEDDINGS, **settings: Any) -> str | None:
    return passed(body, path, **settings).headers({"CONTENT_TYPE": "application/json"}, None).get(KEY)


@pytest.mark.parametrize(
    ("body", "rules", "name"),
    [
        (b'{"model": "large-1"}', URLS, "large-1"),
        (b'{"model": "large-1"}', "", None),
        (b"", URLS, None),
        (b"no JSON", URLS, None),
        (b'["large-1"]', URLS, None),
        (b'{"model": 7}', URLS, None),
    ],
)
def test_the_model_counts_where_it_decides_where_the_request_goes(body: bytes, rules: str, name: str | None) -> None:
    assert passed(body, rules=rules).model() == name


def test_a_text_to_complete_is_a_conversation_and_nothing_else_is() -> None:
    one, same, other = (key({"model": "tiny", "prompt": text}, COMPLETIONS) for text in ("a", "a", "b"))
    assert one == same != other and one is not None and len(one) == 32
    assert key({"model": "tiny", "prompt": ["a"]}, COMPLETIONS) == one
    assert key({"prompt": "a"}, TOKENIZE) is key({"input": "a"}) is key({"prompt": [1, 2]}, COMPLETIONS) is None
    assert key(b"", COMPLETIONS) is key(b"no JSON", COMPLETIONS) is key(b'["messages"]') is None


@pytest.mark.parametrize(("body", "times"), [({"model": "large-1", "input": "a"}, 0), (UNTIDY, 1)])
def test_a_body_is_read_once_and_only_where_it_counts(
    monkeypatch: pytest.MonkeyPatch, body: dict[str, Any], times: int
) -> None:
    read: list[bytes | str] = []

    def reads(data: bytes | str) -> Any:
        read.append(data)
        return load_json(data)

    monkeypatch.setattr(module, "load_json", reads)
    plain = passed(body)
    assert plain.headers({}, None) and plain.upward({}) and plain.model() is None and len(read) == times
    read.clear()
    counted = passed(UNTIDY, TOKENIZE, URLS)
    assert counted.headers({}, None)[KEY] and counted.upward({}) and counted.model() == "large-1" and len(read) == 1
