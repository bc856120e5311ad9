"""Recordings keep the first bytes of each side, regardless of the cuts."""

from __future__ import annotations

import pytest

from proxy.exchange import recording
from proxy.exchange.recording import Excerpt, Recording


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_KEPT", 10)


@pytest.mark.parametrize("cut", range(1, 14))
def test_only_the_beginning_of_a_long_body_is_kept(cut: int) -> None:
    excerpt = in_parts(b"0123456789abc", cut)
    assert (excerpt.data, excerpt.size, excerpt.cut) == (b"0123456789", 13, True)


def in_parts(said: bytes, size: int) -> Excerpt:
    excerpt = Excerpt()
    for at in range(0, len(said), size):
        excerpt.add(said[at : at + size])
    return excerpt


def test_the_number_of_recorded_attempts_is_limited() -> None:
    one = Recording()
    for number in range(recording.MAX_TRIES + 2):
        one.begin_try(b"%d" % number, raw_text=False).answer.add(b"said")
    assert [each.up for each in one.tries] == [b"%d" % number for number in range(recording.MAX_TRIES)]
    assert {each.answer.data for each in one.tries} == {b"said"}


def test_the_size_excludes_only_the_original_request_body() -> None:
    """The activity record holds that body as well."""
    one = Recording()
    one.sent.add(b"0123456789abc")
    for answer in (b"said", b"0123456789abc"):
        one.begin_try(b"up", raw_text=False).answer.add(answer)
    assert one.size == len(b"0123456789" + 2 * b"up" + b"said" + b"0123456789")
