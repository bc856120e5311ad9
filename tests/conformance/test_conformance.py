"""The conformance suite: it judges with its own verdicts, and no fixture that passed before fails."""

from __future__ import annotations

import subprocess
import sys

import pytest
from canitoolcall.results import Status

from tests.conformance.__main__ import ALIAS, STRATEGIES, reason, replay
from tests.real.processes import ROOT

# Of 469, under each model's own name and under the alias.
AT_LEAST = (462, 462)

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", ["", ALIAS])
def test_suite_judges_what_a_client_receives(name: str) -> None:
    """The second fixture expects a call in the middle of a sentence, which the proxy treats as prose."""
    passed, failed = replay(name, ids=["llama/l3-single-call", "gemma4/sglang-text-around-call"])[::-1]
    assert (passed.status, passed.skipped_strategies) == (Status.PASS, {})
    assert {row.strategy for row in passed.checks} >= {"nonstream", *STRATEGIES}
    assert failed.status is Status.FAIL and reason(failed).startswith("expected_match (nonstream): content: expected")


@pytest.mark.slow
def test_fixtures_that_passed_before_still_pass() -> None:
    """Each is sent whole and as one stream, cut at random. `make conformance` also sends the other streams."""
    command = [sys.executable, "-m", "tests.conformance", "--strategy", STRATEGIES[-1]]
    command += ["--at-least", *map(str, AT_LEAST)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
