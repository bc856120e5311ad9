"""Report on a text: its calls, and the rejected places with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.json import JsonObject, dump
from proxy.notations.front import Reader
from proxy.notations.source import Rejection
from proxy.notations.toolset import ToolSet
from proxy.repair.policy import Policy
from proxy.repair.record import Repair
from proxy.repair.repairer import Repairer

_SHOWN = 60
# Reasons for rejecting structured calls. Those for text are in `Rejection`.
_STRUCTURED = {
    "no_name": "a structured call without a name, and nothing else identifies its tool; it was sent as text",
    "unreadable_arguments": "a structured call whose arguments are not an object; it was sent as text",
    "half_call": "a structured call that had been sent in part and could not be completed",
}


def reasons() -> dict[str, str]:
    """Return the sentence for each rejection label."""
    return {rejection.label: rejection.sentence for rejection in Rejection} | _STRUCTURED


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call in a text: its tool's name, the name and the arguments that were read, and where.

    `name`, `arguments` and `repairs` are those of the repaired call. `name` is None if it cannot be executed.
    """

    tool: str
    written: str
    read: JsonObject
    evidence: str
    format: str
    place: str
    name: str | None
    arguments: JsonObject | None
    repairs: tuple[Repair, ...]


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
            evidence = "weak" if call.weak else "strong"
            read = call.name, call.written, call.arguments, evidence, piece.row, _line(text, start)
            repaired = repairer.repair(call.name, dump(call.arguments), stopped=True)
            made = (repaired.name, repaired.values, repaired.fixes) if repaired else (None, None, ())
            calls.append(FoundCall(*read, *made))
        content += piece.text if piece.is_prose else ""
        start += len(piece.text)
    refused = []
    for place in sorted(set(reader.refused), key=lambda each: each.start):
        shown = text[place.start : place.start + _SHOWN].split("\n", maxsplit=1)[0]
        refused.append(f"refused at {_line(text, place.start)}: {shown!r}, read by {place.row}: {place.why}")
    return TextReport(tuple(calls), tuple(refused), content)


def explained(report: TextReport) -> Iterator[str]:
    """Yield the lines of the report: for each call, its notation, the repaired call and its repairs."""
    for number, call in enumerate(report.calls, 1):
        written = "" if call.written == call.tool else f", written {call.written!r}"
        yield f"call {number}: {call.tool}{written} ({call.evidence} evidence, {call.format}, {call.place})"
        yield f"  {dump(call.read)}"
        if call.name is None:
            yield "  cannot be repaired: it is sent as text"
        yield from (f"  repair {repair.id}: {repair.why}" for repair in call.repairs)
        if call.repairs:
            yield f"  the client gets {call.name} {dump(call.arguments)}"
    if not report.calls:
        yield "no call"
    yield from report.refused
    yield "content:" if report.content else "no content"
    if report.content:
        yield report.content


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"
