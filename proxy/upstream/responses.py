"""Answers of the upstream that are read whole: bodies, and what an answer that is no success means."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from http import HTTPStatus

from proxy.codec.json_text import Json, dump_json, load_upstream
from proxy.codec.secrets import masked
from proxy.errors import ProxyError, UpstreamBroken, UpstreamRefused, UpstreamTimeout, refusal
from proxy.limits import MAX_ANSWER, MAX_ERROR_BODY
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import ModelServer, UpstreamCall
from proxy.upstream.connections import Waiting
from proxy.upstream.content_encoding import decoded
from proxy.upstream.headers import ERROR, response_headers

_MAX_QUOTED = 300


def read_body(
    parts: Iterable[bytes | None], limit: int = MAX_ANSWER, *, strict: bool = True
) -> Generator[None, None, bytes]:
    """All parts joined; yields where a part is None.

    Over the limit, and where the answer breaks off, it raises if `strict`; else it gives what came until there.
    """
    received: list[bytes] = []
    size = 0
    try:
        for part in parts:
            if part is None:
                yield
                continue
            received.append(part)
            size += len(part)
            if size > limit:
                raise UpstreamBroken(f"the model server's answer is longer than {limit} bytes")
    except UpstreamBroken:
        if strict or not received:
            raise
    return b"".join(received)[:limit]


def error_of_response(call: UpstreamCall, body: bytes, secrets: tuple[str, ...] = ()) -> ProxyError:
    """Return the error of a response other than 200: its own status and message, in the OpenAI shape.

    The `secrets` are masked before the message is cut, which could leave half a key.
    """
    status = call.status
    if 300 <= status < 400:
        return UpstreamBroken(f"the model server answered with a redirect ({status}), which is not followed")
    if not 400 <= status <= 599:
        return UpstreamBroken(f"the model server answered with status {status}")
    error = _error_of(call, masked(body, secrets))
    error.headers = response_headers(call, ERROR)
    return error


def _error_of(call: UpstreamCall, body: bytes) -> UpstreamRefused:
    try:
        parsed, is_strict = load_upstream(body)
        if not is_strict:
            body = dump_json(parsed)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        error = parsed.get("error")
        if isinstance(error, dict):
            return refusal(error, status=call.status, body=body)
        if isinstance(parsed.get("message"), str):
            return refusal(parsed, status=call.status)  # vLLM's older, flat form
        text = _words(error or parsed.get("detail"))
        if text:
            return refusal(text[:_MAX_QUOTED], status=call.status)
    return refusal(_described(call, body), status=call.status)


def _words(error: Json) -> str:
    """vLLM's 401 has a string for an error, FastAPI's 422 a list of what is wrong where; the SDKs expect an object.

    Of that list only place and message are said: it also holds the client's own input.
    """
    if not isinstance(error, list):
        return error if isinstance(error, str) else ""
    lines = []
    for item in error:
        if isinstance(item, dict) and isinstance(item.get("msg"), str):
            place = item.get("loc")
            lines.append(f"{'.'.join(map(str, place))}: {item['msg']}" if isinstance(place, list) else str(item["msg"]))
    return "; ".join(lines)


def _described(call: UpstreamCall, body: bytes) -> str:
    """A sentence for an answer without a JSON error: an HTML page of something between, or plain text."""
    try:
        phrase = f"{call.status} {HTTPStatus(call.status).phrase}"
    except ValueError:
        phrase = str(call.status)
    text = body.decode("utf-8", "replace").strip()
    if not text or text.startswith("<"):
        return f"the model server, or something before it, answered {phrase}" + (" with an HTML page" if text else "")
    return f"the model server answered {phrase}: {text[:_MAX_QUOTED]}"


def fetch(
    upstream: ModelServer, path: str, headers: Mapping[str, str], seconds: float, limit: int = MAX_ERROR_BODY
) -> tuple[int, bytes]:
    """GET something small: the status and at most `limit` bytes of the body, within about so many seconds.

    Raises an UpstreamError if there is no answer.
    """
    wait = AnswerWait(None, Timeouts(seconds))
    with upstream.open("GET", path, headers, waiting=Waiting(seconds)) as call:
        wait.alarm(time.monotonic() + seconds)
        whole = read_body(decoded(call, wait.receive(call)), limit, strict=False)
        try:
            next(whole)
        except StopIteration as done:
            return call.status, done.value
    raise UpstreamTimeout(f"the model server did not answer {path} within {seconds:g} s")
