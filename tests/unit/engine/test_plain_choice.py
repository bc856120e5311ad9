"""A choice of a reply without tools: thoughts are told from its text, and nothing in it is a call (F86)."""

from __future__ import annotations

from proxy.engine.engine import Engine
from proxy.engine.events import Chunk
from proxy.engine.task import Task
from proxy.notations.thoughts import Thoughts
from tests.support.helpers import SEED, Views, calls, ends, piece, run, says, view


def reply(*chunks: Chunk, unknown: bool = False) -> Views:
    engine = Engine(Task(tools=None, seed=SEED, thoughts=Thoughts(unknown=unknown)))
    return view(run([*chunks], engine))


def test_calls_of_the_server_pass_behind_the_text_that_was_held() -> None:
    """Of which no tool was offered."""
    got = reply(says("I will. <thi"), calls(piece(0, "{}", "bash", "a")), ends("tool_calls"))[0]
    assert (got.text, got.calls) == ("I will. <thi", [("bash", "{}")])


def test_where_the_prompt_may_have_begun_a_thought_its_end_is_no_text() -> None:
    got = reply(says("So."), says("</think>It is done."), ends(), unknown=True)[0]
    assert (got.text, got.reasoning) == ("So.It is done.", "")
