"""Report on a text: its calls, and the rejected places with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.json import Json, JsonObject, dump
from proxy.notations.front import Reader
from proxy.notations.source import Rejection
from proxy.notations.stream import Found
from proxy.notations.toolset import ToolSet
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repaired, Repairer

_SHOWN = 60
# Reasons for rejecting structured calls. Those for text are in `Rejection`.
_STRUCTURED = {
    "no_name": "a structured call without a name, and nothing else identifies its tool; it was sent as text",
    "unreadable_arguments": "a structured call whose arguments are not an object; it was sent as text",
    "half_call": "a structured call that had been sent in part and could not be completed",
}


def reasons() -> dict[str, str]:
    """Return the sentence for each rejection label."""
    return {**{rejection.label: rejection.sentence for rejection in Rejection}, **_STRUCTURED}


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call in a text: its source, its notation, and the repaired call, None if it cannot be executed."""

    found: Found
    source: str
    row: str
    line: str
    repaired: Repaired | None


@dataclass(frozen=True, slots=True)
class TextReport:
    """The calls in a text, the places that looked like a call and were rejected, and the remaining content."""

    calls: tuple[FoundCall, ...]
    refused: tuple[str, ...]
    content: str


def read_text(text: str, tools: ToolSet, policy: Policy, *, stopped: bool) -> TextReport:
    """Read a text and repair its calls like those of a reply."""
    reader, repairer = Reader(tools, off=policy.disabled_formats), Repairer(tools, policy)
    calls: list[FoundCall] = []
    start, content = 0, ""
    for piece in (*reader.feed(text), *reader.finish(stopped=stopped)):
        for call in piece.calls or ():
            repaired = repairer.repair(call.name, dump(call.arguments), stopped=True)
            calls.append(FoundCall(call, piece.text.strip(), piece.row, _line(text, start), repaired))
        content += piece.text if piece.is_prose else ""
        start += len(piece.text)
    refused = []
    for place in sorted(set(reader.refused), key=lambda each: each.start):
        shown = text[place.start : place.start + _SHOWN].split("\n", maxsplit=1)[0]
        refused.append(f"refused at {_line(text, place.start)}: {shown!r}, read by {place.row}: {place.why}")
    return TextReport(tuple(calls), tuple(refused), content)


def explained(report: TextReport) -> Iterator[str]:
    """Yield the lines of the report: for each call, its notation, the repaired call and its repairs."""
    for number, each in enumerate(report.calls, 1):
        call = each.found
        written = "" if call.written == call.name else f", written {call.written!r}"
        evidence = "weak" if call.weak else "strong"
        yield f"call {number}: {call.name}{written} ({evidence} evidence, {each.row}, {each.line})"
        yield f"  {dump(call.arguments)}"
        if each.repaired is None:
            yield "  cannot be repaired: it is sent as text"
            continue
        for repair in each.repaired.fixes:
            yield f"  repair {repair.id}: {repair.why}"
        if each.repaired.fixes:
            yield f"  the client gets {each.repaired.name} {each.repaired.arguments}"
    if not report.calls:
        yield "no call"
    yield from report.refused
    if not report.content:
        yield "no content"
        return
    yield "content:"
    yield report.content


def text_json(report: TextReport) -> JsonObject:
    """Return the report as JSON."""
    calls: list[Json] = []
    for each in report.calls:
        repairs: list[Json] = [{"id": fix.id, "why": fix.why} for fix in each.repaired.fixes] if each.repaired else []
        call: JsonObject = {
            "written": each.found.written,
            "evidence": "weak" if each.found.weak else "strong",
            "format": each.row,
            "place": each.line,
            "name": each.repaired.name if each.repaired else None,
            "arguments": each.repaired.values if each.repaired else None,
            "repairs": repairs,
        }
        calls.append(call)
    return {"calls": calls, "refused": [*report.refused], "content": report.content}


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"
