"""What a reply says, told from its events: an answer, thoughts alone, or nothing."""

from __future__ import annotations

import pytest

from proxy.codec.json_text import JsonObject
from proxy.engine.events import CallOpened, Chunk, Event, Finished, Reasoning, Rest, Text, Unchanged, Usage
from proxy.exchange.reply_content import ContentLevel, ReplyContent
from proxy.exchange.second_try import EarlierTry, Why, summed, why_again
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
        (" \n", ContentLevel.BLANK, ""),
        ("<think>\n</think>\n", ContentLevel.BLANK, ""),
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
        assert heard.ended_without_answer() is (saying < ContentLevel.ANSWER)
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


@pytest.mark.parametrize("finish", [None, Finished(0, "length", None), Finished(0, "tool_calls", None)])
def test_without_a_natural_end_nothing_is_asked_again(finish: Finished | None) -> None:
    assert why_again(said(*([finish] if finish else [])), 0) is None


def test_of_several_choices_none_is_asked_again() -> None:
    assert why_again(said(STOP, Finished(1, "stop", None)), 0) is None


@pytest.mark.parametrize("matched,why", [("END", None), (151645, Why.EMPTY), (None, Why.EMPTY)])
@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
def test_a_stop_sequence_is_none_of_the_models_own_ends(name: str, matched: object, why: Why | None) -> None:
    source = Chunk({"choices": [{"index": 0, "finish_reason": "stop", name: matched}]}, b"")  # type: ignore[dict-item]
    assert why_again(said(Finished(0, "stop", source)), 0) is why


@pytest.mark.parametrize(
    "events,tokens,why",
    [
        ([], 0, Why.EMPTY),
        ([], 1, Why.EMPTY),
        ([], 2, Why.SWALLOWED),
        ([Text(0, "\n\n")], 3, Why.EMPTY),
        ([Text(0, "\n\n")], 4, Why.SWALLOWED),
        ([Reasoning(0, "a")], 40, Why.THOUGHT),
        ([Text(0, "a")], 40, None),
    ],
)
def test_tokens_without_a_word_were_swallowed(events: list[Event], tokens: int, why: Why | None) -> None:
    """A blank takes one token at the most, and the end of the turn one."""
    assert why_again(said(*events, STOP), tokens) is why


@pytest.mark.parametrize("word", ["refusal", "audio", "images"])
@pytest.mark.parametrize("where", ["delta", "message"])
def test_other_words_are_an_answer(word: str, where: str) -> None:
    heard = ReplyContent()
    heard.observe_body({"choices": [{where: {word: "No."}}]})
    assert heard.answered


def test_counts_are_summed_also_inside() -> None:
    one: JsonObject = {"prompt_tokens": 1, "details": {"cached": 1, "audio": None}, "cost": 0.5, "mine": 1}
    other: JsonObject = {"prompt_tokens": 2, "details": {"cached": 3, "audio": 1}, "cost": 0.25, "other": None}
    assert summed(one, other) == {
        **{"prompt_tokens": 3, "details": {"cached": 4, "audio": 1}, "cost": 0.75},
        **{"mine": 1, "other": None},
    }


def test_a_chunk_in_which_nothing_differs_is_the_very_same() -> None:
    body = {"id": "a", "choices": [{"index": 0, "delta": {"content": "b"}}]}
    assert EarlierTry({"prompt_tokens": 1}, {"id": "a"}).joined(body) is body  # type: ignore[arg-type]
