"""What `make vllm` stands on, without a vLLM: its readers of answers, its rows, its scripts."""

from __future__ import annotations

import pytest

from tests.support.helpers import RECORDINGS
from tests.vllm.__main__ import fault_of
from tests.vllm.ask import cell
from tests.vllm.reply import read
from tests.vllm.rows import SAID, WRITTEN, Row

MEANT = [("write_file", WRITTEN)]
HERMES = RECORDINGS / "vllm-0.32.0-hermes"


def recorded(dialect: str, script: str, way: str) -> bytes:
    """What vLLM with hermes' parser answered."""
    folder = HERMES if dialect == "chat" else RECORDINGS / "messages" / HERMES.name
    return (folder / f"{script}-{dialect}-{way}-200.txt").read_bytes()


@pytest.mark.parametrize("way", ["stream", "plain"])
@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_a_recorded_call_is_read(dialect: str, way: str) -> None:
    assert cell(read(dialect, 200, recorded(dialect, "hermes", way)), MEANT) == "call"
    assert cell(read(dialect, 200, recorded(dialect, "plain", way)), MEANT) == "TEXT"
    assert cell(read(dialect, 200, recorded(dialect, "two", way)), MEANT).startswith("wrong call [")
    assert cell(read(dialect, 200, recorded(dialect, "two", way)), SAID["two"].calls) == "call"


def test_what_is_not_as_expected_is_told() -> None:
    row = Row("a", "hermes", "400/1", "call/2")
    assert fault_of(row, "400/1", "call/2") == ""
    assert fault_of(row, "400/2", "call/2") == "EXPECTED 400/1 directly"
    assert fault_of(row, "TEXT/1", "TEXT/1") == "EXPECTED 400/1 directly, EXPECTED call/2 through the proxy"
