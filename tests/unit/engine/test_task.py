"""What follows from a request for its reply: what may begin in that, and the ids of its calls."""

from __future__ import annotations

from proxy.engine.task import NewIds, Task
from proxy.notations.thoughts import Thoughts
from proxy.repair.policy import IdStyle, Policy
from tests.support.helpers import SEED


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
