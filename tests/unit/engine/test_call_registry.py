"""Which call a delta belongs to (F41, F42, F46, F47)."""

from __future__ import annotations

import pytest

from proxy.engine.call_delta import CallDelta
from proxy.engine.call_registry import CallRegistry, check_calls
from proxy.engine.pending_call import CallLimits, PendingCall
from proxy.engine.release_policy import ReleasePolicy
from proxy.errors import UpstreamBroken
from tests.support.helpers import offered

LS = '{"command": "ls"}'


def registry(*deltas: CallDelta, limits: CallLimits | None = None) -> CallRegistry:
    """The calls that begin with these deltas; their arguments are read as they come."""
    calls = CallRegistry(offered(), limits or CallLimits())
    for delta in deltas:
        take(calls, delta)
    return calls


def take(calls: CallRegistry, delta: CallDelta) -> int:
    """The number of the call that a delta belongs to."""
    call, _ = calls.call_of(delta)
    call.note(delta)
    if call.live is None and delta.first_character == "{":
        call.begin(ReleasePolicy(None))
    if call.live is not None:
        call.live.feed(delta.fragment)
    return call.number


def test_calls_are_told_apart_by_index() -> None:
    calls = registry(CallDelta(0, "a", "bash", "{"), CallDelta(1, "b", "bash", "{"))
    assert [take(calls, CallDelta(index, None, "", '"')) for index in (0, 1, 0)] == [0, 1, 0]
    assert len(calls) == 2


def test_without_an_index_they_are_told_apart_by_id() -> None:
    """F42."""
    calls = registry(CallDelta(None, "a", "bash", "{"), CallDelta(None, "b", "bash", "{"))
    assert take(calls, CallDelta(None, "a", "", '"')) == 0
    assert take(calls, CallDelta(None, "b", "", '"')) == 1


def test_without_both_a_delta_is_the_last_call_s() -> None:
    calls = registry(CallDelta(None, "a", "bash", "{"), CallDelta(None, "b", "bash", "{"))
    assert take(calls, CallDelta(None, None, "", '"')) == 1


def test_the_same_index_with_a_name_and_a_new_id_is_another_call() -> None:
    """F41."""
    assert take(registry(CallDelta(0, "a", "bash", LS)), CallDelta(0, "b", "bash", LS)) == 1


def test_a_new_id_alone_is_none() -> None:
    """F46."""
    assert take(registry(CallDelta(0, "a", "bash", LS[:5])), CallDelta(0, "b", "", LS[5:])) == 0


def test_a_call_with_the_id_of_the_one_before_it_may_be_that_one() -> None:
    """F27."""
    calls = registry(CallDelta(0, "a", "bash", LS), CallDelta(0, "a", "bash", LS))
    assert [call.maybe_duplicate for call in calls] == [False, True]
    assert calls.must_wait(calls.newest)


def test_arguments_without_a_call_of_their_index_are_those_of_the_call_that_has_none() -> None:
    """SGLang numbers names by the tool, and arguments by the call."""
    calls = registry(CallDelta(1, "a", "bash", ""))
    assert [take(calls, CallDelta(0, None, "", part)) for part in (LS[:3], LS[3:])] == [0, 0]
    take(calls, CallDelta(0, "b", "read", ""))
    assert [take(calls, CallDelta(1, None, "", part)) for part in (LS[:3], LS[3:])] == [1, 1]
    take(calls, CallDelta(1, "c", "bash", ""))
    assert take(calls, CallDelta(1, None, "", LS)) == 2


def test_arguments_of_an_open_call_stay_its_own_behind_another_name() -> None:
    """F47."""
    calls = registry(CallDelta(0, "a", "bash", ""), CallDelta(1, "b", "bash", ""))
    assert [take(calls, CallDelta(index, None, "", LS)) for index in (0, 1)] == [0, 1]


def test_an_object_behind_an_object_is_split_from_it() -> None:
    """F41."""
    calls = registry(CallDelta(0, "a", "bash", LS), CallDelta(0, None, "", LS))
    first, second = calls
    assert second.split_from is first


def test_a_call_that_lacks_its_arguments_takes_those_that_follow() -> None:
    """F25."""
    assert take(registry(CallDelta(0, "a", "bash", "{}")), CallDelta(0, None, "", LS)) == 0


def test_a_call_waits_for_those_before_it() -> None:
    calls = registry(CallDelta(0, "a", "bash", "{"), CallDelta(1, "b", "bash", "{"))
    first, second = calls
    assert calls.may_open(first) and not calls.may_open(second)
    first.open(0, "a", "bash")
    assert not calls.may_open(first) and calls.may_open(second)


@pytest.mark.parametrize(
    ("delta", "number"),
    [
        (CallDelta(5, "b", "read", LS), 1),
        (CallDelta(0, "x", "bash", LS), 0),
        (CallDelta(0, "x", "other", LS), None),
        (CallDelta(7, "x", "bash", LS), None),
        (CallDelta(None, None, "", LS), 1),
    ],
)
def test_all_arguments_of_a_call_are_those_of_one_that_came(delta: CallDelta, number: int | None) -> None:
    """F25: by id, else by place; without a place the first that is not over."""
    calls = registry(CallDelta(0, "a", "bash", LS), CallDelta(1, "b", "read", "{"))
    found = calls.completed_by(delta)
    assert (found.number if found else None) == number


def test_an_unused_index_is_no_server_s() -> None:
    assert registry().unused_index() == -1
    assert registry(CallDelta(0, "a", "bash", "{")).unused_index() == -2


def test_more_calls_than_the_limit_are_an_error() -> None:
    """C7."""
    calls = registry(CallDelta(0, "a", "bash", LS), limits=CallLimits(calls=1))
    with pytest.raises(UpstreamBroken, match="max_calls"):
        calls.call_of(CallDelta(1, "b", "bash", LS))
    check_calls(1, CallLimits(calls=1))


def test_after_the_reply_there_are_none() -> None:
    calls = registry(CallDelta(0, "a", "bash", LS))
    assert [call.number for call in calls.first(1)] == [0]
    calls.clear()
    assert len(calls) == 0


def test_a_new_call_collects() -> None:
    call, begins = CallRegistry(offered(), CallLimits()).call_of(CallDelta(0, "a", "bash", ""))
    assert begins and isinstance(call, PendingCall) and call.unresolved
