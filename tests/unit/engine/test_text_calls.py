"""The calls that the model wrote as text: opened, filled and closed at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.events import CallArguments, CallClosed, CallOpened, Event
from proxy.engine.text_calls import TextCalls
from proxy.notations.stream import Found, Piece
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from tests.support.helpers import offered

TOOLS = offered()
LS = '{"command": "ls"}'


def text_calls(**given: Any) -> TextCalls:
    """Those of a choice; its own ids are `new0`, `new1`, …"""
    repairer = Repairer(TOOLS, Policy())
    used = given.pop("used", set())
    return TextCalls(number=3, repairer=repairer, new_id=lambda index, *_: f"new{index}", used=used, **given)


def raw(name: str = "bash", arguments: str = LS, id_: str = "", written: str = "") -> Found:
    return Found(name, written or name, json.loads(arguments), id_)


def write(calls: TextCalls, *found: Found, form: str = "<tool_call>") -> list[Event]:
    return calls._write_calls(Piece("call", found, form), "in its text")


def written(events: list[Event]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls."""
    return [(event.call.id, event.call.name, event.call.arguments) for event in events if isinstance(event, CallClosed)]


def test_a_call_is_opened_filled_and_closed() -> None:
    calls = text_calls()
    opened, filled, closed = write(calls, raw())
    assert opened == CallOpened(3, 0, "new0", "bash")
    assert filled == CallArguments(3, 0, LS)
    assert isinstance(closed, CallClosed) and (closed.choice, closed.index) == (3, 0)
    assert written([closed]) == [("new0", "bash", LS)]
    assert calls.calls == 1


def test_the_record_says_what_was_written_where_and_in_which_form() -> None:
    calls = text_calls()
    (closed,) = [each for each in write(calls, raw(written="functions.bash:0")) if isinstance(each, CallClosed)]
    (record,) = calls.audit
    assert (record.id, record.before, record.after, record.tool) == ("text_call", "functions.bash:0", "bash", "bash")
    assert "in its text (<tool_call>)" in record.why
    assert tuple(closed.fixes) == (record,)


def test_what_was_mended_is_told_behind_it() -> None:
    calls = text_calls()
    events = write(calls, raw(arguments='{"command": "ls", "timeout": "5"}'))
    assert written(events) == [("new0", "bash", '{"command": "ls", "timeout": 5}')]
    first, second = (record.id for record in calls.audit)
    assert first == "text_call" != second


def test_the_id_that_the_model_gave_is_taken_once() -> None:
    """F8: Kimi knows its calls by it."""
    calls = text_calls(used={"known"})
    events = write(calls, raw(id_="mine"), raw("now", "{}", id_="mine"), raw("read", '{"path": "a"}', id_="known"))
    assert [id_ for id_, _, _ in written(events)] == ["mine", "new1", "new2"]


@pytest.mark.parametrize(("one_call", "count"), [(True, 1), (False, 2)])
def test_a_client_that_wants_one_call_gets_the_first(one_call: bool, count: int) -> None:
    """F52."""
    calls = text_calls(one_call=one_call)
    events = write(calls, raw(), raw("now", "{}"))
    assert [name for _, name, _ in written(events)] == ["bash", "now"][:count]
    assert [record.id for record in calls.audit].count("one_call") == 2 - count
    assert calls.take_index() == (None if one_call else 2)


@pytest.mark.parametrize(
    ("name", "arguments", "empty"), [("bash", "{}", 1), ("bash", LS, 0), ("now", "{}", 0), ("bash", " {} ", 1)]
)
def test_a_call_without_arguments_that_it_needs_is_counted(name: str, arguments: str, empty: int) -> None:
    """F25."""
    calls = text_calls()
    write(calls, raw(name, arguments))
    assert calls.empty_calls == empty


def test_what_is_dropped_as_no_text_is_told_and_no_call() -> None:
    calls = text_calls()
    assert write(calls, form="leftover") == []
    assert [record.id for record in calls.audit] == ["leftover"]
    assert calls.calls == 0
