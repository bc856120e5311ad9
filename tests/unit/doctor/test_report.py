"""The report of an examination, for people and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from proxy.doctor.findings import NOT_EXAMINED, Finding, Level
from proxy.doctor.report import Report, as_json, lines, report_of
from proxy.doctor.syntaxes import Trial
from tests.support.doctor_answers import examination, said, whole

GOOD = Finding("parser_finds", "calls", Level.GOOD, "calls come as calls")
NOTE = Finding("counts", "counts", Level.NOTE, "no counts", "none", "it counts", "none needed")
HARM = Finding("call_swallowed", "calls", Level.HARM, "calls are gone", "the turn is over", "it asks again", "--flag")
UNTOLD = Finding(NOT_EXAMINED, "forced", Level.UNTOLD, "a forced call: not examined, as the time was over")
REPORT = Report(
    url="http://h:1",
    kind="vllm",
    version="0.32.0",
    model="m",
    context=None,
    findings=(GOOD, NOTE, HARM),
    trials={},
    entry="",
    requests=3,
    prompt_tokens=40,
    completion_tokens=5,
    seconds=1.26,
    at="2026-11-23T00:00:00+00:00",
)


def test_what_does_harm_comes_first_and_each_finding_says_all_that_is_known_of_it() -> None:
    assert [*lines(REPORT)] == [
        "http://h:1: vllm 0.32.0, model m",
        *("", "does harm:", "- calls are gone", "    harm: the turn is over", "    the proxy: it asks again"),
        "    mended by: --flag",
        *("", "to know:", "- no counts", "    harm: none", "    the proxy: it counts", "    mended by: none needed"),
        *("", "as it should be:", "- calls come as calls"),
        *("", "the rules need no entry for this model"),
        "spent: 3 requests, 40 prompt tokens, 5 generated, 1.3 s; nothing was changed on the server",
    ]


@pytest.mark.parametrize(
    ("kind", "version", "server"),
    [
        ("vllm", "", "vllm"),
        ("", "", "a model server of unknown kind"),
        ("", "7", "a model server of unknown kind 7"),
    ],
)
def test_a_server_of_which_little_is_known_is_named_all_the_same(kind: str, version: str, server: str) -> None:
    assert next(lines(replace(REPORT, kind=kind, version=version))) == f"http://h:1: {server}, model m"


def test_an_entry_is_shown_as_it_stands_in_the_rules_file() -> None:
    shown = [*lines(replace(REPORT, entry='- {"match": "m", "parse": "proxy"}'))]
    at = shown.index("models:")
    assert shown[at - 1 : at + 2] == [
        "for the rules file (--write FILE puts it there):",
        "models:",
        '  - {"match": "m", "parse": "proxy"}',
    ]
    assert "the rules need no entry for this model" not in shown


@pytest.mark.parametrize(
    ("entry", "told"), [("", "what was examined needs no entry in the rules"), ("- {}", "models:")]
)
def test_of_what_was_not_examined_nothing_is_promised(entry: str, told: str) -> None:
    report = replace(REPORT, findings=(GOOD, UNTOLD, UNTOLD), entry=entry)
    shown = [*lines(report)]
    assert told in shown and "the rules need no entry for this model" not in shown
    assert "out of time: 2 probes were not made" in shown
    assert (report.unexamined, report.does_harm) == (2, False)


def test_syntaxes_with_the_same_fate_share_a_line() -> None:
    trials = {"one": Trial.UNREAD, "two": Trial.READ, "three": Trial.UNREAD}
    text = "\n".join(lines(replace(REPORT, trials=trials)))
    assert "\na call in each syntax:\n- two: tried, and it came as a call\n- one, three: tried, and no call" in text
    assert "in each syntax" not in "\n".join(lines(REPORT))


def test_as_json_it_says_the_same_and_nothing_that_is_empty_of_a_finding() -> None:
    told = json.loads(json.dumps(as_json(replace(REPORT, trials={"one": Trial.READ}))))
    assert told["findings"][0] == {
        **{"id": "parser_finds", "probe": "calls", "level": "good"},
        "what": "calls come as calls",
    }
    assert told["findings"][2]["remedy"] == "--flag"
    assert (told["harm"], told["unexamined"], told["context"], told["entry"]) == (True, 0, None, "")
    assert told["syntaxes"] == {"one": "read"}
    assert told["spent"] == {"requests": 3, "prompt_tokens": 40, "completion_tokens": 5, "seconds": 1.26}


def test_a_report_says_what_was_spent_and_at_which_server() -> None:
    at = examination(said({"plain": whole("Yes.", tokens=7)}))
    at.version, at.context, at.trials = "1.0", 4096, {"one": Trial.READ}
    assert at.plain.taken
    report = report_of(at, (GOOD,), "- {}")
    assert (report.url, report.kind, report.version, report.model) == ("http://h:1", "vllm", "1.0", "m")
    assert (report.requests, report.prompt_tokens, report.completion_tokens) == (1, 9, 7)
    assert (report.context, report.entry, report.findings) == (4096, "- {}", (GOOD,))
    assert report.trials == {"one": Trial.READ}
    assert report.at.endswith("+00:00") and report.seconds >= 0


def test_trials_that_were_broken_off_are_not_told() -> None:
    at = examination(said({}))
    at.trials = {"one": Trial.READ}
    assert report_of(at, (UNTOLD,), "").trials == {"one": Trial.READ}
    assert report_of(at, (replace(UNTOLD, probe="syntaxes"),), "").trials == {}
