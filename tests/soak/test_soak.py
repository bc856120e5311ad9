"""The soak's own judges can fail, and a short soak holds."""

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
    """A streamed chat request whose model says `so`."""
    expected = frozenset((OK,)) if fault == "none" else FAULTS[fault].of_stream
    return Plan("soak-1", DIALECTS["chat"], True, True, fault, Leave.STAYS, Said("so", call), [], expected)


def test_each_kind_of_fault_comes_and_can_be_played() -> None:
    rng = random.Random(1)
    made = [make(number, rng) for number in range(4000)]
    assert {each.fault for each in made} == FAULTS.keys() and {each.leave for each in made} == {*Leave}
    assert all(each.steps is not None and each.expected for each in made)
    assert {each.streamed for each in made if each.fault == "none"} == {True, False}
    assert all(OK not in each.expected for each in made if each.leave is Leave.BAD or each.fault == "RST")


def test_growth_is_told_from_noise() -> None:
    def samples(grow: float) -> list[Sample]:
        return [Sample(at / 90, (100.0 + at % 7 + grow * at, 50.0 + at % 5, 60.0)) for at in range(90)]

    assert [flat for *_, flat in growth(samples(0.0))] == [True, True, True]
    assert [flat for *_, flat in growth(samples(1.0))] == [False, True, True]


@pytest.mark.heavy
def test_a_short_soak_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = asyncio.run(Soak(tmp_path, minutes=0.2, clients=200, seed=2, patience=5).run(2))
    told = capsys.readouterr().out
    assert code == 0 and "unexpected: 0" in told, told


@pytest.mark.heavy
def test_a_soak_in_which_something_is_not_as_expected_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model server breaks off where the plan says that all is well."""
    fault = replace(FAULTS["none"], streamed=lambda said, rng: [HEAD, chunked(text(said.words))])
    monkeypatch.setitem(plans.FAULTS, "none", fault)
    code = asyncio.run(Soak(tmp_path, minutes=0.05, clients=20, seed=2).run(1))
    told = capsys.readouterr().out
    assert code == 1 and "unexpected: 0" not in told and "fault='none'" in told
