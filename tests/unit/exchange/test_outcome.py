"""What became of a request: the one record of it."""

from __future__ import annotations

import pytest

from proxy.audit_record import Repair
from proxy.errors import UpstreamBroken, refusal
from proxy.exchange.outcome import Outcome

TRANSLATED, HEALED, MENDED = (Repair(name, "a", "b", "so") for name in ("dropped", "heal_developer", "finish"))
BROKEN = UpstreamBroken("it broke off")


@pytest.mark.parametrize(
    ("audit", "repaired"),
    [((), False), ((TRANSLATED, HEALED), False), ((TRANSLATED, HEALED, MENDED), True), ((MENDED,), True)],
    ids=["nothing", "the request alone", "both", "the answer alone"],
)
def test_an_answer_is_repaired_if_more_was_changed_than_the_request(audit: tuple[Repair, ...], repaired: bool) -> None:
    of_request = tuple(each for each in audit if each is TRANSLATED)
    healed = tuple(each for each in audit if each is HEALED)
    assert Outcome(request_audit=of_request, healed=healed, audit=audit).repaired is repaired


def test_an_error_is_told_in_the_words_of_the_log_and_kept_itself() -> None:
    error = refusal("the key is wrong", status=401)
    outcome = Outcome()
    outcome.fail(error)
    assert (outcome.error, outcome.failure, outcome.gone) == (error.logged, error, False)


def test_a_client_that_left_is_no_failure() -> None:
    outcome = Outcome()
    outcome.leave()
    assert (outcome.error, outcome.failure, outcome.gone) == ("client gone", None, True)


def test_a_body_that_cannot_be_finished_says_why_whatever_the_error() -> None:
    outcome, error = Outcome(), RuntimeError("a defect")
    outcome.break_off(error)
    assert (outcome.error, outcome.failure) == ("a defect", error)


def test_what_would_have_failed_is_no_failure_and_hides_none() -> None:
    outcome = Outcome(observe=True)
    outcome.would_fail(BROKEN)
    outcome.would_fail(UpstreamBroken("and again"))
    assert (outcome.error, outcome.failure) == (f"would fail: {BROKEN.logged}", None)
    outcome = Outcome(observe=True)
    outcome.leave()
    outcome.would_fail(BROKEN)
    assert outcome.error == "client gone"


def test_no_request_has_what_another_one_has_to_do() -> None:
    one, other = Outcome(), Outcome()
    one.later.append(lambda: None)
    assert other.later == []
    assert other.times is not one.times
