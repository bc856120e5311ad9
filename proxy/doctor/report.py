"""The report on an examined model server, for people and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import msgspec
from msgspec.structs import replace

from proxy import __version__
from proxy.config.rules import Rules, Telling, entry_with
from proxy.doctor.asking import Asker
from proxy.doctor.examination import Examination, Finding, Level, examine_server
from proxy.doctor.probes import PROBES
from proxy.exchange.plan import KEEPS_TOOLS
from proxy.json import JsonObject

# Increment this when readers of the JSON report must change.
FORMAT = 2
NOT_EXAMINED = "not_examined"
_TITLES = {Level.HARM: "does harm", Level.NOTE: "to know", Level.GOOD: "as it should be"}
_WIDTH = 100
_SPENT = ("requests", "prompt_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an examination: the findings, the entry for the rules ("" if none is needed), and the cost."""

    examination: Examination
    findings: tuple[Finding, ...]
    entry: str
    seconds: float

    @property
    def does_harm(self) -> bool:
        """Whether a finding does harm."""
        return any(finding.level is Level.HARM for finding in self.findings)

    @property
    def ids(self) -> list[str]:
        """The ids of the findings."""
        return [finding.id for finding in self.findings]

    @property
    def hides_tools(self) -> bool:
        """Whether the chat template leaves out the tools: no setting of the proxy helps then."""
        return "tools_lost" in self.ids

    @property
    def verdict(self) -> str:
        """The server's value for agents, in one or two sentences."""
        if "chat_unanswered" in self.ids:
            return "No agent can work with this server."
        if self.hides_tools:
            return "The chat template leaves out the tools: the model never sees them; serve it with another template."
        harmful = [finding for finding in self.findings if finding.level is Level.HARM]
        kinds = {finding.kind for finding in self.findings if finding.kind}
        lost = {finding.kind for finding in harmful if finding.kind}
        without = ""
        if lost and "call_unknown" not in self.ids:
            without = f" Without it, {len(lost)} of {len(kinds)} kinds of calls are lost."
        if all(finding.handled for finding in harmful):
            return f"Works with this proxy as it is.{without}"
        if self.entry:
            return f"Works with this proxy and the entry below in its rules.{without}"
        return f"Works with this proxy in part: see what does harm.{without}"


def examine(ask: Asker, model: str, rules: Rules, step: Callable[[str], None]) -> Report:
    """Probe the server behind `ask` and report. `step` is called with the title of each probe before it starts.

    `model` is "" for the server's first model. Raises NoServerError, and NoModelError if the server lacks the model.
    """
    examination = examine_server(ask, model)
    examination.named_family = rules.entry(examination.model).family
    findings: list[Finding] = []
    for probe in PROBES:
        step(probe.title)
        found = [*probe.look(examination)]
        if ask.is_over:  # an unfinished probe proves nothing
            found = [Finding(NOT_EXAMINED, Level.UNKNOWN, f"{probe.title} (no time was left)")]
        findings += found
    entry = entry_for(examination, findings, rules)
    return Report(examination, tuple(findings), entry, round(ask.spent.seconds, 3))


def entry_for(examination: Examination, findings: Sequence[Finding], rules: Rules) -> str:
    """Return the model's entry for the rules, including its current settings; "" if none is needed."""
    now = rules.entry(examination.model)
    wanted = replace(now, match=examination.model)
    fixes = [finding.rule for finding in findings if finding.rule is not None]
    # If the server removes calls from the text in any case, the proxy cannot read them, so that rule comes last.
    for key, word in sorted(fixes, key=lambda rule: rule == ("parse", "server")):
        # `parse: proxy` is for servers that keep the tools in the prompt under `tool_choice: none`.
        if word == "proxy" and examination.kind not in KEEPS_TOOLS:
            continue
        # The same key can name the answer field that contains the reasoning.
        if key == "reasoning" and now.reasoning not in (None, *get_args(Telling)):
            continue
        wanted = replace(wanted, **{key: word})
    # Healings for the model's family and for every model need no entry.
    in_force, off = rules.heal_plan(examination.model, examination.family).ids, now.heal.off
    missing = [found.heal for found in findings if found.heal and found.heal not in in_force and found.heal not in off]
    if replace(wanted, match=now.match) == now and not missing:
        return ""
    return entry_with(wanted, examination.model, missing)


def as_json(report: Report) -> JsonObject:
    """Return the report as JSON."""
    examination, spent = report.examination, report.examination.ask.spent
    return {
        "format": FORMAT,
        "doctor": __version__,
        "url": examination.ask.url,
        **{name: getattr(examination, name) for name in ("kind", "version", "model", "context")},
        "verdict": report.verdict,
        "harm": report.does_harm,
        "unexamined": report.ids.count(NOT_EXAMINED),
        "findings": msgspec.to_builtins(report.findings),
        "entry": report.entry,
        "spent": {**{name: getattr(spent, name) for name in _SPENT}, "seconds": report.seconds},
    }


def lines(report: Report) -> Iterator[str]:
    """Yield the lines of the report. They may quote the server, so the caller must escape them for a terminal."""
    yield report.verdict
    examination, spent = report.examination, report.examination.ask.spent
    server = f"{examination.kind or 'a model server of unknown kind'} {examination.version}".rstrip()
    yield f"{examination.ask.url}: {server}, model {examination.model}"
    for level, title in _TITLES.items():
        chosen = [finding for finding in report.findings if finding.level is level]
        if chosen:
            yield ""
            yield f"{title}:"
        for finding in chosen:
            yield from _wrapped(f"- {finding.what}", "  ")
            if finding.harm:
                yield from _wrapped(f"    harm: {finding.harm}", "      ")
            if finding.remedy:
                yield from _wrapped(f"    fix: {finding.remedy}", "      ")
    undecided = [finding.what for finding in report.findings if finding.level is Level.UNKNOWN]
    if undecided:
        yield ""
        yield from _wrapped(f"not decided: {'; '.join(undecided)}", "  ")
    yield ""
    if report.entry:
        yield "for the rules file:"
        yield "models:"
        yield f"  {report.entry}"
    yield (
        f"spent: {spent.requests} requests, {spent.prompt_tokens} prompt tokens, "
        f"{spent.completion_tokens} generated, {report.seconds:.1f} s; nothing was changed on the server"
    )
    command = "launch claude" if not report.entry and not report.hides_tools else "doctor"
    write = " --write" if report.entry and not report.hides_tools else ""
    yield f"next: vllm-tool-proxy {command} --upstream {examination.ask.url}{write}"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
