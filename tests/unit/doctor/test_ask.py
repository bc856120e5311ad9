"""Requests of the doctor's: what an answer says, what it costs, and when no further one is sent."""

from __future__ import annotations

import json

import pytest

from proxy.codec.json_text import JsonObject
from proxy.doctor.ask import MAX_TIMEOUTS, Answer, Asker, Spent
from proxy.errors import ProxyError, UpstreamTimeout, UpstreamUnreachable
from tests.support.doctor_answers import streamed, whole
from tests.support.socketless import Made, Socketless

CHAT: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "Say yes."}]}


def asker(*answers: Made, key: str = "", budget: float = 100.0) -> tuple[Asker, Socketless]:
    """One whose requests are answered so, one after the other."""
    left = iter(answers)
    server = Socketless(lambda path, body: next(left))
    return Asker(server, key, 9.0, budget), server


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "no"}, "message": "flat"}', "no"),
        (b'{"error": "Unauthorized"}', "Unauthorized"),
        (b'{"message": "flat", "detail": "more"}', "flat"),
        (b'{"error": {}, "detail": "Not Found"}', "Not Found"),
        (b" <html>gone</html>\n", "<html>gone</html>"),
        (b"\xff" * 400, "\ufffd" * 300),
        (b"", ""),
    ],
    ids=["OpenAI's", "a text", "flat", "FastAPI's", "no JSON", "no text", "nothing"],
)
def test_the_words_of_an_error_are_found_in_each_shape(body: bytes, words: str) -> None:
    assert Answer(400, body).error == words


@pytest.mark.parametrize(
    ("body", "value", "object_"),
    [(b'{"a": 1}', {"a": 1}, {"a": 1}), (b"[1]", [1], {}), (b"{", None, {}), (b"null", None, {})],
    ids=["an object", "a list", "broken", "null"],
)
def test_a_body_is_read_as_json_if_it_is_some(body: bytes, value: object, object_: object) -> None:
    assert (Answer(200, body).value, Answer(200, body).json) == (value, object_)


def test_a_request_says_the_key_and_what_it_is() -> None:
    ask, server = asker((200, b"{}"), (200, b"{}"), key="secret")
    assert ask.url == "http://h:1"
    ask.get("/version")
    assert server.asked == [("GET", "/version", {})]
    assert server.headers == {"Authorization": "Bearer secret"}
    ask.post("/tokenize", {"a": 1})
    assert server.asked[1] == ("POST", "/tokenize", {"a": 1})
    assert server.headers == {"Authorization": "Bearer secret", "Content-Type": "application/json"}


def test_without_a_key_none_is_sent() -> None:
    ask, server = asker((200, b"{}"))
    ask.get("/x")
    assert server.headers == {}


def test_an_answer_that_says_the_key_is_starred() -> None:
    key = "sk-0123456789abcdef"
    ask, _ = asker((401, json.dumps({"error": f"{key} is wrong"}).encode()), key=key)
    answer = ask.get("/x")
    assert answer.status == 401 and key not in answer.error and answer.error.endswith(" is wrong")


def test_what_the_replies_cost_is_added_up() -> None:
    ask, _ = asker(whole("Yes.", tokens=3), streamed("Yes.", tokens=4), (200, b"{}"), (500, b""))
    assert ask.chat(CHAT).text == "Yes."
    reply = ask.chat({**CHAT, "stream": True})
    assert reply.streamed and reply.text == "Yes."
    assert not ask.chat(CHAT).taken
    assert ask.chat(CHAT).status == 500
    assert (ask.spent.requests, ask.spent.prompt_tokens, ask.spent.completion_tokens) == (4, 9, 7)


@pytest.mark.parametrize(
    ("error", "trouble", "timed_out"),
    [
        (UpstreamTimeout("silent"), "there was no answer within 9 s", True),
        (UpstreamUnreachable("the model server cannot be reached"), "the model server cannot be reached", False),
    ],
    ids=["late", "not there"],
)
def test_where_no_answer_comes_the_trouble_is_told(error: ProxyError, trouble: str, timed_out: bool) -> None:
    ask, _ = asker(error)
    assert ask.get("/x") == Answer(0, trouble=trouble, timed_out=timed_out)
    assert (ask.spent.requests, ask.is_over) == (1, False)


def test_a_server_that_is_late_too_often_in_a_row_is_asked_no_more() -> None:
    late = UpstreamTimeout("late")
    ask, server = asker(*[late] * (MAX_TIMEOUTS - 1), (200, b""), *[late] * (MAX_TIMEOUTS + 1))
    for _ in range(2 * MAX_TIMEOUTS):
        ask.get("/x")
    last = ask.get("/x")
    assert last == Answer(0, trouble="the server did not answer the requests before this one", timed_out=True)
    assert ask.spent.requests == len(server.asked) == 2 * MAX_TIMEOUTS


def test_one_that_is_not_reached_is_asked_again() -> None:
    gone = UpstreamUnreachable("gone")
    ask, _ = asker(*[gone] * (MAX_TIMEOUTS + 1), (200, b""))
    assert [ask.get("/x").status for _ in range(MAX_TIMEOUTS + 2)][-1] == 200


def test_a_request_for_which_there_is_less_time_ends_sooner() -> None:
    ask, _ = asker(UpstreamTimeout("late"), UpstreamTimeout("late"))
    assert ask.get("/x", 2.5).trouble == "there was no answer within 2.5 s"
    assert ask.get("/x", 60.0).trouble == "there was no answer within 9 s"


def test_the_budget_ends_all_of_them() -> None:
    """It is less than what one answer may take."""
    ask, server = asker(UpstreamTimeout("late"), budget=8.0)
    assert ask.get("/x").timed_out and ask.is_over
    ask.budget = 0.0
    assert ask.get("/x") == Answer(0, trouble="the time for all of them is over", timed_out=True)
    assert len(server.asked) == 1


def test_seconds_go_on() -> None:
    spent = Spent(began=Spent().began - 5.0)
    assert 5.0 <= spent.seconds < 60.0
