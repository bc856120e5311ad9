"""The soak's checks can fail, and a short soak passes."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak import plans
from tests.soak.plans import FAULTS, OK, Leave, Plan, Said, make
from tests.soak.soak import Sample, Soak, growth
from tests.support.dialects import DIALECTS
from tests.support.scripted import SSE as HEAD
from tests.support.scripted import chunked, text

JSON, SSE = {"content-type": "application/json"}, {"content-type": "text/event-stream"}


def plan(fault: str = "none", *, call: str = "") -> Plan:
    """Return the plan of a streamed chat request whose model says `so`."""
    expected = frozenset((OK,)) if fault == "none" else FAULTS[fault].of_stream
    return Plan("soak-1", DIALECTS["chat"], True, True, fault, Leave.STAYS, Said("so", call), [], expected)


def test_every_kind_of_fault_is_planned_and_playable() -> None:
    rng = random.Random(1)
    made = [make(number, rng) for number in range(4000)]
    assert {each.fault for each in made} == FAULTS.keys() and {each.leave for each in made} == {*Leave}
    assert all(each.steps is not None and each.expected for each in made)
    assert {each.streamed for each in made if each.fault == "none"} == {True, False}
    assert all(OK not in each.expected for each in made if each.leave is Leave.BAD or each.fault == "RST")


def test_growth_is_distinguished_from_noise() -> None:
    def samples(grow: float) -> list[Sample]:
        return [Sample(at / 90, (100.0 + at % 7 + grow * at, 50.0 + at % 5, 60.0)) for at in range(90)]

    assert [flat for *_, flat in growth(samples(0.0))] == [True, True, True]
    assert [flat for *_, flat in growth(samples(1.0))] == [False, True, True]


@pytest.mark.heavy
def test_short_soak_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = asyncio.run(Soak(tmp_path, minutes=0.2, clients=200, seed=2, patience=5).run(2))
    told = capsys.readouterr().out
    assert code == 0 and "unexpected: 0" in told, told


@pytest.mark.heavy
def test_soak_with_an_unexpected_outcome_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model server ends a stream early, although the plan has no fault."""
    fault = replace(FAULTS["none"], streamed=lambda said, rng: [HEAD, chunked(text(said.words))])
    monkeypatch.setitem(plans.FAULTS, "none", fault)
    code = asyncio.run(Soak(tmp_path, minutes=0.05, clients=20, seed=2).run(1))
    told = capsys.readouterr().out
    assert code == 1 and "unexpected: 0" not in told and "fault='none'" in told
