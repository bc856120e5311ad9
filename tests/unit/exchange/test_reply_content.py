"""What a reply says, told from its events: an answer, thoughts alone, or nothing."""

from __future__ import annotations

import pytest

from proxy.engine.events import CallOpened, Chunk, Event, Finished, Reasoning, Rest, Text, Unchanged, Usage
from proxy.exchange.second_try import ContentLevel, ReplyContent
from tests.support.helpers import all_cuts

STOP = Finished(0, "stop", None)


def said(*events: Event) -> ReplyContent:
    """All of them heard."""
    heard = ReplyContent()
    heard.observe(events)
    return heard


def texts(text: str) -> list[tuple[Event, ...]]:
    """A text in every cut."""
    return [tuple(Text(0, part.decode()) for part in cut) for cut in all_cuts(text.encode(), 4)]


@pytest.mark.parametrize(
    "text,saying,open_thought",
    [
        (" \n", ContentLevel.NOTHING, ""),
        ("<think>\n</think>\n", ContentLevel.NOTHING, ""),
        ("<think>a</think>", ContentLevel.THOUGHT, ""),
        ("<think>a", ContentLevel.THOUGHT, "</think>"),
        ("<think>a</think>b", ContentLevel.ANSWER, ""),
        ("<thi", ContentLevel.ANSWER, ""),
        ("a", ContentLevel.ANSWER, ""),
        ("a <think>b</think>", ContentLevel.ANSWER, ""),
        ("<|channel|>analysis<|message|>a<|end|>", ContentLevel.THOUGHT, ""),
    ],
)
def test_thoughts_in_the_text_are_thoughts_at_every_cut(text: str, saying: ContentLevel, open_thought: str) -> None:
    for events in texts(text):
        heard = said(*events, STOP)
        assert (heard.why_again(9) is None) is (saying is ContentLevel.ANSWER or open_thought != "")
        assert (heard.level, heard.open_thought) == (saying, open_thought)


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
def test_each_event_says_so_much(event: Event, saying: ContentLevel) -> None:
    assert said(event).level is saying


@pytest.mark.parametrize("word", ["refusal", "audio", "images"])
@pytest.mark.parametrize("where", ["delta", "message"])
def test_other_words_are_an_answer(word: str, where: str) -> None:
    heard = ReplyContent()
    heard.observe_body({"choices": [{where: {word: "No."}}]})
    assert heard.answered
