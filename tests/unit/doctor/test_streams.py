"""A stream held against the whole answer, and several calls in one answer."""

from __future__ import annotations

import pytest

from proxy.doctor.streams import PROBES
from proxy.errors import UpstreamTimeout
from tests.support.doctor_answers import (
    CALL,
    GOOD,
    broken,
    error,
    events,
    examination,
    found,
    ids,
    said,
    streamed,
    whole,
)
from tests.support.socketless import Made

HERMES = CALL["Hermes' JSON"]
TWICE = whole(f"{HERMES}\n{HERMES}")
LATE = UpstreamTimeout("late")
ENTRY = {"index": 0, "id": "a", "function": {"name": "write_file", "arguments": GOOD}}
OTHER = {"index": 1, "id": "b", "function": {"name": "write_file", "arguments": GOOD}}


def bare(entry: dict[str, object], key: str) -> dict[str, object]:
    """The entry without a field."""
    return {name: value for name, value in entry.items() if name != key}


@pytest.mark.parametrize(
    ("complete", "stream", "told"),
    [
        (whole("", GOOD), streamed("", GOOD), ["stream_faithful"]),
        (whole("", GOOD), streamed("", GOOD, more=()), ["stream_faithful", "stream_without_done"]),
        (whole("", GOOD), streamed("", '{"path"'), ["stream_misshapen"]),
        (whole("", GOOD), streamed("I shall."), ["stream_loses_calls"]),
        (whole("", GOOD), error("no", 400), ["stream_refused"]),
        (whole("", GOOD), LATE, ["stream_refused"]),
        (whole("", GOOD), broken("it broke"), ["stream_breaks"]),
        (error("no", 400), streamed("", GOOD), ["stream_untold"]),
        (whole(HERMES), streamed(""), ["stream_swallows"]),
        (whole(HERMES), streamed("", GOOD), ["stream_untold"]),
        (whole("So  it\nis."), streamed("So it is."), ["stream_same_text"]),
        (whole("So it is."), streamed("So be it."), ["stream_untold"]),
        (whole("So it is."), streamed(""), ["stream_untold"]),
        (whole(" "), streamed(""), ["stream_untold"]),
    ],
    ids=[
        *("the same", "without an end", "broken arguments", "lost", "refused", "silent", "breaks"),
        *("both refused", "swallowed", "found", "the same text", "another", "no text", "nothing at all"),
    ],
)
def test_a_stream_is_what_the_whole_answer_is_or_it_is_said_what_it_lacks(
    complete: Made, stream: Made, told: list[str]
) -> None:
    at = examination(said({"call auto": complete, "call auto stream": stream}))
    assert ids(PROBES, "streams", at) == told


@pytest.mark.parametrize(
    ("stream", "faults"),
    [
        (events(bare(ENTRY, "id")), "a call has no id"),
        (events(ENTRY, bare(OTHER, "id")), "a call has no id"),
        (events(ENTRY, {**OTHER, "id": "a"}), "two calls have one id"),
        (events(bare(ENTRY, "index")), "deltas of calls have no index"),
        (events(ENTRY, finish=""), "it ends without a finish_reason"),
        (events(ENTRY, finish="stop"), "it ends with finish_reason 'stop' beside a call"),
        (events(bare(ENTRY, "id"), finish=""), "a call has no id; it ends without a finish_reason"),
        (streamed("", "[]"), "the arguments, joined, are no JSON object: '[]'"),
    ],
    ids=["no id", "no second id", "one id", "no index", "no finish", "another finish", "two faults", "a list"],
)
def test_what_strict_clients_miss_in_the_calls_of_a_stream_is_named(stream: Made, faults: str) -> None:
    at = examination(said({"call auto": whole("", GOOD), "call auto stream": stream}))
    (finding,) = found(PROBES, "streams", at)
    assert finding.what == f"the calls of a stream are not as clients take them: {faults}"


def test_two_sound_calls_of_a_stream_are_no_fault() -> None:
    at = examination(said({"call auto": whole("", GOOD), "call auto stream": events(ENTRY, OTHER)}))
    assert ids(PROBES, "streams", at) == ["stream_faithful"]


@pytest.mark.parametrize(
    ("complete", "why"),
    [(error("no", 400), "status 400: no"), (LATE, "there was no answer within 60 s")],
    ids=["refused", "silent"],
)
def test_without_a_whole_answer_it_is_said_why_there_is_none(complete: Made, why: str) -> None:
    """Of the stream, which may be well, nothing is said."""
    at = examination(said({"call auto": complete, "call auto stream": streamed("", GOOD)}))
    (finding,) = found(PROBES, "streams", at)
    assert finding.what == f"whether streams are faithful could not be told: of the whole answer there is none: {why}"


def test_what_the_server_says_is_cut() -> None:
    at = examination(said({"call auto": whole("", GOOD), "call auto stream": error("x" * 900, 400)}))
    (finding,) = found(PROBES, "streams", at)
    assert finding.what.endswith("x" * 100) and len(finding.what) < 250
    assert finding.rule == ("upstream", "whole")


@pytest.mark.parametrize(
    ("auto", "stream", "raw", "told"),
    [
        (whole("", GOOD, GOOD), streamed("", GOOD, GOOD), whole(""), ("parallel", "2 calls in one answer arrive")),
        (
            whole("", GOOD, GOOD),
            streamed("", GOOD),
            whole(""),
            ("parallel_lost_in_stream", "of 2 calls in one answer 1 are in the stream"),
        ),
        (
            whole("", GOOD, GOOD),
            events(ENTRY, {**OTHER, "id": "a"}),
            whole(""),
            ("parallel_one_id", "the 2 calls of one answer share an id"),
        ),
        (whole("", GOOD, GOOD), LATE, whole(""), ("parallel_untold", "there was no answer within 60 s")),
        (
            whole("", GOOD),
            streamed(""),
            TWICE,
            ("parallel_lost", "the model wrote 2 calls in one answer, and 1 came as calls"),
        ),
        (whole(""), streamed(""), TWICE, ("parallel_lost", "and 0 came as calls")),
        (whole(HERMES), streamed(""), TWICE, ("parallel_lost", "and 0 came as calls")),
        # Under `auto` it wrote something else, of which nothing was lost.
        (whole("I would rather not."), streamed(""), TWICE, ("parallel_untold", "did not write")),
        (whole("", GOOD), streamed(""), whole(HERMES), ("parallel_untold", "did not write two calls in one answer")),
        (error("no", 400), streamed(""), whole(HERMES), ("parallel_untold", "could not be told: status 400: no")),
        ((200, b"what?"), streamed(""), whole(HERMES), ("parallel_untold", "status 200: it is no reply")),
        (LATE, LATE, LATE, ("parallel_untold", "could not be told: there was no answer within 60 s")),
    ],
    ids=[
        *("arrive", "one in the stream", "one id", "no stream", "one came", "swallowed", "left in the text"),
        *("declined", "one written", "refused", "no reply", "silent"),
    ],
)
def test_several_calls_arrive_or_it_is_said_how_many_are_lost(
    auto: Made, stream: Made, raw: Made, told: tuple[str, str]
) -> None:
    at = examination(said({"two auto": auto, "two auto stream": stream, "two none": raw}))
    (finding,) = found(PROBES, "parallel", at)
    assert finding.id == told[0] and told[1] in finding.what
