"""A snapshot: what is learnt of the upstream under one set of rules, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.config.settings import Settings
from proxy.worker.snapshot import Snapshot, make_snapshot
from tests.support.worker_state import read_rules


def snapshot(url: str, **settings: Any) -> Snapshot:
    return make_snapshot(Settings(upstream=url, **settings), read_rules(None))


def test_what_is_remembered_is_bounded() -> None:
    """C7: a client that invents models cannot fill the memory."""
    known = snapshot("http://127.0.0.1:1")
    for number in range(3000):
        known.remember(f"model-{number}")
    assert known.parses("model-0") and not known.parses("model-2999")


def test_a_client_s_word_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    snapshot("http://127.0.0.1:1").remember("evil\nERROR forged" + "x" * 500)
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.messages[0] and len(caplog.messages[0]) < 300
