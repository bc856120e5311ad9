"""The end of structured calls: what was one call, and what was several (F41)."""

from __future__ import annotations

import pytest

from proxy.engine.call_closer import rejoin_parts, split_objects
from proxy.engine.pending_call import CallLimits, PendingCall
from proxy.errors import UpstreamBroken

LS = '{"command": "ls"}'
PWD = '{"command": "pwd"}'


def call(text: str, *, name: str = "", id_: str = "", behind: PendingCall | None = None) -> PendingCall:
    """A call of which this has come; `behind` is the one whose object it began behind with nothing but a brace."""
    made = PendingCall(id_, names=[name] if name else [], split_from=behind)
    made.collect(text)
    return made


def test_a_nameless_call_of_several_objects_is_several() -> None:
    """F41: the id is the first one's."""
    found = [*split_objects([call(f"{LS}\n{PWD}", id_="a")], CallLimits())]
    assert [(each.text, each.server_id, each.irregular) for each in found] == [(LS, "a", True), (PWD, "", True)]


@pytest.mark.parametrize("one", [call(LS), call("not JSON"), call(LS + PWD, name="bash")])
def test_every_other_call_stays_as_it_is(one: PendingCall) -> None:
    assert [*split_objects([one], CallLimits())] == [one]


def test_objects_count_as_calls() -> None:
    """C7."""
    with pytest.raises(UpstreamBroken, match="max_calls"):
        list(split_objects([call(LS * 3)], CallLimits(calls=2)))


def test_an_object_behind_an_object_stays_a_call() -> None:
    first = call(LS, name="bash")
    second = call(PWD, behind=first)
    assert rejoin_parts([first, second]) == [first, second]
    assert first.trailing == []


def test_what_is_no_object_is_a_part_of_the_call_before() -> None:
    """F41: the brace was one of a string's own."""
    first = call('{"code": "f("}', name="run")
    second = call('{")"}', behind=first)
    second.blanks_before = " "
    assert rejoin_parts([first, second]) == [first]
    assert first.trailing == [' {")"}']
