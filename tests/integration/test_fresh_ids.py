"""Ids in processes that are forked from each other."""

from __future__ import annotations

import os

import pytest

from proxy.web.headers import fresh_bytes
from tests.conftest import Inside
from tests.support.helpers import OFFERED
from tests.support.scripted import Upstream, answer, completion

pytestmark = pytest.mark.once


def test_a_process_that_is_forked_makes_others() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, fresh_bytes(16))
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        os.close(writer)
        assert pipe.read() != fresh_bytes(16)


def test_the_calls_of_two_requests_have_different_ids(inside: Inside) -> None:
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "Read it."}], "tools": [*OFFERED]}
    text = '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'
    with Upstream() as upstream:
        client = inside(upstream.url)
        upstream.play(*[[answer(completion(text))]] * 2)
        answers = [client.post("/v1/chat/completions", json=asked).get_json() for _ in range(2)]
    first, second = (each["choices"][0]["message"]["tool_calls"][0]["id"] for each in answers)
    assert first != second
