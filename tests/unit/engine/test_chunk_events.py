"""What chunks say that pass unparsed."""

from __future__ import annotations

from proxy.engine.chunk_events import events_of
from proxy.engine.events import CallArguments, CallOpened, Finished, Reasoning, Text, Usage
from tests.support.helpers import calls, chunk, delta, piece, says


def test_texts_of_all_choices_are_said() -> None:
    both = chunk(delta(content="a"), delta(1, reasoning="b", content="c"))
    assert events_of(both) == (Text(0, "a"), Reasoning(1, "b"), Text(1, "c"))


def test_calls_are_said() -> None:
    opened, arguments = events_of(calls(piece(0, "{}", "bash", "a")))
    assert isinstance(opened, CallOpened) and opened.name == "bash"
    assert isinstance(arguments, CallArguments) and arguments.fragment == "{}"


def test_the_finish_has_its_own_part_of_the_chunk_and_the_counts_are_said_once() -> None:
    entries = (delta(finish="stop"), delta(1, finish="length"))
    first, second, usage = events_of(chunk(*entries, usage={"completion_tokens": 3}))
    assert isinstance(first, Finished) and isinstance(second, Finished)
    assert first.source is not None and "usage" in first.source.body
    assert second.source is not None and "usage" not in second.source.body
    assert usage == Usage({"completion_tokens": 3})


def test_a_chunk_of_nothing_says_nothing() -> None:
    assert events_of(chunk()) == ()
    assert events_of(says("")) == ()
