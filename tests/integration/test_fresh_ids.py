"""Unique ids in forked processes."""

from __future__ import annotations

import os

import pytest

from proxy.web.headers import fresh_bytes

pytestmark = pytest.mark.once


def test_a_forked_process_makes_different_ids() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, fresh_bytes(16))
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        os.close(writer)
        assert pipe.read() != fresh_bytes(16)
