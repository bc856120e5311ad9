"""Ids in processes that are forked from each other."""

from __future__ import annotations

import os

import pytest

from proxy.web.headers import fresh_bytes

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
