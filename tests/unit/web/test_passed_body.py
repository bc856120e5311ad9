"""The body of a path that passes: it is read where something in it counts, and then once."""

from __future__ import annotations

import json
from typing import Any

from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.upstream.api import COMPLETIONS, TOKENIZE
from proxy.web.context import RequestContext
from proxy.web.passed import PassedBody
from tests.support.worker_state import make_state, read_rules

EMBEDDINGS = "/v1/embeddings"
KEY = "X-Conversation-Key"
def passed(body: dict[str, Any] | bytes, path: str = EMBEDDINGS, rules: str = "", **settings: Any) -> PassedBody:
    read = parse_rules(rules.encode(), "r.yaml", read_rules(None)) if rules else read_rules(None)
    worker = make_state(Settings(**settings), read)
    data = body if isinstance(body, bytes) else json.dumps(body, indent=1).encode()
    return PassedBody(RequestContext("r1", worker, worker.current(), method="POST", body=data), path)


def key(body: dict[str, Any] | bytes, path: str = EMBEDDINGS, **settings: Any) -> str | None:
    return passed(body, path, **settings).headers({"CONTENT_TYPE": "application/json"}, None).get(KEY)


def test_a_text_to_complete_is_a_conversation_and_nothing_else_is() -> None:
    one, same, other = (key({"model": "tiny", "prompt": text}, COMPLETIONS) for text in ("a", "a", "b"))
    assert one == same != other and one is not None and len(one) == 32
    assert key({"model": "tiny", "prompt": ["a"]}, COMPLETIONS) == one
    assert key({"prompt": "a"}, TOKENIZE) is key({"input": "a"}) is key({"prompt": [1, 2]}, COMPLETIONS) is None
    assert key(b"", COMPLETIONS) is key(b"no JSON", COMPLETIONS) is key(b'["messages"]') is None
