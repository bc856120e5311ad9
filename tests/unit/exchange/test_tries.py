"""The tries of one exchange: which one comes next, and how the last one ends (C4, C6, F63, F72)."""

from __future__ import annotations

import json

import pytest

from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import ClientGone, UpstreamBroken, UpstreamRefused, UpstreamUnreachable
from proxy.exchange.attempt import run_exchange
from proxy.exchange.plan import SILENT, Retries, Why
from tests.support.answered_exchange import JSON, Answer, Answered, answered, request
from tests.support.helpers import (
    SEED,
    call_json,
    calls,
    chunk,
    delta,
    ends,
    event_bytes,
    offered,
    piece,
    received,
    says,
)
from tests.unit.exchange.test_reply_stream import ROLE, STRONG, wire
from tests.unit.notations.test_broken_calls import CALL

SECRET = "sk-secret-123456"
TEXT = wire([ROLE, says("Just text."), ends()])
EMPTY = wire([ROLE, ends()])
THOUGHT = wire([ROLE, chunk(delta(reasoning="So.")), ends()])
BEGUN = wire([ROLE, says("Just ")], done=False)
SWALLOWED = wire([ROLE, ends(), chunk(usage={"prompt_tokens": 1, "completion_tokens": 50, "total_tokens": 51})])


def sent(made: Answered) -> bytes:
    return b"".join(run_exchange(made.exchange))


def refused(status: int = 400, message: str = f"no {SECRET}") -> Answer:
    return Answer([json.dumps({"error": {"message": message}}).encode()], JSON, status)


def holding(raw_text: bool, forced: str) -> Engine:
    """An engine that holds a call that cannot be read; for the second try the tool that is forced."""
    task = Task(tools=offered(), seed=SEED, hold_broken=not forced, forced=forced, one_call=bool(forced))
    return Engine(task)


def test_one_try_is_enough_for_a_reply_that_says_something() -> None:
    made = answered(Answer([TEXT]), Answer([TEXT]), retries=Retries(again=SILENT))
    assert sent(made) == TEXT
    assert (len(made.server.asked), made.exchange.outcome.tries) == (1, 1)
    assert (made.exchange.outcome.again, made.exchange.outcome.error) == (None, "")


@pytest.mark.parametrize("answer", [refused(), UpstreamUnreachable("nobody there")], ids=["refused", "not there"])
def test_an_error_before_anything_has_left_is_raised_and_whoever_catches_it_tells_of_it(
    answer: Answer | Exception,
) -> None:
    made = answered(answer, secrets=(SECRET,))
    with pytest.raises((UpstreamRefused, UpstreamUnreachable)):
        sent(made)
    outcome = made.exchange.outcome
    assert (outcome.failure, outcome.error, outcome.tries) == (None, "", 1)


def test_what_is_held_leaves_before_the_error_that_nothing_else_went_before() -> None:
    made = answered(Answer([ROLE.raw + says(STRONG[:20]).raw, UpstreamBroken("it broke off")]))
    got = received(sent(made))
    assert (got[0].text, got[0].finish, got[0].calls) == (STRONG[:20], None, [])
    assert got.error and "broke off" in got.error["message"]


def test_an_error_after_that_ends_the_stream() -> None:
    made = answered(Answer([BEGUN, UpstreamBroken(f"it broke off at {SECRET}")]), secrets=(SECRET,))
    data = sent(made)
    got = received(data)
    assert got[0].text == "Just " and got[0].finish is None and not got.done
    assert got.error and "broke off" in got.error["message"]
    assert SECRET.encode() not in data
    assert "broke off" in made.exchange.outcome.error


def test_an_error_event_before_any_text_is_a_status() -> None:
    made = answered(Answer([event_bytes({"error": {"message": "no", "code": 500}})]))
    with pytest.raises(UpstreamRefused):
        sent(made)


@pytest.mark.parametrize(("first", "why"), [(EMPTY, Why.EMPTY), (THOUGHT, Why.THOUGHT)], ids=["empty", "only thought"])
def test_a_reply_that_says_nothing_is_asked_for_once_more(first: bytes, why: Why) -> None:
    """F63, F72."""
    made = answered(Answer([first]), Answer([TEXT]), retries=Retries(again=SILENT))
    got = received(sent(made))
    assert (got[0].text, got[0].finish, got.done, got.roles) == ("Just text.", "stop", True, 1)
    outcome = made.exchange.outcome
    assert (len(made.server.asked), outcome.tries, outcome.again) == (2, 2, why)
    assert "second_try" in {repair.id for repair in outcome.audit}


def test_it_is_asked_for_once_more_and_no_more_than_that() -> None:
    made = answered(Answer([EMPTY]), Answer([EMPTY]), Answer([TEXT]), retries=Retries(again=SILENT))
    got = received(sent(made))
    assert (got[0].text, got[0].finish, got.done) == ("", "stop", True)
    assert made.exchange.outcome.tries == 2


@pytest.mark.parametrize("second", [refused(), UpstreamUnreachable("gone"), Answer([UpstreamBroken("broke off")])])
def test_where_the_second_try_never_begins_the_first_ends_as_it_would_have(second: Answer | Exception) -> None:
    made = answered(Answer([THOUGHT]), second, retries=Retries(again=SILENT))
    got = received(sent(made))
    assert (got[0].reasoning, got[0].finish, got.done, got.error) == ("So.", "stop", True, None)
    assert (made.exchange.outcome.tries, made.exchange.outcome.error) == (2, "")


def test_a_call_that_the_server_swallowed_is_looked_for_by_the_proxy() -> None:
    second = Answer([wire([ROLE, says(STRONG), ends()])])
    made = answered(Answer([SWALLOWED]), second, retries=Retries(auto=True, again=SILENT))
    got = received(sent(made))
    assert got[0].calls == [("bash", '{"command": "ls"}')]
    assert json.loads(made.server.asked[1])["tool_choice"] == "none"
    assert (made.exchange.outcome.again, made.known.parser_failures) == (Why.SWALLOWED, 1)


def test_a_call_that_cannot_be_read_is_asked_for_by_its_tool() -> None:
    broken = wire([ROLE, says(CALL), ends()])
    instead = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    entry = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [instead]}}
    whole = json.dumps({"id": "w", "choices": [{**entry, "finish_reason": "tool_calls"}]}).encode()
    retries = Retries(again=frozenset((Why.BROKEN,)))
    made = answered(Answer([broken]), Answer([whole], JSON), retries=retries, engine=holding)
    got = received(sent(made))
    assert got[0].calls == [("bash", '{"command": "ls"}')]
    assert made.exchange.outcome.again is Why.BROKEN
    assert "bash" in json.dumps(json.loads(made.server.asked[1])["tool_choice"])


def test_a_client_that_is_gone_is_told_nothing() -> None:
    made = answered(Answer([BEGUN, ClientGone("gone")]))
    with pytest.raises(ClientGone):
        sent(made)
    assert made.exchange.outcome.failure is None


def test_whoever_stops_listening_closes_the_connection_to_the_model_server() -> None:
    answer = Answer([BEGUN, TEXT])
    parts = run_exchange(answered(answer).exchange)
    assert next(filter(None, parts))
    parts.close()
    assert answer.closed


def test_a_defect_before_anything_has_left_is_raised() -> None:
    with pytest.raises(RuntimeError, match="a defect"):
        sent(answered(Answer([RuntimeError("a defect")])))


def test_a_defect_after_that_ends_the_stream_and_is_told_to_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    """C6."""
    got = received(sent(answered(Answer([BEGUN, RuntimeError("a defect")]))))
    assert got[0].text == "Just " and got[0].finish is None
    assert got.error and "a defect" not in got.error["message"]
    assert "a defect" in caplog.text


def test_what_was_done_is_told_however_it_ends() -> None:
    call = [calls(piece(0, '{"command": "ls"}', "bash", "a")), chunk(delta(0, "tool_calls"))]
    made = answered(Answer([wire([ROLE, *call])]))
    assert received(sent(made))[0].finish == "tool_calls"
    assert made.exchange.outcome.calls == 1
    made = answered(Answer([wire([ROLE, *call[:1], says(call_json("now"))], done=False), UpstreamBroken("off")]))
    assert received(sent(made)).error
    assert made.exchange.outcome.calls == 1


def test_a_whole_answer_is_one_piece() -> None:
    entry = {"index": 0, "message": {"role": "assistant", "content": "Just text."}, "finish_reason": "stop"}
    body = json.dumps({"id": "w", "choices": [entry]}).encode()
    made = answered(Answer([body[:5], body[5:]], JSON), ask=request(stream=False))
    assert [*filter(None, run_exchange(made.exchange))] == [body]
