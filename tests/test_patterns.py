"""Patterns have the same meaning in all supported Pythons.

Before CPython 3.11.5 (Debian 12 has 3.11.2), a possessive repetition of a group, `(?:…)*+`, does not backtrack to the
start of a round that fails in its middle (https://github.com/python/cpython/issues/106052): it matches too much, too
little, or forever. The equivalent atomic group around a plain repetition, `(?>(?:…)*)`, is correct in all versions. It
needs a hundred bytes per round, so it must not be used for long repetitions.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.real.processes import ROOT

_parser = importlib.import_module("re._parser")
# Prints all patterns that are compiled while modules are imported and texts of all kinds are scanned.
_COMPILED = """
import importlib, json, pkgutil, re._compiler
patterns = set()
compile = re._compiler.compile
def noted(pattern, flags=0):
    compiled = compile(pattern, flags)
    if isinstance(pattern, bytes):
        patterns.add((pattern.decode("latin-1"), int(flags), True))
    elif isinstance(pattern, str):
        patterns.add((pattern, int(flags), False))
    return compiled
re._compiler.compile = noted
import proxy
for module in pkgutil.walk_packages(proxy.__path__, "proxy."):
    if not module.name.endswith(("__main__", "vllm_plugin")):  # the plugin needs vLLM
        importlib.import_module(module.name)
from benchmarks import body, hostile, scanner
from proxy.notations.toolset import read_tools
for kind in hostile.KINDS:
    scanner.scanned([hostile.text_of(kind, 200)], read_tools([*body.tools()]))
print(json.dumps(sorted(patterns)))
"""
_ONE = {"LITERAL", "NOT_LITERAL", "IN", "ANY"}
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}


@pytest.fixture(scope="module")
def compiled() -> list[tuple[str, int, bool]]:
    """Tuples of pattern, flags, and whether the pattern is bytes."""
    child = subprocess.run([sys.executable, "-c", _COMPILED], cwd=ROOT, capture_output=True, text=True, check=True)
    return [(pattern, flags, of_bytes) for pattern, flags, of_bytes in json.loads(child.stdout)]


@pytest.mark.slow
def test_possessive_groups_cannot_fail_in_the_middle_of_a_round(compiled: list[tuple[str, int, bool]]) -> None:
    assert len(compiled) > 300
    wrong = [pattern for pattern, flags, of_bytes in compiled if _loses_its_place(pattern, flags, of_bytes=of_bytes)]
    assert wrong == []


def _loses_its_place(pattern: str, flags: int = 0, *, of_bytes: bool = False) -> bool:
    tree = _parser.parse(pattern.encode("latin-1") if of_bytes else pattern, flags)
    return any(_fails_late([*body]) for body in _possessive_groups(tree))


def _possessive_groups(tree: Iterable[tuple[Any, Any]]) -> Iterator[Iterable[tuple[Any, Any]]]:
    for operation, argument in tree:
        if str(operation) == "POSSESSIVE_REPEAT" and not _is_one(argument[2]):
            yield argument[2]
        for inner in _inside(str(operation), argument):
            yield from _possessive_groups(inner)


def _inside(operation: str, argument: Any) -> list[Any]:
    if operation in _REPEATS:
        return [argument[2]]
    if operation == "SUBPATTERN":
        return [argument[3]]
    if operation == "BRANCH":
        return list(argument[1])
    if operation in ("ASSERT", "ASSERT_NOT"):
        return [argument[1]]
    return [argument] if operation == "ATOMIC_GROUP" else []


def _is_one(body: Any) -> bool:
    return len(body) == 1 and str(body[0][0]) in _ONE


def _fails_late(body: list[tuple[Any, Any]]) -> bool:
    """Return whether a round may fail after an operation that has moved the position.

    A single character cannot fail so, nor can a possessive repetition at the start of the round.
    """
    if len(body) == 1 and str(body[0][0]) == "BRANCH":
        return any(_fails_late([*choice]) for choice in body[0][1][1])
    moved = False
    for number, (name, argument) in enumerate(body):
        operation = str(name)
        if operation in _REPEATS and _is_one(argument[2]):
            if argument[0] > 0 and number > 0:
                return True
            moved = moved or number > 0 or operation != "POSSESSIVE_REPEAT"
        elif operation not in _ONE or moved:
            return True
    return False
