"""Healings learnt from the message of a refusal, and messages that teach nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.healing.heal import NO_HEALING, HealPlan, heal_request, lesson
from tests.healing.shapes import CONTENTS, ROLES, SHAPES, TOOLS, said, system, tool, user
from tests.support.rows import rows

Message = dict[str, Any]
# Messages of real templates and servers, a conversation that they refuse, and the healings that they teach.
ROWS = [*map(json.loads, Path(__file__).with_name("refusals.jsonl").read_text("utf-8").splitlines())]


def body(messages: list[Message], offered: Message | None = None) -> Message:
    return {"model": "m", "messages": messages, "tools": [offered or tool()]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["words"])
def test_a_refusal_teaches_the_healings_that_its_message_names(row: dict[str, Any]) -> None:
    """A healing is learnt once, and not if it is off. A message about one picture removes no others."""
    words, learnt, messages = row["words"], tuple(row["teaches"]), SHAPES[row["shape"]]
    asked = heal_request(body(messages), HealPlan()).body
    assert lesson(words, asked, HealPlan()) == learnt
    healed = heal_request(asked, HealPlan().learnt(learnt)).body
    assert lesson(words, healed, HealPlan().learnt(learnt)) == ()
    assert lesson(words, body(messages), NO_HEALING) == ()
    assert not {*learnt} & {*lesson(words, body(messages), HealPlan(off=frozenset(learnt)))}


@rows(__file__, "words,shape,learnt")
def test_the_refusal_of_a_tool_teaches_a_healing(words: str, shape: str, learnt: str) -> None:
    assert learnt in lesson(words, body([user()], TOOLS[shape]), HealPlan())


@rows(__file__, "words")
def test_other_messages_teach_nothing(words: str) -> None:
    for messages in (*ROLES.values(), *CONTENTS.values()):
        assert lesson(words, body(messages), HealPlan()) == ()


def test_pictures_stay_if_only_text_parts_are_refused() -> None:
    """The message does not mention pictures."""
    messages = [*CONTENTS["picture"], said(), *CONTENTS["user of parts"]]
    assert lesson('can only concatenate str (not "list") to str', body(messages), HealPlan()) == ("flat_texts",)


def test_a_plan_with_a_new_lesson_keeps_its_healings() -> None:
    plan = HealPlan(on=frozenset(("one_call",)), off=frozenset(("pictures",))).learnt(("alternate", "pictures"))
    assert {"one_call", "alternate"} <= plan.ids and "pictures" not in plan.ids


def test_only_the_beginning_of_a_long_message_is_read() -> None:
    """C7."""
    asked = body([system(), user(), said(), system("mks2"), user()])
    assert lesson("x" * 5000 + "System message must be at the beginning.", asked, HealPlan()) == ()
