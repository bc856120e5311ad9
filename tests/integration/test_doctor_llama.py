"""`doctor` on a real llama.cpp server with a scripted model: it reports exactly the faults of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.doctor.asking import Asker
from proxy.doctor.examination import Level
from proxy.doctor.prompts import Prompts, PromptSource
from proxy.doctor.report import Report, examine
from proxy.upstream.client import ModelServer, ServerOptions
from tests.real import llama
from tests.support.doctor_scripts import instead, said, scripts
from tests.support.scripted import PATIENCE
from tests.support.worker_state import read_rules

HERMES, CODER = "Hermes' JSON", "Qwen3-Coder's XML"
ORDINARY = (llama.FOLDER / "chatml_tools.jinja").read_text("utf-8")
_FIRST = (
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be first.') }}{% endif %}"
)
# This template accepts a system message only first, loses the second call of a turn, and opens reasoning.
BAD = (
    ORDINARY.replace("{%- for m in messages %}", "{%- for m in messages %}" + _FIRST)
    .replace("(m.tool_calls or [])", "(m.tool_calls or [])[:1]")
    .replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}")
)

pytestmark = [
    pytest.mark.skipif(not llama.available(), reason="needs the extra `real`"),
    # Neither the server nor the requests depend on the Python version.
    pytest.mark.once,
]


@contextmanager
def serving(writes: str, template: str, folder: Path, thinks: bool = False) -> Iterator[str]:
    """Yield the URL of a llama.cpp server with this template, whose model writes calls in this notation."""
    made = scripts(writes, thinks)
    path = folder / "doctor.jinja"
    path.write_text(instead(made, template, "<|go:{}:0|>"), encoding="utf-8")
    with llama.LlamaServer(said(made), template=path) as server:
        yield server.url


def report_of(url: str) -> Report:
    ask = Asker(ModelServer(ServerOptions(url)), "", PATIENCE)
    return examine(ask, "", read_rules(None), lambda text: None)


def bad(report: Report) -> set[str]:
    return {finding.id for finding in report.findings if finding.level is not Level.GOOD}


@pytest.mark.slow
def test_a_server_that_parses_its_models_calls(tmp_path: Path) -> None:
    with serving(HERMES, ORDINARY, tmp_path) as url:
        report = report_of(url)
        prompts = Prompts(Asker(ModelServer(ServerOptions(url)), "", PATIENCE), "parrot")
        assert prompts.source is PromptSource.APPLY_TEMPLATE
    found = report.examination
    assert (found.kind, found.model, found.context) == ("llamacpp", "parrot", 8192) and found.version
    assert bad(report) == set()
    assert report.entry == ""


@pytest.mark.slow
def test_a_server_that_cannot_parse_its_models_calls(tmp_path: Path) -> None:
    """llama.cpp parses only the syntax of its template. Calls in another syntax, as of finetuned models, are errors."""
    with serving(CODER, BAD, tmp_path, thinks=True) as url:
        report = report_of(url)
    # The model's syntax differs from the template's, and the grammar of a forced call rejects it.
    calls = {"parser_fails", "forced_unknown", "stream_unknown"}
    shapes = {"late_system_refused", "two_systems_refused", "several_calls_lost"}
    assert bad(report) == calls | shapes | {"reasoning_in_text"}
    words = {"parse": "proxy", "reasoning": "split", "heal": {"on": ["late_system", "one_system", "one_call"]}}
    builtin = {"match": "parrot", "upstream": "live", "thinking": "enable_thinking"}
    assert json.loads(report.entry.removeprefix("- ")) == builtin | words
