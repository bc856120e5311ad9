"""The response that gunicorn iterates over."""

from __future__ import annotations

from types import SimpleNamespace

from werkzeug.wsgi import ClosingIterator

from proxy.server.pump_worker import Answer


def test_a_response_whose_client_leaves_is_closed_once() -> None:
    closed: list[int] = []
    given = ClosingIterator(iter([b"a", b"b"]), lambda: closed.append(1))
    answer = Answer(given, SimpleNamespace(response_length=2), None, SimpleNamespace(give_back=lambda: None))  # type: ignore[arg-type]
    parts = iter(answer)
    assert next(parts) == b"a"
    parts.close()  # type: ignore[attr-defined]
    answer.close()
    assert closed == [1]
