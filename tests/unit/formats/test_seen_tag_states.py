"""The states of a raw value's tags: every step from every state."""

from __future__ import annotations

import pytest

from proxy.formats.seen_tag_states import (
    BEGUN,
    INNER_VALUES,
    LAST_TAGS,
    PLACED,
    InnerStep,
    InnerValues,
    LastTag,
    TagStep,
)
from proxy.transitions import next_state

ANYWHERE = {
    TagStep.TAKE_PLACED: LastTag.PLACED,
    TagStep.TAKE_IN_LINE: LastTag.IN_LINE,
    TagStep.BEGIN_PLACED: LastTag.VALUE_PLACED,
    TagStep.BEGIN_IN_LINE: LastTag.VALUE_IN_LINE,
}


def test_the_tables_know_each_state_and_each_step() -> None:
    assert set(LAST_TAGS) == set(LastTag) and set(INNER_VALUES) == set(InnerValues)
    assert all(set(steps) == set(TagStep) for steps in LAST_TAGS.values())
    assert all(set(steps) == set(InnerStep) for steps in INNER_VALUES.values())


@pytest.mark.parametrize("state", LastTag)
@pytest.mark.parametrize("step", ANYWHERE)
def test_a_tag_says_all_whatever_was_before_it(state: LastTag, step: TagStep) -> None:
    assert next_state(LAST_TAGS, state, step) is ANYWHERE[step]


@pytest.mark.parametrize("state", LastTag)
def test_the_end_of_a_value_says_nothing_of_where_the_tag_stood(state: LastTag) -> None:
    behind = next_state(LAST_TAGS, state, TagStep.END_VALUE)
    assert behind not in BEGUN
    assert (behind in PLACED) is (state in PLACED)


@pytest.mark.parametrize("step", InnerStep)
def test_a_value_that_began_inside_is_never_forgotten(step: InnerStep) -> None:
    order = list(InnerValues)
    for state in InnerValues:
        behind = next_state(INNER_VALUES, state, step)
        assert behind is not InnerValues.NONE
        assert order.index(behind) >= order.index(state)


def test_only_a_value_of_a_key_that_cannot_follow_is_undeclared() -> None:
    behind = {(state, step): next_state(INNER_VALUES, state, step) for state in InnerValues for step in InnerStep}
    undeclared = {key for key, state in behind.items() if state is InnerValues.UNDECLARED}
    assert undeclared == {
        *((state, InnerStep.BEGIN_UNDECLARED) for state in InnerValues),
        (InnerValues.UNDECLARED, InnerStep.BEGIN),
    }
