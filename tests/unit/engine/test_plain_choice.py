"""A choice of a reply without tools: thoughts are told from its text, and nothing in it is a call (F86)."""

from __future__ import annotations

from proxy.engine.engine import Engine
from proxy.engine.events import Chunk
from proxy.engine.task import Task
from proxy.notations.thoughts import Thoughts
from tests.support.helpers import SEED, Views, all_cuts, call_json, calls, delta, ends, piece, run, says, view
from tests.support.helpers import chunk as made

WRITTEN = f"<tool_call>\n{call_json('bash', command='ls')}\n</tool_call>"


def reply(*chunks: Chunk, unknown: bool = False) -> Views:
    engine = Engine(Task(tools=None, seed=SEED, thoughts=Thoughts(unknown=unknown)))
    return view(run([*chunks], engine))


def test_what_would_be_a_call_is_text_at_every_cut() -> None:
    for cut in all_cuts(f"<think>So.</think>I will.\n{WRITTEN}"):
        got = reply(*map(says, cut), ends())[0]
        assert (got.reasoning, got.text, got.calls, got.finish) == ("So.", f"I will.\n{WRITTEN}", [], "stop")


def test_calls_of_the_server_pass_behind_the_text_that_was_held() -> None:
    """Of which no tool was offered."""
    got = reply(says("I will. <thi"), calls(piece(0, "{}", "bash", "a")), ends("tool_calls"))[0]
    assert (got.text, got.calls) == ("I will. <thi", [("bash", "{}")])


def test_a_chunk_may_say_text_and_a_call_and_its_end_at_once() -> None:
    entry = delta(finish="tool_calls", content="<think>So.</think>I will.", tool_calls=[piece(0, "{}", "bash", "a")])
    got = reply(made(entry))[0]
    assert (got.reasoning, got.text, got.calls) == ("So.", "I will.", [("bash", "{}")])


def test_the_finish_is_the_servers_own() -> None:
    """With calls and without them; where it says none, the reply has stopped."""
    for reason in ("tool_calls", "length", "repetition", "stop"):
        assert reply(says("a"), ends(reason))[0].finish == reason
    assert reply(says("a"))[0].finish == "stop"


def test_where_the_prompt_may_have_begun_a_thought_its_end_is_no_text() -> None:
    got = reply(says("So."), says("</think>It is done."), ends(), unknown=True)[0]
    assert (got.text, got.reasoning) == ("So.It is done.", "")
