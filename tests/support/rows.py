"""Tables of tests as data: one JSON object per line, next to the test that reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def rows(test: str, names: str) -> pytest.MarkDecorator:
    """Parametrize by the rows that have exactly these fields, in the `.jsonl` file of the test module."""
    fields = names.split(",")
    path = Path(test).with_suffix(".jsonl")
    read = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    chosen = [[row[field] for field in fields] for row in read if [*row] == fields]
    assert chosen, f"{path}: no rows with {names}"
    values = [row[0] for row in chosen] if len(fields) == 1 else chosen
    return pytest.mark.parametrize(names, values, ids=[f"{at}" for at in range(len(values))])


def table(test: str, name: str) -> Any:
    """Return the value of the row that has only this field, for a table that several tests read."""
    lines = Path(test).with_suffix(".jsonl").read_text("utf-8").splitlines()
    return next(row[name] for row in map(json.loads, lines) if [*row] == [name])
