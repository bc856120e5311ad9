"""Run the tests of whole texts against `proxy.notations`: `pytest -p tests.support.notations_scanner`.

The adapter has the interface of today's scanner. With NOTATIONS_RESULTS set, the plugin appends one line per test that
scanned a text to that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import pytest

from proxy.formats.spans import CallSpan, TextSpan
from proxy.notations.copies import Copies
from proxy.notations.front import Found, Reader
from proxy.parsing.cursor import RawCall
from proxy.tools.toolset import ToolSet
from tests.support import helpers

SCANNED = {"count": 0}


class NotationsScanner:
    """The reader of `proxy.notations` behind the interface of `proxy.formats.scanner.Scanner`."""

    def __init__(
        self, tools: ToolSet, rules: Mapping[str, Any], *, copies: tuple[str, ...] = (), **limits: Any
    ) -> None:
        SCANNED["count"] += 1
        self._reader = Reader(tools, Copies(tools, copies), json_reply=rules["json_reply"])
        self._tools = tools
        self._given = self._bytes = 0

    def feed(self, text: str) -> tuple[TextSpan | CallSpan, ...]:
        self._reader.feed(text)
        return tuple(self._new())

    def finish(self, *, stopped: bool = True) -> tuple[TextSpan | CallSpan, ...]:
        self._reader.finish(stopped=stopped)
        return tuple(self._new())

    def _new(self) -> Iterator[TextSpan | CallSpan]:
        spans = self._reader.spans[self._given :]
        self._given += len(spans)
        for first, last, found in spans:
            start = self._bytes
            self._bytes = end = start + len(self._reader.text[first:last].encode("utf-8", "surrogatepass"))
            if found is None:
                yield TextSpan(start, end)
                continue
            calls = tuple(self._raw(call) for call in found)
            yield CallSpan(start, end, calls, "call", any(call.weak for call in found))

    def _raw(self, call: Found) -> RawCall:
        tool = self._tools.resolve(call.name)
        assert tool is not None
        return RawCall(tool, call.name, json.dumps(call.arguments, ensure_ascii=False), call.id)


def pytest_configure() -> None:
    """Put the adapter in the place of the scanner."""
    vars(helpers).update(Scanner=NotationsScanner, grammars=dict, Copies=tuple)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the result of each test that scanned a text."""
    report = yield
    if report.when != "call" or not SCANNED["count"]:
        return report
    SCANNED["count"] = 0
    if path := os.environ.get("NOTATIONS_RESULTS"):
        why = str(call.excinfo.value).replace("\n", " ")[:400] if call.excinfo else ""
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{'F' if report.failed else '.'} {item.nodeid} || {why}\n")
    return report
