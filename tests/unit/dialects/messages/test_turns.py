"""The turns of random conversations as chat messages (C3, C8, F82, F83, F89)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.helpers import function, new_scanner, offered, scan
from tests.support.messages_ask import (
    PICTURE,
    ask,
    assistant,
    call,
    messages,
    messages_of,
    result,
    sent,
    system,
    text,
    user,
)
from tests.support.translations import sources_of

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def reminder(said: str) -> str:
    return f"<system-reminder>\n{said}\n</system-reminder>"


QUOTED = '<tool_call>\n{"name": "run",\n "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize("mark", ["→", "\t", ":", ": "])
@pytest.mark.parametrize("before", ["", "Result of calling the Read tool:\n", "Done.\n\n"])
def test_a_call_quoted_with_line_numbers_is_not_a_call(mark: str, before: str) -> None:
    """F89: the model does not repeat the numbers, so a quoted call of several lines is not in the result verbatim."""
    numbered = before + "\n".join(f"{at:6}{mark}{line}" for at, line in enumerate(QUOTED.split("\n"), start=9))
    called = (user("hi"), assistant(call()))
    tools = offered(function("run"))
    assert scan([QUOTED], new_scanner(tools)).calls
    for answered in (user(result(numbered)), user(result(), text(reminder(numbered))), user(numbered)):
        for later in ((), (assistant("ok"), user("go"))):
            sources = sources_of(sent(ask(*called, answered, *later)))
            assert not scan([QUOTED], new_scanner(tools, results=sources)).calls


WORDS = st.sampled_from(["", "a", "b\n", reminder("x")])
IDS = st.sampled_from(["toolu_1", "toolu_b64-ZnVuY3Rpb25zLmJhc2g6MA", "call_2"])
TEXTS = st.builds(text, WORDS)
USERS = st.lists(TEXTS | st.just(PICTURE) | st.builds(result, WORDS | st.just([PICTURE]), IDS), min_size=1, max_size=3)
ANSWERS = st.lists(TEXTS | st.just(THOUGHT) | st.builds(call, IDS), max_size=3)
ASKED = st.lists(st.builds(lambda blocks: user(*blocks), USERS) | st.builds(system, WORDS), min_size=1, max_size=3)
ANSWERED = st.builds(lambda blocks: {"role": "assistant", "content": blocks}, ANSWERS)
EXCHANGES = st.lists(st.tuples(ASKED, ANSWERED), min_size=1, max_size=4)
# An agent's task: calls and results, where only the client adds text to results.
ADDED = st.lists(st.just(text(reminder("x"))), max_size=2)
ROUNDS = st.builds(
    lambda answer, before, said, after, more: [
        *(assistant(*answer, call()), user(*before, result(said), *after)),
        *([system("now")] if more else []),
    ],
    *(st.lists(TEXTS | st.just(THOUGHT), max_size=2), ADDED, WORDS, ADDED, st.booleans()),
)
TASKS = st.builds(
    lambda rounds, answer: [user("go"), *(entry for given in rounds for entry in given), answer],
    st.lists(ROUNDS, max_size=3),
    st.builds(lambda blocks: {"role": "assistant", "content": blocks}, st.lists(TEXTS | st.just(THOUGHT), max_size=2)),
)


@given(EXCHANGES, ASKED)
def test_turns_are_as_chat_templates_require(exchanges: list[tuple[list[Any], Any]], last: list[Any]) -> None:
    """F82, F83: only the first message is a system message, turns alternate, and results precede their turn's text.
    A user message follows results only for the user's own text or pictures.
    """
    found = messages(user("hi"), *(entry for asked, answer in exchanges for entry in (*asked, answer)), *last)
    roles = [message["role"] for message in found]
    assert "system" not in roles
    assert not {("user", "tool"), ("user", "user"), ("assistant", "assistant")} & {*pairwise(roles)}
    for before, message in pairwise(found):
        if (before["role"], message["role"]) == ("tool", "user"):
            assert message["content"] and reminder("x") not in str(message["content"])
    for message in found:
        assert message["content"] != [] and message.get("tool_calls") != []
        assert isinstance(message["content"], str | list) or message["tool_calls"]


@given(st.lists(TASKS, min_size=1, max_size=3), st.sampled_from(["drop", "reasoning"]))
def test_a_task_is_as_mistral_templates_require(tasks: list[list[Any]], history: str) -> None:
    """F82: user and assistant messages alternate after the system message, apart from calls and their results. A user
    message never follows results: an agent's task must not end because its client adds reminders.
    """
    asked = ask(*(entry for task in tasks for entry in task), user("go"), system="s")
    found = messages_of(sent(asked, reasoning_history=history))
    assert found[0] == {"role": "system", "content": "s"}
    roles = [message["role"] for message in found[1:]]
    assert ("tool", "user") not in pairwise(roles)
    talk = [entry["role"] for entry in found[1:] if entry["role"] != "tool" and "tool_calls" not in entry]
    assert talk == [*("user", "assistant") * len(tasks), "user"]
