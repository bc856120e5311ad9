"""Run the tests of whole texts against `proxy.notations`: `pytest -p tests.support.notations_scanner`.

The adapter has the interface of today's scanner. With NOTATIONS_RESULTS set, the plugin appends one line per test that
scanned a text to that file.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from proxy.codec.json_text import dump
from proxy.formats.spans import CallSpan, RejectedSpan, TextSpan
from proxy.notations.copies import Copies
from proxy.notations.front import Channel, Reader
from proxy.notations.stream import Found, Piece
from proxy.parsing.cursor import RawCall
from proxy.tools.toolset import ToolSet
from tests.support import helpers

SCANNED = {"count": 0}


class NotationsScanner:
    """The reader of `proxy.notations` behind the interface of `proxy.formats.scanner.Scanner`."""

    def __init__(
        self,
        tools: ToolSet,
        rules: Mapping[str, Any],
        *,
        copies: tuple[str, ...] = (),
        mode: str = "text",
        refused: list[RejectedSpan] | None = None,
        **limits: Any,
    ) -> None:
        SCANNED["count"] += 1
        channel = Channel.REASONING if mode == "reasoning" else Channel.CONTENT
        self._reader = Reader(tools, Copies(tools, copies), channel=channel, **rules, **limits)
        self._tools = tools
        self._refused = refused
        self._bytes = 0

    def feed(self, text: str) -> tuple[TextSpan | CallSpan, ...]:
        return tuple(map(self._span, self._reader.feed(text)))

    def finish(self, *, stopped: bool = True) -> tuple[TextSpan | CallSpan, ...]:
        spans = tuple(map(self._span, self._reader.finish(stopped=stopped)))
        if self._refused is not None:
            self._refused += (RejectedSpan(each.start, each.start, each.row, each.why) for each in self._reader.refused)
        return spans

    def release(self) -> tuple[TextSpan | CallSpan, ...]:
        return tuple(map(self._span, self._reader.release()))

    @property
    def held(self) -> bool:
        return self._reader.held

    def _span(self, piece: Piece) -> TextSpan | CallSpan:
        start = self._bytes
        self._bytes = end = start + len(piece.text.encode("utf-8", "surrogatepass"))
        if piece.calls is None:
            return TextSpan(start, end)
        return CallSpan(start, end, tuple(map(self._raw, piece.calls)), piece.row, any(c.weak for c in piece.calls))

    def _raw(self, call: Found) -> RawCall:
        tool = self._tools.resolve(call.name)
        assert tool is not None
        return RawCall(tool, call.name, dump(call.arguments), call.id)


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
