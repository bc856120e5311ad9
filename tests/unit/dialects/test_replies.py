"""Recorded replies of Messages and Responses: the engine's events, and the client's events and whole answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.reply_rows import Row, streamed, whole

ROWS = Path(__file__).parent / "rows"


def rows(dialect: str) -> Iterator[Any]:
    for number, line in enumerate((ROWS / f"{dialect}_replies.jsonl").read_text("utf-8").splitlines(), 1):
        row = {"dialect": dialect, **json.loads(line)}
        yield pytest.param(row, id=f"{dialect}:{number}:{row['name']}")


@pytest.mark.parametrize("row", [*rows("messages"), *rows("responses")])
def test_recorded_reply_is_written(row: Row) -> None:
    assert streamed(row) == row["out"]
    if "whole" in row:
        assert whole(row) == row["whole"]
