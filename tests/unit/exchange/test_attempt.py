"""One try: the request goes up once, and what comes back becomes the client's bytes (C1, C4, C6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import UpstreamBroken, UpstreamRefused, UpstreamUnreachable
from proxy.exchange.attempt import Attempt, Said
from proxy.exchange.plan import SILENT, Plan, Retries, Why
from proxy.healing.heal import HealPlan, heal_request
from proxy.notations.thoughts import Thoughts
from tests.support.answered_exchange import BEAT, JSON, Answer, Answered, answered, request
from tests.support.helpers import SEED, call_json, chunk, delta, ends, event_bytes, offered, received, says
from tests.unit.exchange.test_reply_stream import DONE, ROLE, STRONG, wire

TEXT = [ROLE, says("Just "), says("text."), ends()]
PING = b": ping\n\n"
LS = ("bash", '{"command": "ls"}')
SECRETS = ("sk-secret-123456",)
ERROR = event_bytes({"error": {"message": f"no {SECRETS[0]}"}})


def whole(content: str | None, **top: Any) -> bytes:
    """A whole answer."""
    entry = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"id": "w", "object": "chat.completion", "model": "m", "choices": [entry], **top}).encode()


def attempt(made: Answered, plan: Plan | None = None, earlier: Attempt | None = None) -> Attempt:
    return Attempt(made.exchange, plan or made.exchange.plan, earlier)


def run(made: Answered) -> tuple[bytes, Attempt]:
    """All that a try gives, and the try; the outcome is told of it."""
    one = attempt(made)
    data = b"".join(one.run())
    one.note()
    return data, one


class Defective(Engine):
    """An engine that cannot read what it is fed."""

    def feed(self, chunk: object) -> Any:
        raise RuntimeError("a defect of the engine")


def defective(raw_text: bool, forced: str) -> Engine:
    return Defective(Task(tools=offered(), seed=SEED))


def thoughtful(raw_text: bool, forced: str) -> Engine:
    """An engine that tells thoughts from the text."""
    return Engine(Task(tools=offered(), seed=SEED, thoughts=Thoughts()))


def test_a_clean_stream_leaves_as_it_came_and_its_connection_is_closed() -> None:
    """C1."""
    answer = Answer([each.raw for each in TEXT] + [DONE])
    made = answered(answer)
    data, one = run(made)
    assert data == wire(TEXT)
    assert (made.server.asked, answer.closed) == ([made.exchange.request.raw], True)
    assert (one.said, one.silence, one.withheld, one.calls) == (Said.CONTENT, None, False, 0)
    assert made.exchange.outcome.audit == ()


def test_a_call_in_the_text_is_told_to_the_outcome() -> None:
    made = answered(Answer([wire([ROLE, says(f"I will.\n{STRONG}"), ends()])]))
    data, one = run(made)
    got = received(data)[0]
    assert (got.text, got.calls, got.finish) == ("I will.\n", [LS], "tool_calls")
    outcome = made.exchange.outcome
    assert (one.calls, outcome.calls) == (1, 1)
    assert {"text_call", "finish"} <= {repair.id for repair in outcome.audit}


def test_a_heartbeat_leaves_where_nothing_comes_and_is_no_word_of_the_reply() -> None:
    made = answered(Answer([BEAT, ROLE.raw, BEAT, *(each.raw for each in TEXT[1:]), DONE]))
    one = attempt(made)
    parts = one.run()
    assert (next(parts), one.said, one.begun) == (PING, Said.HEARTBEAT, False)
    rest = b"".join(parts)
    assert rest.startswith(PING) and received(rest)[0].text == "Just text."
    assert made.exchange.outcome.heartbeats == 2


def test_a_role_alone_waits_for_what_comes_after_it() -> None:
    one = attempt(answered(Answer([ROLE.raw, says("Just ").raw, ends().raw, DONE])))
    parts = filter(None, one.run())
    assert next(parts) == ROLE.raw + says("Just ").raw
    assert one.said is Said.CONTENT


@pytest.mark.parametrize(("status", "error"), [(400, UpstreamRefused), (503, UpstreamRefused), (302, UpstreamBroken)])
def test_what_is_no_success_is_raised_without_secrets_before_anything_is_given(
    status: int, error: type[Exception]
) -> None:
    body = json.dumps({"error": {"message": "your key sk-secret-123456 is wrong"}}).encode()
    answer = Answer([body], JSON, status)
    made = answered(answer, secrets=SECRETS)
    one = attempt(made)
    with pytest.raises(error) as raised:
        b"".join(one.run())
    assert "sk-secret-123456" not in str(raised.value)
    assert (one.said, one.begun, answer.closed) == (Said.NOTHING, False, True)


def test_a_server_that_is_not_there_is_raised() -> None:
    with pytest.raises(UpstreamUnreachable):
        b"".join(attempt(answered(UpstreamUnreachable("nobody there"))).run())


def test_a_stream_that_breaks_off_is_raised_and_what_was_held_is_its_end() -> None:
    broken = UpstreamBroken("it broke off")
    one = attempt(answered(Answer([wire([ROLE, says("a <tool")], done=False), broken])))
    given = b""
    with pytest.raises(UpstreamBroken):
        for part in one.run():
            given += part
    got = received(given + one.fail(broken))
    assert got[0].text == "a <tool"
    assert got.error and got.error["message"] == "it broke off"


def test_a_whole_answer_is_one_piece_and_the_very_bytes() -> None:
    """C1."""
    body = whole("Just text.")
    parts = [*filter(None, attempt(answered(Answer([body[:9], body[9:]], JSON), ask=request(stream=False))).run())]
    assert parts == [body]


def test_a_whole_answer_becomes_the_stream_that_was_asked_for() -> None:
    data, _ = run(answered(Answer([whole(STRONG)], JSON)))
    got = received(data)
    assert (got[0].calls, got[0].finish, got.done) == ([LS], "tool_calls", True)


def test_a_stream_that_nobody_asked_for_is_an_error() -> None:
    with pytest.raises(UpstreamBroken, match="not asked for"):
        run(answered(Answer([wire(TEXT)]), ask=request(stream=False)))


@pytest.mark.parametrize("why", [Why.EMPTY, Why.THOUGHT])
def test_the_end_of_a_reply_that_says_nothing_is_kept_back_if_one_more_may_follow(why: Why) -> None:
    said = [ROLE] if why is Why.EMPTY else [ROLE, chunk(delta(reasoning="So."))]
    for ask_again, kept in ((SILENT, True), (frozenset[Why](), False)):
        one = attempt(answered(Answer([wire([*said, ends()])]), retries=Retries(again=ask_again)))
        data = b"".join(one.run())
        assert (one.silence, one.withheld) == (why, kept)
        assert (b"[DONE]" in data) is not kept
        assert received(data + one.end_after_all())[0].finish == "stop"


def test_what_a_second_try_says_goes_on_in_the_reply_of_the_first() -> None:
    made = answered(
        Answer([wire([ROLE, chunk(delta(reasoning="So.")), ends()])]),
        Answer([wire([ROLE, says("It is done."), ends()])]),
        retries=Retries(again=SILENT),
    )
    first = attempt(made)
    data = b"".join(first.run())
    second = attempt(made, Plan(again=Why.THOUGHT), first)
    got = received(data + b"".join(second.run()))
    assert (got[0].reasoning, got[0].text, got.done, got.roles) == ("So.", "It is done.", True, 1)


def test_a_second_try_that_is_no_stream_cannot_go_on_in_one() -> None:
    thought = Answer([wire([ROLE, chunk(delta(reasoning="So.")), ends()])])
    made = answered(thought, Answer([whole("It is done.")], JSON), retries=Retries(again=SILENT))
    first = attempt(made)
    assert b"".join(first.run())
    with pytest.raises(UpstreamBroken, match="no stream"):
        b"".join(attempt(made, Plan(again=Why.THOUGHT), first).run())


def test_healings_that_a_refusal_taught_are_kept_once_the_server_takes_the_request() -> None:
    for status, kept in ((200, [("no_system",)]), (400, [])):
        answer = Answer([whole("a")], JSON, status)
        made = answered(answer, ask=request(stream=False), plan=Plan(learnt=("no_system",)))
        one = attempt(made)
        if status == 200:
            b"".join(one.run())
        else:
            with pytest.raises(UpstreamRefused):
                b"".join(one.run())
        assert made.known.healings == kept


def test_a_defect_of_the_healing_leaves_the_request_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """C6."""

    def broken(body: JsonObject, plan: HealPlan) -> Any:
        if plan.ids:
            raise RuntimeError("a defect of the healing")
        return heal_request(body, plan)

    monkeypatch.setattr("proxy.exchange.plan.heal_request", broken)
    made = answered(Answer([wire(TEXT)]), plan=Plan(heal=HealPlan()))
    assert run(made)[0] == wire(TEXT)
    assert made.server.asked == [made.exchange.request.raw]


def test_a_defect_of_the_engine_leaves_the_answer_as_it_came() -> None:
    """C6: a whole one, and a stream."""
    body = whole(STRONG)
    made = answered(Answer([body], JSON), ask=request(stream=False), engine=defective)
    assert run(made)[0] == body
    assert run(answered(Answer([wire(TEXT)]), engine=defective))[0] == wire(TEXT)


def test_the_tokens_of_thoughts_are_counted_by_the_server() -> None:
    thinking = "<think>I should look.</think>It is done."
    usage = {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10}
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 4

    made = answered(
        Answer([whole(thinking, usage=usage)], JSON), ask=request(stream=False), count=count, engine=thoughtful
    )
    told = json.loads(run(made)[0])
    assert asked == ["I should look."]
    assert told["usage"] == {**usage, "completion_tokens_details": {"reasoning_tokens": 4}}


def test_what_is_held_for_too_long_is_let_go() -> None:
    """C2."""
    parts: list[bytes | Exception | None] = [wire([ROLE, says("a"), says("<tool_call>")], done=False), BEAT, BEAT]
    made = answered(Answer([*parts, wire([says(call_json("bash", command="ls")), ends()])]), hold_timeout=0.0)
    data, _ = run(made)
    assert received(data)[0].text == f"a<tool_call>{call_json('bash', command='ls')}"
