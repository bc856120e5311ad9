"""What follows from a request for its reply: what may begin in that, and the ids of its calls."""

from __future__ import annotations

import pytest

from proxy.engine.task import NewIds, Task
from proxy.notations.front import Reader
from proxy.notations.thoughts import Thoughts
from proxy.notations.toolset import ToolSet
from proxy.repair.policy import IdStyle, Policy
from tests.support.helpers import OFFERED, SEED, offered

NAME = OFFERED[0]["function"]["name"]
CALL = '<tool_call>{"name": "read"}</tool_call>'
JSON = '{"path": "a"}'


def is_prose(text: str, **said: object) -> bool:
    task = Task(**{"tools": offered(), "seed": SEED, **said})  # type: ignore[arg-type]
    options = {name: getattr(task, name) for name in ("json_reply", "raw_text", "thoughts", "forced")}
    return Reader(task.tools or ToolSet(()), **options).begins_nothing(text)


@pytest.mark.parametrize("text", ["It is done.", " It\n\nis 2 = 2.", f"I call {NAME}.", "f(x)"])
def test_prose_is_prose_whatever_is_offered(text: str) -> None:
    assert is_prose(text)
    assert is_prose(text, tools=None)
    assert is_prose(text, json_reply=True)


@pytest.mark.parametrize(
    "text", [CALL, f"I look. {CALL}", f"  {NAME}(", "<think>", "So </think>", "a <tool_cal", "</s> a"]
)
def test_what_may_be_more_is_none(text: str) -> None:
    assert not is_prose(text, raw_text=True)


def test_only_what_is_looked_for_counts() -> None:
    assert is_prose(CALL, tools=None)
    assert not is_prose("<think>So.", tools=None, thoughts=Thoughts())
    assert is_prose(f"{NAME}(", json_reply=True)
    assert not is_prose(JSON, forced=NAME)


def test_blanks_alone_are_no_prose() -> None:
    assert not is_prose("") and not is_prose(" \r\n\t")


def test_only_a_thought_that_the_prompt_opened_begins_the_text() -> None:
    assert Task(tools=None, seed=b"", thoughts=Thoughts(begun="<think>")).begins_in_thought
    assert not Task(tools=None, seed=b"", thoughts=Thoughts()).begins_in_thought
    assert not Task(tools=None, seed=b"").begins_in_thought


def test_ids_are_in_the_style_of_the_model_and_the_same_each_time() -> None:
    def made(style: IdStyle, server_id: str = "") -> list[str]:
        ids = NewIds(Task(tools=None, seed=SEED, policy=Policy(ids=style)), 0, set())
        return [ids(index, "read", server_id) for index in range(2)]

    assert made("openai") == made("openai") and len({*made("openai")}) == 2
    assert all(each.startswith("call_") for each in made("openai"))
    assert all(len(each) == 9 for each in made("mistral"))
    assert made("kimi") == ["functions.read:0", "functions.read:1"] == made("openai", "functions.ls:3")
