"""What became of a request: the one record of it."""

from __future__ import annotations

from proxy.audit_record import Repair
from proxy.errors import ClientGone, UpstreamBroken, refusal
from proxy.exchange.outcome import Outcome, ReplyFacts
from proxy.exchange.plan import Plan

TRANSLATED, HEALED, MENDED = (Repair(name, "a", "b", "so") for name in ("dropped", "heal_developer", "finish"))
BROKEN = UpstreamBroken("it broke off")


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


def test_no_request_has_what_another_one_has_to_do() -> None:
    one, other = Outcome(), Outcome()
    one.do_later(lambda: None)
    assert other.later == []


def test_each_try_counts_and_the_last_plan_stays() -> None:
    outcome = Outcome()
    for parse in ("server", "proxy"):
        outcome.begin_try(Plan(parse=parse))
    assert (outcome.tries, outcome.plan) == (2, Plan(parse="proxy"))


def test_the_changes_stand_in_the_order_of_the_way() -> None:
    outcome = Outcome()
    outcome.translate_request((TRANSLATED,))
    outcome.end_try(reply_facts(healed=(HEALED,), audit=(MENDED,)))
    assert (outcome.audit, outcome.healed) == ((TRANSLATED, HEALED, MENDED), (HEALED,))


def test_what_was_known_of_an_earlier_try_is_forgotten() -> None:
    outcome = Outcome()
    outcome.end_try(reply_facts(healed=(HEALED,), audit=(MENDED,), calls=2, swallowed=True))
    outcome.end_try(reply_facts(calls=1))
    assert (outcome.audit, outcome.healed, outcome.calls, outcome.swallowed) == ((), (), 1, False)


def test_a_client_that_went_before_its_answer_is_gone_and_an_error() -> None:
    outcome, error = Outcome(), ClientGone("it went")
    outcome.lose_client(error)
    assert (outcome.error, outcome.failure, outcome.gone) == (error.logged, error, True)


def test_the_words_of_an_error_stay_when_its_exception_is_let_go_of() -> None:
    outcome = Outcome()
    outcome.fail(BROKEN)
    outcome.release_failure()
    assert (outcome.error, outcome.failure) == (BROKEN.logged, None)


def test_what_is_done_later_is_done_in_its_order() -> None:
    outcome, done = Outcome(), list[int]()
    outcome.do_later(lambda: done.append(1))
    outcome.do_later(lambda: done.append(2))
    for step in outcome.later:
        step()
    assert done == [1, 2]


def reply_facts(
    healed: tuple[Repair, ...] = (), audit: tuple[Repair, ...] = (), calls: int = 0, *, swallowed: bool = False
) -> ReplyFacts:
    """What is known of a reply of which little is said."""
    return ReplyFacts(healed, audit, calls, refusals={}, empty_calls=0, swallowed=swallowed)
