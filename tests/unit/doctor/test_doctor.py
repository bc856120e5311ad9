"""The examination of a model server, from the first request to the report."""

from __future__ import annotations

import json

import pytest

from proxy.config.rules import Rules
from proxy.doctor.ask import Asker
from proxy.doctor.doctor import examine
from proxy.doctor.findings import NOT_EXAMINED, Level
from proxy.doctor.report import Report
from proxy.doctor.server import NoServerError
from proxy.doctor.table import PROBES
from proxy.errors import UpstreamUnreachable
from tests.support.socketless import Made, Socketless

MODELS = 200, json.dumps({"data": [{"id": "m", "owned_by": "vllm"}]}).encode()
NOT_FOUND = 404, b'{"detail": "Not Found"}'
REPLY = 200, json.dumps({"choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}]}).encode()


def answer(path: str, body: object) -> Made:
    """A server that has one model, and says yes to everything."""
    return {"/v1/models": MODELS, "/v1/chat/completions": REPLY}.get(path, NOT_FOUND)


def examined(server: Socketless, model: str = "") -> tuple[Report, list[str]]:
    steps: list[str] = []
    return examine(Asker(server, "", 10.0), model, Rules(), steps.append), steps


def test_every_probe_is_told_before_it_is_made_and_finds_something() -> None:
    report, steps = examined(Socketless(answer))
    assert steps == [probe.title for probe in PROBES]
    assert {finding.probe for finding in report.findings} == {probe.id for probe in PROBES}
    assert NOT_EXAMINED not in {finding.id for finding in report.findings}


@pytest.mark.parametrize(("named", "asked"), [("", "m"), ("other", "other")])
def test_the_named_model_is_asked_else_the_servers_first(named: str, asked: str) -> None:
    server = Socketless(answer)
    examined(server, named)
    assert asked in {body.get("model") for _, path, body in server.asked if path == "/v1/chat/completions"}


def test_without_a_server_there_is_no_report() -> None:
    with pytest.raises(NoServerError, match="nothing listens"):
        examined(Socketless(lambda path, body: UpstreamUnreachable("cannot be reached")))


def test_of_what_came_behind_the_end_of_the_time_nothing_is_told() -> None:
    ask = Asker(Socketless(answer), "", 10.0)
    last = PROBES[len(PROBES) // 2]

    def step(title: str) -> None:
        """From this one on there is no time left."""
        if title == last.title:
            ask.budget = 0.0

    report = examine(ask, "", Rules(), step)
    seen = [finding for finding in report.findings if finding.id == NOT_EXAMINED]
    assert seen[0].what == f"{last.title}: not examined, as the time was over"
    assert [finding.probe for finding in seen] == [probe.id for probe in PROBES[PROBES.index(last) :]]
    assert all(finding.level is Level.UNTOLD for finding in seen)
