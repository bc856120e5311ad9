"""`python -m tests.vllm --doctor`: the doctor on a real vLLM without a parser, with the right one and a wrong one.

The model's replies are scripted. Exit status 0 means that the findings are as expected, and that the proxy accepts a
rules file with the suggested entry.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from proxy.doctor.asking import Asker
from proxy.doctor.examination import Level
from proxy.doctor.report import examine, lines
from proxy.doctor.rule import rules_in, write_entry
from proxy.upstream.client import ModelServer, ServerOptions
from tests.real import processes, vllm
from tests.support.doctor_scripts import marked, said, scripts
from tests.vllm.rows import AUTO, THINKING

HERMES, CODER = "Hermes' JSON", "Qwen3-Coder's XML"


@dataclass(frozen=True)
class Row:
    """A vLLM with these flags and its model's syntax, the expected findings, and whether the rules need an entry."""

    flags: tuple[str, ...]
    writes: str
    found: frozenset[str]
    parse: str = ""
    thinks: bool = False


ROWS: Mapping[str, Row] = {
    "no flag": Row(
        (),
        HERMES,
        frozenset(("parser_missing", "forced_refused", "stream_unknown", "reasoning_in_text")),
        "proxy",
        thinks=True,
    ),
    "the right parser": Row((*AUTO, "hermes"), HERMES, frozenset()),
    # The grammar of a forced tool does not allow the scripted text.
    "a wrong parser": Row(
        (*AUTO, "hermes"), CODER, frozenset(("parser_leaves_text", "stream_swallows", "forced_unknown")), "proxy"
    ),
}


def table(cache: Path) -> Iterator[str]:
    """Examine each server and print the findings. Yield the unexpected results."""
    for name, row in ROWS.items():
        began = time.monotonic()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            made = scripts(row.writes, row.thinks)
            template = folder / "doctor.jinja"
            template.write_text(marked(made, THINKING.read_text("utf-8"), "[[script:{}]]"), encoding="utf-8")
            server = vllm.VllmServer(*row.flags, scripts=said(made), cache=cache, template=template, names=("tiny",))
            stack.enter_context(server)
            started = time.monotonic()
            faults = [*_faults(row, server.url, folder / "rules.yaml")]
            print(f"{name}: started in {started - began:.0f} s, examined in {time.monotonic() - started:.0f} s")
        yield from (f"{name}: {fault}" for fault in faults)


def _faults(row: Row, url: str, rules: Path) -> Iterator[str]:
    report = examine(Asker(ModelServer(ServerOptions(url)), "", 120), "", rules_in(rules), lambda text: None)
    print(*("", *lines(report)), sep="\n")
    found = {finding.id for finding in report.findings if finding.level is not Level.GOOD}
    if found != row.found:
        yield f"found {sorted(found - row.found)} more and {sorted(row.found - found)} less"
    if not report.entry:
        if row.parse:
            yield "the doctor suggested no entry"
        return
    write_entry(rules, report.examination.model, report.entry)
    parse = rules_in(rules).profile("tiny", "").parse
    if parse != (row.parse or "auto"):
        yield f"the entry has parse: {parse}"
    again = examine(Asker(ModelServer(ServerOptions(url)), "", 120), "", rules_in(rules), lambda text: None)
    if again.entry:
        yield f"the doctor suggested a second entry: {again.entry}"


CACHE = processes.ROOT / ".cache"
