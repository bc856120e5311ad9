"""Ids of calls."""

from __future__ import annotations

from proxy.engine.task import NewIds, Task
from proxy.repair.policy import IdStyle, Policy
from tests.support.helpers import SEED


def test_ids_have_the_models_style_and_are_reproducible() -> None:
    def made(style: IdStyle, server_id: str = "") -> list[str]:
        ids = NewIds(Task(tools=None, seed=SEED, policy=Policy(ids=style)), 0, set())
        return [ids(index, "read", server_id) for index in range(2)]

    assert made("openai") == made("openai") and len({*made("openai")}) == 2
    assert all(each.startswith("call_") for each in made("openai"))
    assert all(len(each) == 9 for each in made("mistral"))
    assert made("kimi") == ["functions.read:0", "functions.read:1"] == made("openai", "functions.ls:3")
