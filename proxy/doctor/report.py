"""The report on a server, for people and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from proxy import __version__
from proxy.codec.json_text import JsonObject
from proxy.doctor.examination import Examination
from proxy.doctor.findings import NOT_EXAMINED, Finding, Level
from proxy.doctor.syntaxes import TRIALS, Trial

# Incremented when a reader of the JSON report must change.
FORMAT = 1
# The order in which people want to read it.
_LEVELS = (Level.HARM, Level.NOTE, Level.UNTOLD, Level.GOOD)
_TITLES = {
    Level.HARM: "does harm",
    Level.NOTE: "to know",
    Level.UNTOLD: "could not be told",
    Level.GOOD: "as it should be",
}
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Report:
    """One examination: the server, what was found, what became of a call in each syntax, the line for the rules ("" if
    none is needed), what it cost.
    """

    url: str
    kind: str
    version: str
    model: str
    context: int | None
    findings: tuple[Finding, ...]
    trials: Mapping[str, Trial]
    entry: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    at: str

    @property
    def does_harm(self) -> bool:
        """True if something was found that does harm."""
        return any(finding.level is Level.HARM for finding in self.findings)

    @property
    def unexamined(self) -> int:
        """The number of probes that were not made, as the time was over."""
        return sum(finding.id == NOT_EXAMINED for finding in self.findings)


def report_of(examination: Examination, findings: tuple[Finding, ...], entry: str) -> Report:
    """The report of an examination that has come to its end."""
    spent = examination.ask.spent
    return Report(
        examination.ask.url,
        examination.kind,
        examination.version,
        examination.model,
        examination.context,
        findings,
        {} if any(each.probe == "syntaxes" and each.id == NOT_EXAMINED for each in findings) else examination.trials,
        entry,
        spent.requests,
        spent.prompt_tokens,
        spent.completion_tokens,
        round(spent.seconds, 3),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def as_json(report: Report) -> JsonObject:
    """The report as JSON."""
    return {
        "format": FORMAT,
        "doctor": __version__,
        "at": report.at,
        "url": report.url,
        "kind": report.kind,
        "version": report.version,
        "model": report.model,
        "context": report.context,
        "harm": report.does_harm,
        "unexamined": report.unexamined,
        "findings": [_finding(finding) for finding in report.findings],
        "syntaxes": {syntax: trial.value for syntax, trial in report.trials.items()},
        "entry": report.entry,
        "spent": {
            "requests": report.requests,
            "prompt_tokens": report.prompt_tokens,
            "completion_tokens": report.completion_tokens,
            "seconds": report.seconds,
        },
    }


def _finding(finding: Finding) -> JsonObject:
    fields: JsonObject = {"id": finding.id, "probe": finding.probe, "level": finding.level.value, "what": finding.what}
    more: JsonObject = {"harm": finding.harm, "proxy": finding.proxy, "remedy": finding.remedy}
    return fields | {key: text for key, text in more.items() if text}


def lines(report: Report) -> Iterator[str]:
    """The report for people; its lines may hold what the server said, so a caller makes them safe for a terminal."""
    server = f"{report.kind or 'a model server of unknown kind'} {report.version}".rstrip()
    yield f"{report.url}: {server}, model {report.model}"
    for level in _LEVELS:
        yield from _level(level, report)
    yield from _trials(report.trials)
    yield ""
    yield from _entry(report)
    if report.unexamined:
        yield f"out of time: {report.unexamined} probes were not made"
    yield (
        f"spent: {report.requests} requests, {report.prompt_tokens} prompt tokens, "
        f"{report.completion_tokens} generated, {report.seconds:.1f} s; nothing was changed on the server"
    )


def _level(level: Level, report: Report) -> Iterator[str]:
    chosen = [finding for finding in report.findings if finding.level is level]
    if chosen:
        yield ""
        yield f"{_TITLES[level]}:"
    for finding in chosen:
        yield from _lines_of(finding)


def _entry(report: Report) -> Iterator[str]:
    if report.entry:
        yield "for the rules file (--write FILE puts it there):"
        yield "models:"
        yield f"  {report.entry}"
    elif report.unexamined:
        yield "what was examined needs no entry in the rules"
    else:
        yield "the rules need no entry for this model"


def _trials(trials: Mapping[str, Trial]) -> Iterator[str]:
    if trials:
        yield ""
        yield "a call in each syntax:"
    for trial, meaning in TRIALS.items():
        named = [syntax for syntax, became in trials.items() if became is trial]
        if named:
            yield from _wrapped(f"- {', '.join(named)}: {meaning}", "  ")


def _lines_of(finding: Finding) -> Iterator[str]:
    yield from _wrapped(f"- {finding.what}", "  ")
    parts = (("harm", finding.harm), ("the proxy", finding.proxy), ("mended by", finding.remedy))
    for title, text in parts:
        if text:
            yield from _wrapped(f"    {title}: {text}", "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
