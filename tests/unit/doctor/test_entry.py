"""The entry of the rules that findings ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.doctor.ask import Asker
from proxy.doctor.entry import entry_for
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Finding, Level
from proxy.upstream.client import ModelServer, ServerOptions
from tests.support.worker_state import read_rules


def examination(kind: str) -> Examination:
    """Of a server that nobody asks."""
    ask = Asker(ModelServer(ServerOptions("http://127.0.0.1:1")), "", 1.0)
    return Examination(ask, "m", (), kind)


def finding(rule: tuple[str, str] | None = None, heal: str = "") -> Finding:
    return Finding("id", "probe", Level.HARM, "what", rule=rule, heal=heal)


def entry(findings: list[Finding], path: Path, rules: str = "models: [{match: x}]", kind: str = "vllm") -> Any:
    """What the line says; "" if there is none."""
    path.write_text(f"{rules}\n")
    line = entry_for(examination(kind), findings, read_rules(path))
    return line and json.loads(line.removeprefix("- "))


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([], ""),
        ([finding()], ""),
        ([finding(("parse", "proxy"))], {"match": "m", "parse": "proxy"}),
        ([finding(("parse", "server")), finding(("parse", "proxy"))], {"match": "m", "parse": "server"}),
        ([finding(("upstream", "whole"))], {"match": "m", "upstream": "whole"}),
        ([finding(("server", "sglang"))], {"match": "m", "server": "sglang"}),
        ([finding(heal="late_system"), finding(heal="late_system")], {"match": "m", "heal": {"on": ["late_system"]}}),
        # Every model is healed by it.
        ([finding(heal="developer")], ""),
    ],
)
def test_it_says_what_was_found_and_no_more(findings: list[Finding], said: Any, tmp_path: Path) -> None:
    assert entry(findings, tmp_path / "r.yaml") == said


def test_the_proxy_parses_only_where_the_server_keeps_the_tools(tmp_path: Path) -> None:
    assert entry([finding(("parse", "proxy"))], tmp_path / "r.yaml", kind="sglang") == ""


def test_what_the_entry_says_already_stays(tmp_path: Path) -> None:
    rules = "models: [{match: m, parse: server, heal: {on: [alternate], off: [late_system]}}]"
    findings = [finding(("parse", "server")), finding(heal="late_system"), finding(heal="alternate")]
    assert entry(findings, tmp_path / "r.yaml", rules) == ""
    more = entry([*findings, finding(("upstream", "whole"))], tmp_path / "r.yaml", rules)
    assert more == {
        **{"match": "m", "parse": "server", "upstream": "whole"},
        "heal": {"on": ["alternate"], "off": ["late_system"]},
    }
