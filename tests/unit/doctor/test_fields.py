"""Fields of requests, token counts and errors: what the server takes, and in which shape it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.doctor.examination import Examination
from proxy.doctor.fields import PROBES
from proxy.doctor.findings import Level
from proxy.errors import UpstreamTimeout
from tests.support.doctor_answers import error, examination, found, ids, said, streamed, whole
from tests.support.socketless import Answers, Made

YES = whole("Yes.")
LATE = UpstreamTimeout("late")
TOO_LONG = error("This model's maximum context length is 10 tokens. However, your prompt contains 110 input tokens")


def refusing(field: str, refused: Made, other: Made = YES) -> Answers:
    """A server that answers so where a request has the field."""
    return lambda path, body: refused if field in body else other


def told(body: Any) -> Made:
    return 200, json.dumps(body).encode()


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        (said({"plain": YES}), "special_taken"),
        (refusing("skip_special_tokens", error("unknown field", 400)), "special_refused"),
        (refusing("skip_special_tokens", error("unknown field", 422)), "special_refused"),
        (refusing("skip_special_tokens", error("busy", 503)), "special_untold"),
        (said({"plain": error("no model", 400)}), "special_untold"),
        (said({"plain": LATE}), "special_untold"),
    ],
    ids=["taken", "refused", "refused by the schema", "busy", "all is refused", "silent"],
)
def test_special_tokens_are_taken_or_refused(answers: Answers, result: str) -> None:
    assert ids(PROBES, "special_tokens", examination(answers)) == [result]


def test_the_words_of_a_refusal_are_shown_in_short() -> None:
    (finding,) = found(PROBES, "special_tokens", examination(refusing("skip_special_tokens", error("no " * 200))))
    assert finding.what.startswith("skip_special_tokens: false is refused: no no") and len(finding.what) < 220


@pytest.mark.parametrize(
    ("stream", "complete", "results"),
    [
        (streamed("Yes."), YES, ["usage_missing", "options_taken"]),
        (error("no", 400), error("no", 400), ["usage_untold"]),
        (LATE, LATE, ["usage_untold"]),
    ],
    ids=["no prompt counted", "all is refused", "silent"],
)
def test_the_usage_of_a_stream_is_there_or_not(stream: Made, complete: Made, results: list[str]) -> None:
    at = examination(said({"plain stream": stream, "plain": complete}))
    assert ids(PROBES, "stream_options", at) == results


def test_a_usage_that_counts_the_prompt_is_one() -> None:
    counted = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
    at = examination(said({"plain stream": streamed("Yes.", more=(counted,)), "plain": YES}))
    assert ids(PROBES, "stream_options", at) == ["usage", "options_taken"]


def test_stream_options_beside_a_whole_answer_may_be_refused() -> None:
    def answer(path: str, body: JsonObject) -> Made:
        if body.get("stream"):
            return streamed("Yes.")
        return error("only with stream", 400) if "stream_options" in body else YES

    assert ids(PROBES, "stream_options", examination(answer)) == ["usage_missing", "options_refused"]


@pytest.mark.parametrize(
    ("text", "messages", "what"),
    [
        (told({"count": 2}), told({"input_tokens": 2}), "/tokenize and /v1/messages/count_tokens"),
        (told({"tokens": [1, 2]}), error("no", 404), "/tokenize"),
        (error("no", 404), told({"input_tokens": 2}), "/v1/messages/count_tokens"),
    ],
)
def test_the_paths_that_count_tokens_are_named(text: Made, messages: Made, what: str) -> None:
    at = examination(said({}, {"/tokenize": text, "/v1/messages/count_tokens": messages}))
    (finding,) = found(PROBES, "token_counts", at)
    assert (finding.id, finding.what) == ("counts", f"tokens are counted by {what}")


@pytest.mark.parametrize("body", [{"count": True}, {"count": "2"}, {"tokens": []}, {}, []])
def test_what_counts_nothing_is_no_count(body: Any) -> None:
    at = examination(said({}, {"/tokenize": told(body), "/v1/messages/count_tokens": told({"input_tokens": True})}))
    assert ids(PROBES, "token_counts", at) == ["counts_missing"]


def test_where_nothing_is_answered_counts_are_untold() -> None:
    assert ids(PROBES, "token_counts", examination(said({}, {"/tokenize": LATE}))) == ["counts_untold"]


def erring(wrong_model: Made, bad_field: Made, long: Made = TOO_LONG, context: int | None = 10) -> Examination:
    """A server that answers so what is wrong, and everything else as it should."""

    def answer(path: str, body: JsonObject) -> Made:
        if str(body.get("model")).endswith("-not-there"):
            return wrong_model
        if "temperature" in body:
            return bad_field
        return long if len(json.dumps(body["messages"])) > 200 else YES

    at = examination(answer)
    at.context = context
    return at


REFUSED = error("no such model", 404)


@pytest.mark.parametrize(
    ("wrong_model", "bad_field", "results"),
    [
        (REFUSED, error("no number", 400), ["error_shape", "error_shape"]),
        ((404, b"Not Found"), (400, b'{"detail": "no"}'), ["error_odd", "error_odd"]),
        ((404, b""), (500, b'{"error": {"message": ""}}'), ["error_odd", "error_odd"]),
        (YES, YES, ["any_model", "bad_field_taken"]),
        (LATE, LATE, []),
    ],
    ids=["as SDKs read it", "odd", "nothing", "taken", "silent"],
)
def test_the_shape_of_errors_is_told(wrong_model: Made, bad_field: Made, results: list[str]) -> None:
    assert ids(PROBES, "errors", erring(wrong_model, bad_field)) == [*results, "overflow"]


def test_an_odd_error_is_shown_in_one_line() -> None:
    first, second, _ = found(PROBES, "errors", erring((404, b"Not\n  Found\xff"), (400, b"")))
    assert first.what.endswith("(404): Not Found\N{REPLACEMENT CHARACTER}") and second.what.endswith("(400): nothing")


@pytest.mark.parametrize(
    ("long", "result"),
    [
        (TOO_LONG, "overflow"),
        (error("no", 400), "overflow_unknown"),
        (YES, "overflow_taken"),
        (told({"odd": 1}), "overflow_untold"),
        (LATE, "overflow_untold"),
    ],
    ids=["known words", "other words", "taken", "no reply", "silent"],
)
def test_what_becomes_of_a_prompt_that_is_too_long_is_told(long: Made, result: str) -> None:
    assert ids(PROBES, "errors", erring(REFUSED, REFUSED, long))[-1] == result


def test_a_prompt_that_is_cut_off_in_silence_is_harm() -> None:
    finding = found(PROBES, "errors", erring(REFUSED, REFUSED, YES))[-1]
    assert finding.level is Level.HARM and "(10 tokens)" in finding.what


@pytest.mark.parametrize(("context", "kind"), [(None, "vllm"), (10, "ollama"), (1_000_000, "vllm")])
def test_a_long_prompt_is_sent_only_where_it_is_refused_before_it_is_read(context: int | None, kind: str) -> None:
    at = erring(REFUSED, REFUSED, YES, context)
    at.kind = kind
    assert ids(PROBES, "errors", at)[-1] == "overflow_untold"


@pytest.mark.parametrize(("plain", "why"), [(error("loading", 503), "refused, too (503)"), (LATE, "no answer within")])
def test_where_everything_is_refused_no_refusal_says_why(plain: Made, why: str) -> None:
    findings = found(PROBES, "errors", examination(said({"plain": plain})))
    assert [finding.id for finding in findings] == ["errors_untold", "overflow_untold"]
    assert all(why in finding.what for finding in findings)
