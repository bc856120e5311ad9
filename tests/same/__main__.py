"""`python -m tests.same OLD_COMMIT`: print the differences between that commit's answers and this tree's."""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.same.cases import ROOT, as_json, cases
from tests.support.sources import at_commit

ASK = Path(__file__).with_name("ask.py")
# The minimum share of answers without a server error. Below it, the comparison is void.
LEAST = 0.9
# Maximum number of printed differences.
SHOWN = 5
Answers = dict[str, tuple[int, bytes]]


def main() -> int:
    parser = argparse.ArgumentParser(description="compare the answers of two trees, byte by byte")
    parser.add_argument("commit", help="the commit to compare with")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        old = at_commit(given.commit, Path(folder, "old"))
        asked = Path(folder) / "cases.jsonl"
        asked.write_text("".join(as_json(case) + "\n" for case in cases()), "utf-8")
        before, after = (_answers(tree, asked, Path(folder)) for tree in (old, ROOT))
    return _compare(before, after)


def _answers(tree: Path, asked: Path, folder: Path) -> Answers:
    taken = folder / "answers.jsonl"
    own = {name: value for name, value in os.environ.items() if not name.startswith("TOOL_PROXY_")}
    environment = {**own, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", str(ASK), str(asked), str(taken)]
    log = folder / "log"
    with log.open("wb") as errors:
        done = subprocess.run(command, cwd=tree, env=environment, stderr=errors, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{tree} failed:\n{log.read_text()[-4000:]}")
    rows = (json.loads(line) for line in taken.read_text("utf-8").splitlines())
    return {name: (status, base64.b64decode(body)) for name, status, body in rows}


def _said(answer: tuple[int, bytes]) -> object:
    """Return the content of an answer. Streams that differ only in the cuts of their texts have equal contents."""
    status, body = answer
    if not body.startswith((b"data: ", b"event: ", b": ")):
        return answer
    others: set[object] = set()
    joined: dict[object, str] = {}
    for line in body.split(b"\n"):
        values = [*_leaves(json.loads(line.removeprefix(b"data: ")))] if line.startswith(b"data: {") else []
        place = tuple(value for path, value in values if path[-1] in ("index", "item_id"))
        for path, value in values:
            if "delta" in path and path[-1] != "type" and isinstance(value, str):
                joined[path, place] = joined.get((path, place), "") + value
            elif path[-1] != "sequence_number":
                others.add((path, value))
    return status, joined, others


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the non-empty values inside a JSON value, with their paths."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, (*path, key))
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, (*path, "[]"))
    elif value not in (None, ""):
        yield path, value


def _compare(before: Answers, after: Answers) -> int:
    """Print the counts and the first differences."""
    counts = Counter("/".join(name.split("/")[:2]) for name in before)
    different = [name for name in before if before[name] != after.get(name)]
    other = [name for name in different if _said(before[name]) != _said(after.get(name, (0, b"")))]
    changed, said = (Counter("/".join(name.split("/")[:2]) for name in names) for names in (different, other))
    print(f"{'answers':30}{'compared':>10}{'different':>11}{'by more than the cuts of a stream':>36}")
    for kind in sorted(counts):
        print(f"{kind:30}{counts[kind]:>10}{changed[kind]:>11}{said[kind]:>36}")
    print(f"{'all':30}{len(before):>10}{len(different):>11}{len(other):>36}")
    answered = sum(status < 500 for status, _ in before.values())
    print(f"{'without a server error':30}{answered:>10}")
    for name in [*other, *different][:SHOWN]:
        print(f"\n{name}\n  before: {before[name]!r}\n  after:  {after.get(name)!r}")
    return 1 if different or answered < LEAST * len(before) else 0


if __name__ == "__main__":
    sys.exit(main())
