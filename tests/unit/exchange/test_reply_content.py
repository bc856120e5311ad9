"""The content of a reply, determined from its events: an answer, only reasoning, or nothing."""

from __future__ import annotations

import pytest

from proxy.engine.events import CallOpened, Chunk, Event, Finished, Reasoning, Rest, Text, Unchanged, Usage
from proxy.exchange.second_try import ContentLevel, ReplyContent

STOP = Finished(0, "stop", None)


def said(*events: Event) -> ReplyContent:
    """Observe all events."""
    heard = ReplyContent()
    heard.observe(events)
    return heard


@pytest.mark.parametrize(
    "event,saying",
    [
        (Reasoning(0, "a"), ContentLevel.THOUGHT),
        (Reasoning(0, " "), ContentLevel.NOTHING),
        (CallOpened(0, 0, "id", "run"), ContentLevel.ANSWER),
        (Usage({}), ContentLevel.NOTHING),
        (Rest(0, Chunk({}, b"")), ContentLevel.NOTHING),
        (Unchanged(b"", (Text(0, "a"),)), ContentLevel.ANSWER),
        (Unchanged(b"", ()), ContentLevel.NOTHING),
    ],
)
def test_each_event_has_a_content_level(event: Event, saying: ContentLevel) -> None:
    assert said(event).level is saying


@pytest.mark.parametrize("word", ["refusal", "audio", "images"])
@pytest.mark.parametrize("where", ["delta", "message"])
def test_other_content_fields_are_an_answer(word: str, where: str) -> None:
    heard = ReplyContent()
    heard.observe_body({"choices": [{where: {word: "No."}}]})
    assert heard.answered
