"""How a structured call leaves: opened once, in order, under an id of its own (contracts C2, C5)."""

from __future__ import annotations

from typing import Any

from proxy.codec.json_text import canonical
from proxy.engine.call_delta import CallDelta
from proxy.engine.call_registry import CallRegistry
from proxy.engine.call_state import CallState
from proxy.engine.call_writer import CallWriter, WrittenCall
from proxy.engine.events import CallArguments, CallOpened
from proxy.engine.pending_call import CallLimits, PendingCall
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from tests.support.helpers import offered

LS = '{"command": "ls"}'


def writer(*names: str, indexes: int = 9, **given: Any) -> tuple[CallWriter, list[PendingCall]]:
    """A writer and calls of these names, with the ids `id0`, `id1`, …; new ids are `new0`, `new1`, …"""
    repairer = Repairer(offered(), Policy())
    registry = CallRegistry(repairer.tools, CallLimits())
    for number, name in enumerate(names):
        call, _ = registry.call_of(CallDelta(number, f"id{number}", name, ""))
        call.note(CallDelta(number, f"id{number}", name, ""))
    counted = iter(range(indexes))
    options = {"used": set(), "written": [], "unsaid": {}, **given}
    made = CallWriter(
        0, repairer, lambda: next(counted, None), lambda index, *_: f"new{index}", calls=registry, **options
    )
    return made, list(registry)


def test_a_call_opens_with_the_first_that_may_leave() -> None:
    made, (call,) = writer("bash")
    assert made.release(call, "") == []
    assert made.release(call, "{") == [CallOpened(0, 0, "id0", "bash"), CallArguments(0, 0, "{")]
    assert made.release(call, "}") == [CallArguments(0, 0, "}")]
    assert made.regular and made.unchanged and call.fixes == ()


def test_what_may_leave_of_a_later_call_waits_for_the_earlier_one() -> None:
    """C5: indexes count in the order of the calls."""
    made, (first, second) = writer("bash", "read")
    assert made.release(second, "{") == []
    made.release(first, "{")
    assert made.release(second, '"') == [CallOpened(0, 1, "id1", "read"), CallArguments(0, 1, '{"')]


def test_a_name_and_an_id_that_are_put_right_are_noted() -> None:
    made, (call,) = writer("Bash", used={"id0"})
    assert made.open(call) == [CallOpened(0, 0, "new0", "bash")]
    assert [fix.id for fix in call.fixes] == ["name", "id"]
    assert not made.regular and not made.unchanged


def test_one_call_too_many_is_dropped() -> None:
    """F52."""
    made, (call,) = writer("bash", indexes=0)
    assert made.release(call, "{") == []
    assert call.dropped and [repair.id for repair in made.audit] == ["one_call"]
    assert made.release(call, "}") == []


def test_a_call_that_is_in_the_text_too_is_dropped_once() -> None:
    """F28: each of the calls in the text is repeated once."""
    made, (first, second) = writer("bash", "bash", written=[WrittenCall("bash", canonical(LS), 0)])
    repeated = Repairer(offered(), Policy()).repair("bash", LS, stopped=True)
    assert repeated is not None and made.repeats("bash")
    assert made.write_whole(first, repeated) == []
    assert first.dropped and not made.repeats("bash")
    assert made.write_whole(second, repeated) == [CallOpened(0, 0, "id1", "bash"), CallArguments(0, 0, LS)]
    assert second.state is CallState.COMPLETE


def test_a_whole_call_is_repaired_before_it_leaves() -> None:
    made, (call,) = writer("bash")
    call.collect('{"command": "ls", "timeout": "10"}')
    opened, arguments = made.release_whole(call)
    assert isinstance(opened, CallOpened)
    assert arguments == CallArguments(0, 0, '{"command": "ls", "timeout": 10}')
    assert call.final_arguments == '{"command": "ls", "timeout": 10}' and call.fixes


def test_what_is_no_call_stays() -> None:
    made, (call,) = writer("bash")
    call.collect("not JSON")
    assert made.release_whole(call) == []
    assert call.unresolved
