"""What became of a reply: kept while a capture of its answer could be whole."""

from __future__ import annotations

import pytest

from proxy.engine.events import Event, Reasoning, Text
from proxy.exchange.reply_record import ReplyRecord


@pytest.mark.parametrize("more", [Text(0, "123456"), Reasoning(0, "123456")])
def test_of_a_reply_that_grows_too_long_nothing_is_kept(more: Event) -> None:
    record = ReplyRecord(10)
    record.observe([Text(0, "12345")])
    assert record.is_whole and record.as_json((), {})["choices"] != []
    record.observe([more])
    record.observe([Text(0, "a")])
    assert (record.is_whole, record.as_json((), {})["choices"]) == (False, [])


def test_a_record_that_was_given_up_stays_so() -> None:
    record = ReplyRecord()
    record.observe([Text(0, "a")])
    record.give_up()
    record.observe([Text(0, "b")])
    assert (record.is_whole, record.as_json((), {})["choices"]) == (False, [])
