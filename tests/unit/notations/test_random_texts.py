"""Random texts and random calls: the cuts never matter, and calls are read as written (C3)."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.contract.test_c3_round_trip import QUIET, Request, comparable, requests
from tests.support.helpers import all_cuts, call_json, new_scanner, random_cut, scan
from tests.support.rows import table
from tests.support.whole_reply_forms import DRESSES, FORMS

pytestmark = pytest.mark.once

WEAK = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{call_json('bash', command='pwd')}\n</tool_call>"
INNER = "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>"

# Texts that a parser once read differently at another cut, or read endlessly.
ODD: dict[str, str] = table(__file__, "ODD")


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("json_reply", [False, True])
def test_odd_texts_are_read_completely_and_equally_at_every_cut(name: str, json_reply: bool) -> None:
    with time_limit(10):
        whole = scan([ODD[name]], new_scanner(json_reply=json_reply))
        for cut in all_cuts(ODD[name]):
            assert scan(cut, new_scanner(json_reply=json_reply)) == whole


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Fail instead of blocking all other tests if a parser never ends."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError("it never ends")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Markers of all families, and text between them.
_MARKERS: list[str] = table(__file__, "MARKERS")
_ANY = st.sampled_from(
    [*_MARKERS, WEAK, STRONG, INNER, call_json("now"), "[bash(command='ls')]"]
)


@pytest.mark.slow
@settings(max_examples=400, derandomize=True)
@given(st.lists(_ANY, max_size=16), st.booleans(), st.booleans(), st.booleans())
def test_random_markers_are_read_equally_at_every_cut(
    parts: list[str], stopped: bool, json_reply: bool, raw_text: bool
) -> None:
    """Markers of all families are mixed, and fed whole, by character and by marker."""
    text = "".join(parts)
    with time_limit(10):
        whole, *others = (
            scan(cut, new_scanner(json_reply=json_reply, raw_text=raw_text), stopped=stopped)
            for cut in ([text], list(text), parts)
        )
    assert others == [whole, whole]
    assert all(isinstance(values, dict) for _, values in whole.parsed)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=12, derandomize=True, suppress_health_check=QUIET)
@given(request_=requests(), dress=st.sampled_from(sorted(DRESSES)), rng=st.randoms(use_true_random=False))
def test_random_calls_are_read_as_written(form: str, request_: Request, dress: str, rng: random.Random) -> None:
    """Names, values and order are equal at a random cut."""
    assume(all(arguments for _, arguments in request_.calls))
    text = DRESSES[dress]("\n".join(FORMS[form](name, arguments) for name, arguments in request_.calls))
    assume(form != "Python's marks" or "\\x" not in text)  # only Python reads this as an escape
    found = scan(random_cut(text, rng), new_scanner(request_.tools))
    assert [comparable(*call) for call in found.parsed] == [comparable(*call) for call in request_.calls]
    assert found.text.strip() == ""
