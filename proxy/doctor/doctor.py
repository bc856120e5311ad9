"""The examination of a model server, from the first request to the report."""

from __future__ import annotations

from collections.abc import Callable

from proxy.config.rules import Rules
from proxy.doctor.ask import Asker
from proxy.doctor.entry import entry_for
from proxy.doctor.findings import NOT_EXAMINED, Finding, Level, Probe, findings_of
from proxy.doctor.report import Report, report_of
from proxy.doctor.server import examine_server
from proxy.doctor.table import PROBES


def examine(ask: Asker, model: str, rules: Rules, step: Callable[[str], None]) -> Report:
    """Probe the server that `ask` asks; `step` is told what comes next. `model` is empty for the server's first one.

    Raises NoServerError if there is none.
    """
    examination = examine_server(ask, model)
    examination.named_family = rules.entry(examination.model).family
    findings: list[Finding] = []
    for probe in PROBES:
        step(probe.title)
        probed = [*findings_of(probe, examination)]
        # Of a probe that did not get all its answers nothing is told.
        findings += [_not_examined(probe)] if ask.is_over else probed
    return report_of(examination, tuple(findings), entry_for(examination, findings, rules))


def _not_examined(probe: Probe) -> Finding:
    return Finding(NOT_EXAMINED, probe.id, Level.UNTOLD, f"{probe.title}: not examined, as the time was over")
