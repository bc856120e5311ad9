"""Every failure from the field has a test, and several failures of one server at the same time are repaired."""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_view import Got, entry, streamed, whole
from tests.support.helpers import calls, ends, piece, random_cut

COVERED = [*range(19, 48), 51, 52, 54, 55, 56, *range(64, 72)]
# Read takes only `path`, and bash only `command`, so a call without a name can be identified.
MEANT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("bash", {"command": "ls -la | grep '}{'"}),
    ("bash", {"command": 'echo "hi"', "timeout": 5, "background": True}),
    ("read", {"path": "a/ï🙂.txt", "limit": 10}),
    ("write_file", {"path": "b", "content": '{"name": "bash"}\n<tool_call>'}),
    ("now", {}),
)
REPLIES = 250


def test_each_failure_has_exactly_one_test_of_its_name() -> None:
    names: Counter[int] = Counter()
    for path in Path(__file__).parent.glob("test_failures_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_f"):
                number = node.name.removeprefix("test_f").split("_")[0]
                names.update([int(number)] if number.isdigit() else [])
    assert names == Counter(COVERED)


def _written(values: dict[str, Any], rng: random.Random, *, short: bool) -> Any:
    """Return arguments in one of the forms that servers send. If `short`, the last brace may be missing."""
    text = json.dumps(values)
    plain = json.dumps(values, ensure_ascii=False)
    ways: list[Any] = [text, text, plain, json.dumps(values, indent=1), json.dumps(text), values]
    if not values:
        ways += ["", None]
    strings = {key: str(value) if isinstance(value, int) else value for key, value in values.items()}
    return rng.choice([*ways, json.dumps(strings), f"{text}</tool_call>", text[:-1] if values and short else text])


class _BadServer:
    """A server's random style of indexes, ids and names, used for all its calls."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.index = rng.choice(["counts", "from one", "zero", "none"])
        # Otherwise a new id without a name could belong to the previous call (F46).
        self.counts = self.index in ("counts", "from one")
        self.id = rng.choice(["plain", "number", "always", "churn", "empty later"])
        self.name = rng.choice(["once", "always", "prefix", "case", *(["late"] if self.counts else [])])

    def call(self, number: int, name: str, arguments: Any) -> list[dict[str, Any]]:
        whole = not isinstance(arguments, str) or self.rng.random() < 0.2
        parts = [arguments] if whole else random_cut(arguments, self.rng)
        index = {"counts": number, "from one": number + 1, "zero": 0, "none": None}[self.index]
        spelled = self.spelled(number, name)
        said: list[dict[str, Any]] = []
        for place, part in enumerate(parts):
            named: Any = spelled if self._names(place, len(parts)) else ...
            said.append(piece(index, part, named, self._id(number, place)))
        return said

    def spelled(self, number: int, name: str) -> str:
        return {"prefix": f"functions.{name}:{number}", "case": name.upper()}.get(self.name, name)

    def _names(self, place: int, count: int) -> bool:
        if self.name == "late":
            return place == count - 1
        return place == 0 or self.name == "always"

    def _id(self, number: int, place: int) -> Any:
        if self.id == "number":
            return 100 + number if place == 0 else ...
        if self.id == "churn":
            return f"c{number}-{place}" if place == 0 or self.name == "once" else ...
        later: Any = {"always": f"c{number}", "empty later": ""}.get(self.id, ...)
        return f"c{number}" if place == 0 else later


def _reply(seed: int) -> tuple[list[tuple[str, dict[str, Any]]], Got, Got, str]:
    """Return the intended calls, the client's views of stream and whole response, and the server's output."""
    rng = random.Random(seed)
    server = _BadServer(rng)
    meant = [rng.choice(MEANT) for _ in range(rng.randint(1, 3))]
    deltas: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for number, (name, values) in enumerate(meant):
        # Without an index of its own, only the last brace separates a call from the next one.
        arguments = _written(values, rng, short=server.counts or number == len(meant) - 1)
        deltas += server.call(number, name, arguments)
        entries.append(entry(server.spelled(number, name), arguments, rng.choice([f"c{number}", number, None, ""])))
    chunks = [calls(*group) for group in _groups(deltas, rng)]
    finish = rng.choice(["stop", "tool_calls"])
    details = f"seed {seed}: {vars(server)} {deltas}"
    return meant, streamed(*chunks, ends(finish), cuts=0), whole({"tool_calls": entries}, finish), details


def _groups(deltas: list[Any], rng: random.Random) -> list[list[Any]]:
    groups: list[list[Any]] = [[]]
    for each in deltas:
        if groups[-1] and rng.random() < 0.8:
            groups.append([])
        groups[-1].append(each)
    return groups


@pytest.mark.slow
def test_several_failures_of_one_server_are_repaired() -> None:
    for seed in range(REPLIES):
        meant, *both, details = _reply(seed)
        for got in both:
            assert not got.error, details
            assert sorted(map(repr, got.values)) == sorted(map(repr, meant)), f"{got}\n{details}"
            assert (got.text, got.finish, len(set(got.ids))) == ("", "tool_calls", len(meant)), details


@pytest.mark.slow
def test_the_random_server_has_failures() -> None:
    """Without them the test above would prove nothing."""
    noted = {fix for seed in range(REPLIES) for fix in _reply(seed)[1].fixes}
    assert {"form", "name", "literal", "double_encoded", "junk", "closers", "empty_arguments", "finish"} <= noted
