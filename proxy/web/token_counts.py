"""The tokens of a text, counted by the model server."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.codec.json_access import as_list, as_object
from proxy.codec.json_text import JsonObject, dump_request, load_upstream
from proxy.errors import ProxyError
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import ModelServer
from proxy.upstream.paths import TOKENIZE
from proxy.upstream.responses import decoded, read_body

# Seconds in which it must have counted; a reply waits for it to end.
_SECONDS = 1.0


def tokens_of(text: str, model: str, server: ModelServer, headers: Mapping[str, str]) -> int:
    """The number of tokens of a text by `/tokenize`, as vLLM and llama.cpp have it; 0 where nobody says."""
    body: JsonObject = {"model": model, "prompt": text, "content": text, "add_special_tokens": False}
    wait = AnswerWait(None, Timeouts(_SECONDS, total=_SECONDS, until_complete=True))
    try:
        with server.open("POST", TOKENIZE, headers, dump_request(body)) as call:
            whole = read_body(decoded(call, wait.receive(call)))
            while True:
                try:
                    next(whole)
                except StopIteration as done:
                    return _count(done.value) if call.status == 200 else 0
    except (ProxyError, ValueError):
        return 0


def _count(data: bytes) -> int:
    """`{"count": 3}` of vLLM, `{"tokens": [1, 2, 3]}` of llama.cpp."""
    answer = as_object(load_upstream(data)[0])
    count = answer.get("count")
    return count if type(count) is int else len(as_list(answer.get("tokens")))
