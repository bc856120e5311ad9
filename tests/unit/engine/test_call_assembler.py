"""Structured deltas to calls: what servers leave out or send wrongly is put right (F19 to F51, contract C4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.chat.client_view import ChoiceView
from proxy.engine.call_assembler import CallAssembler
from proxy.engine.call_chunks import DeltaOutcome
from proxy.engine.call_delta import CallDelta, read_deltas
from proxy.engine.events import CallArguments, CallClosed, CallOpened, Event, Failed, Text
from proxy.engine.pending_call import CallLimits
from proxy.errors import UpstreamBroken
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from tests.support.helpers import all_cuts, offered, piece, view
from tests.support.work import over_soon

PLAIN = Policy()
LS = '{"command": "ls"}'
PWD = '{"command": "pwd"}'


def gatherer(policy: Policy = PLAIN, **limits: Any) -> CallAssembler:
    """A gatherer whose own ids are `new0`, `new1`, …"""
    indexes = iter(range(1000))
    repairer = Repairer(offered(), policy)
    return CallAssembler(0, repairer, lambda: next(indexes), lambda index, *_: f"new{index}", used=set(), **limits)


def said(*deltas: Any) -> list[CallDelta]:
    """The deltas of one chunk."""
    return list(read_deltas({"tool_calls": [*deltas]}))


def gathered(deltas: list[dict[str, Any]], *, stopped: bool = True) -> tuple[ChoiceView, list[Event]]:
    """What the client has after these deltas, each in a chunk of its own, and the end."""
    calls = gatherer()
    events: list[Event] = []
    for each in deltas:
        own = calls.feed(said(each))
        events += [*calls.ended, *own]
    events += calls.finish(stopped=stopped)
    return view(events)[0], events


def failed(events: list[Event]) -> bool:
    return isinstance(events[-1], Failed) and isinstance(events[-1].error, UpstreamBroken)


Calls = list[tuple[str, str, str]]
ONE: Calls = [("a", "bash", LS)]
TWO: Calls = [("a", "bash", LS), ("b", "bash", PWD)]
SHAPES: dict[str, tuple[list[dict[str, Any]], Calls]] = {
    "vLLM": (
        [piece(0, name="bash", id="a"), piece(0, '{"'), piece(0, "command"), piece(0, '": "'), piece(0, 'ls"}')],
        ONE,
    ),
    "llama-server": ([piece(0, "{", "bash", "a"), piece(0, '"command": "ls'), piece(0, '"}')], ONE),
    "all at once": ([piece(0, LS, "bash", "a")], ONE),
    "empty arguments first": ([piece(0, "", "bash", "a"), piece(0, LS)], ONE),
    "null arguments first": ([piece(0, None, "bash", "a"), piece(0, LS)], ONE),
    "two in parallel": ([piece(0, LS, "bash", "a"), piece(1, PWD, "bash", "b")], TWO),
    "two interleaved (F47)": (
        [
            piece(0, "{", "bash", "a"),
            piece(1, "{", "bash", "b"),
            piece(0, LS[1:9]),
            piece(1, PWD[1:12]),
            piece(0, LS[9:]),
            piece(1, PWD[12:]),
        ],
        TWO,
    ),
    "two of the same name and arguments (F51)": (
        [piece(0, LS, "bash", "a"), piece(1, LS, "bash", "b")],
        [("a", "bash", LS), ("b", "bash", LS)],
    ),
    "all index 0, other id (F41)": ([piece(0, LS, "bash", "a"), piece(0, PWD, "bash", "b")], TWO),
    "all index 0, other id, in pieces (F41)": (
        [piece(0, LS[:5], "bash", "a"), piece(0, LS[5:]), piece(0, PWD[:5], "bash", "b"), piece(0, PWD[5:])],
        TWO,
    ),
    "all index 0, no ids (F41)": (
        [piece(0, LS, "bash"), piece(0, PWD, "bash")],
        [("new0", "bash", LS), ("new1", "bash", PWD)],
    ),
    "index missing (F42)": ([piece(None, LS[:5], "bash", "a"), piece(None, LS[5:])], ONE),
    "index missing, two (F42)": ([piece(None, LS, "bash", "a"), piece(None, PWD, "bash", "b")], TWO),
    "index missing later (F42)": ([piece(0, LS[:5], "bash", "a"), piece(None, LS[5:])], ONE),
    "index counts from 1": ([piece(1, LS, "bash", "a"), piece(2, PWD, "bash", "b")], TWO),
    "id missing (F43)": ([piece(0, LS[:5], "bash"), piece(0, LS[5:])], [("new0", "bash", LS)]),
    "id empty (F43)": ([piece(0, LS, "bash", "")], [("new0", "bash", LS)]),
    "id null": ([{"index": 0, "id": None, "function": {"name": "bash", "arguments": LS}}], [("new0", "bash", LS)]),
    "id an integer (F44)": ([piece(0, LS, "bash", 5)], [("5", "bash", LS)]),
    "id repeated (F45)": ([piece(0, LS[:5], "bash", "a"), piece(0, LS[5:], id="a")], ONE),
    "id empty later (F45)": ([piece(0, LS[:5], "bash", "a"), piece(0, LS[5:], id="")], ONE),
    "id churns (F46)": ([piece(0, LS[:5], "bash", "a"), piece(0, LS[5:8], id="b"), piece(0, LS[8:], id="c")], ONE),
    "name late (F38)": ([piece(0, LS[:5], id="a"), piece(0, LS[5:]), piece(0, name="bash")], ONE),
    "name repeated (F39)": ([piece(0, LS[:5], "bash", "a"), piece(0, LS[5:], "bash")], ONE),
    "name and id repeated (F39)": ([piece(0, LS[:5], "bash", "a"), piece(0, LS[5:], "bash", "a")], ONE),
    "name by the ladder (F36)": ([piece(0, LS, "functions.Bash:0", "a")], ONE),
    "name not offered (F40)": ([piece(0, '{"x": 1}', "nope", "a")], [("a", "nope", '{"x": 1}')]),
    "arguments empty (F26)": ([piece(0, "", "now", "a")], [("a", "now", "{}")]),
    "arguments null (F26)": ([piece(0, None, "now", "a")], [("a", "now", "{}")]),
    "arguments absent (F26)": ([piece(0, name="now", id="a")], [("a", "now", "{}")]),
    "arguments an empty object": ([piece(0, "{}", "now", "a")], [("a", "now", "{}")]),
    "arguments after an empty call (F26)": (
        [piece(0, "", "now", "a"), piece(1, LS, "bash", "b")],
        [("a", "now", "{}"), ("b", "bash", LS)],
    ),
    "arguments an object (F29)": ([piece(0, {"command": "ls"}, "bash", "a")], [("a", "bash", '{"command":"ls"}')]),
    "required missing (F25)": ([piece(0, "{}", "bash", "a")], [("a", "bash", "{}")]),
    "an unknown key": ([piece(0, '{"cmd": "ls"}', "bash", "a")], [("a", "bash", '{"cmd": "ls"}')]),
    "a closer in a string (F21)": ([piece(0, '{"command": "}"}', "bash", "a")], [("a", "bash", '{"command": "}"}')]),
    "blanks around": ([piece(0, f" {LS}\n", "bash", "a")], [("a", "bash", f" {LS}\n")]),
    "blanks after, later": ([piece(0, LS, "bash", "a"), piece(0, "\n ")], [("a", "bash", f"{LS}\n ")]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_of_deltas_is_its_calls(name: str) -> None:
    deltas, expected = SHAPES[name]
    seen, events = gathered(deltas)
    assert list(zip(seen.ids, seen.names, seen.arguments, strict=True)) == expected
    assert seen.text == ""
    assert sum(isinstance(event, CallClosed) for event in events) == len(expected)


def test_two_calls_with_one_id_get_two() -> None:
    """C5: ids are unique."""
    seen, _ = gathered([piece(0, LS, "bash", "same"), piece(1, PWD, "bash", "same")])
    assert len(seen.ids) == len(set(seen.ids)) == 2


@pytest.mark.parametrize("arguments", [LS, '{"command": "a\\nb \\u00e9 ï🙂", "timeout": 10, "background": true}', "{}"])
def test_the_arguments_are_the_same_at_every_cut(arguments: str) -> None:
    """C1: concatenated they are byte-identical."""
    for cut in all_cuts(arguments):
        seen, _ = gathered([piece(0, "", "bash", "a"), *(piece(0, part) for part in cut)])
        assert seen.arguments == [arguments]
        seen, _ = gathered([piece(0, cut[0], "bash", "a"), *(piece(0, part) for part in cut[1:])])
        assert seen.arguments == [arguments]


def test_a_string_leaves_while_it_arrives_and_a_number_waits() -> None:
    """C2."""
    calls = gatherer()
    assert calls.feed(said(piece(0, "{", "bash", "a"))) == ()
    opened = (CallOpened(0, 0, "a", "bash"), CallArguments(0, 0, '{"command": "l'))
    assert calls.feed(said(piece(0, '"command": "l'))) == opened
    outcomes = [calls.outcome]
    assert calls.feed(said(piece(0, "s"))) == (CallArguments(0, 0, "s"),)
    assert calls.feed(said(piece(0, '", "timeout": 1'))) == (CallArguments(0, 0, '"'),)
    outcomes.append(calls.outcome)
    assert outcomes == [DeltaOutcome.LEFT, DeltaOutcome.NEAR]
    assert calls.feed(said(piece(0, "0"))) == ()
    assert calls.feed(said(piece(0, "}"))) == (CallArguments(0, 0, ', "timeout": 10}'),)


@pytest.mark.parametrize(
    ("before", "first"),
    [
        (["", "{", '"command', '": ', '"'], "l"),
        (["{ "], '"command": "ls'),
        (['{"timeout": 1', "0"], ', "command": "l'),
    ],
)
def test_a_call_opens_with_the_first_byte_of_its_first_value(before: list[str], first: str) -> None:
    """C4: one that is not opened can still go back to text, and one whose first value cannot be read does."""
    calls = gatherer()
    for number, fragment in enumerate(before):
        assert calls.feed(said(piece(0, fragment, *(() if number else ("bash", "a"))))) == ()
        assert calls.outcome is (DeltaOutcome.NEAR if fragment else DeltaOutcome.WAIT)
    opened, arguments = calls.feed(said(piece(0, first)))
    assert opened == CallOpened(0, 0, "a", "bash")
    assert isinstance(arguments, CallArguments)
    assert "".join([*before, first]).startswith(arguments.fragment)


@pytest.mark.parametrize("mark", ['"}', '"}  ', '" }', '"\n}\n'])
@pytest.mark.parametrize("cut", [1, 2, 3, 99])
def test_the_mark_that_could_end_a_call_waits_for_its_end(mark: str, cut: int) -> None:
    """C4: what looks like the end may be within a string whose marks have no backslash."""
    calls = gatherer()
    calls.feed(said(piece(0, '{"command": "l', "bash", "a")))
    left = [event for part in parts(f"s{mark}", cut) for event in calls.feed(said(piece(0, part)))]
    assert left == [CallArguments(0, 0, "s")]
    calls.end_calls()
    assert calls.ended == [CallArguments(0, 0, mark)]


def parts(text: str, cut: int) -> list[str]:
    return [text[at : at + cut] for at in range(0, len(text), cut)]


def clean_after(*deltas: dict[str, Any]) -> bool:
    """True if the chunks of these deltas can leave as they came, once something else follows."""
    calls = gatherer()
    for each in deltas:
        calls.feed(said(each))
    clean = calls.outcome is not DeltaOutcome.CHANGED
    calls.end_calls()
    return clean and calls.unchanged and not any(call.live.rest for call in calls.calls if call.live)


NOT_CLEAN: dict[str, list[dict[str, Any]]] = {
    "id an integer (F44)": [piece(0, LS, "bash", 5)],
    "id missing (F43)": [piece(0, LS, "bash")],
    "id empty later (F45)": [piece(0, "{", "bash", "a"), piece(0, '"command": "', id="")],
    "id repeated (F45)": [piece(0, "{", "bash", "a"), piece(0, '"command": "', id="a")],
    "name repeated (F39)": [piece(0, "{", "bash", "a"), piece(0, '"command": "', "bash")],
    "name by the ladder (F36)": [piece(0, LS, "Bash", "a")],
    "arguments an object (F29)": [piece(0, {"command": "ls"}, "bash", "a")],
    "index missing (F42)": [piece(None, LS, "bash", "a")],
    "index wrong": [piece(3, LS, "bash", "a")],
    "index 0 again (F41)": [piece(0, LS, "bash", "a"), piece(0, PWD, "bash", "b")],
}


@pytest.mark.parametrize("name", NOT_CLEAN)
def test_what_a_strict_client_would_refuse_does_not_leave_as_it_came(name: str) -> None:
    """C5: ids are strings, indexes count, the name comes once, arguments are text."""
    assert not clean_after(*NOT_CLEAN[name])


def test_what_needs_no_change_leaves_as_it_came() -> None:
    """C1."""
    assert clean_after(piece(0, LS, "bash", "a"))
    assert clean_after(piece(0, "{", "bash", "a"), piece(0, '"command": "l'))
    assert clean_after(piece(0, "", "bash", "a"), piece(0, "{"), piece(0, '"command'), piece(0, '": "l'))
    assert clean_after(piece(0, LS, "bash", "a"), piece(1, PWD, "bash", "b"))


HALF = ['{"command": "l', '{"command": "ls", "timeout": 1', '{"command": "ls"', '{"command": "ls",', '{"comm', "{"]


@pytest.mark.parametrize("text", HALF)
def test_a_call_cut_off_by_length_is_left_as_cut(text: str) -> None:
    """C4, F56: never completed; all that came has left when it closes."""
    seen, events = gathered([piece(0, text, "bash", "a")], stopped=False)
    assert not failed(events)
    assert seen.calls == [("bash", text)]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (LS[:-1], LS),
        ('{"command": "ls", "timeout": 10', '{"command": "ls", "timeout": 10}'),
        ("{", "{}"),
        ('{"x": {"y": [1, {"z": "a"', '{"x": {"y": [1, {"z": "a"}]}}'),
        ('{"command": "a}"', '{"command": "a}"}'),
    ],
)
def test_when_the_model_stopped_missing_closers_are_added(text: str, whole: str) -> None:
    """C4, F20: closers, and only those."""
    for cut in all_cuts(text):
        seen, _ = gathered([piece(0, "", "bash", "a"), *(piece(0, part) for part in cut)])
        assert seen.calls == [("bash", whole)]
        assert isinstance(json.loads(whole), dict)


@pytest.mark.parametrize(
    "text",
    [
        '{"command": "l',
        '{"command": "l\\',
        '{"command": "ls",',
        '{"command": "a" b\'',
        '{"command": "ls", "background": tr',
    ],
)
def test_what_cannot_be_finished_is_an_error(text: str) -> None:
    """C4: an opened call of which more is missing than closers."""
    _, events = gathered([piece(0, text, "bash", "a")])
    assert failed(events)


@pytest.mark.parametrize("text", ["{", '{"command": ', '{"command"', '{"flag": tr', '{"x": ]', '{"timeout": "'])
def test_a_call_whose_first_value_cannot_be_read_was_never_opened(text: str) -> None:
    """C4: it goes back to text, whole."""
    if text == "{":
        assert gathered([piece(0, text, "bash", "a")])[0].calls == [("bash", "{}")]
        return
    for fragments in ([text], list(text)):
        first, *rest = fragments
        events = gathered([piece(0, first, "bash", "a"), *(piece(0, each) for each in rest)])[1]
        assert events == [Text(0, f"bash{text}")]


def test_after_an_error_nothing_follows() -> None:
    _, events = gathered([piece(0, '{"command": "l', "bash", "a"), piece(1, LS, "bash", "b")])
    assert failed(events)
    assert sum(isinstance(event, Failed | CallClosed) for event in events) == 1


@pytest.mark.parametrize(
    ("deltas", "stopped", "text"),
    [
        ([piece(0, "not JSON", "bash", "a")], True, "bashnot JSON"),
        ([piece(0, '"command": "ls', "bash", "a")], False, 'bash"command": "ls'),
        ([piece(0, '{"x": 1}', id="a")], True, '{"x": 1}'),
        ([piece(0, "", "bash", "a")], False, "bash"),
        ([piece(0, "", "", "a")], True, ""),
        ([{"index": 0, "id": "a"}], True, ""),
        ([{"index": 0, "function": 7}], True, ""),
    ],
)
def test_what_was_never_opened_goes_back_to_text(deltas: list[dict[str, Any]], stopped: bool, text: str) -> None:
    """C4: nothing that the model wrote is lost."""
    seen, events = gathered(deltas, stopped=stopped)
    assert (seen.ids, seen.text) == ([], text)
    assert all(isinstance(event, Text) for event in events)


def test_what_is_no_delta_is_skipped() -> None:
    assert gatherer().feed(said(None, 7, [])) == ()


def test_more_calls_than_the_limit_are_an_error() -> None:
    """C7."""
    calls = gatherer(limits=CallLimits(calls=2))
    calls.feed(said(piece(0, LS, "bash", "a"), piece(1, LS, "bash", "b")))
    with pytest.raises(UpstreamBroken, match="max_calls"):
        calls.feed(said(piece(2, LS, "bash", "c")))


def test_repairs_are_recorded() -> None:
    """C6."""
    _, events = gathered([piece(0, LS, "Bash")])
    closed = events[-1]
    assert isinstance(closed, CallClosed)
    assert [(fix.id, fix.before, fix.after) for fix in closed.fixes] == [("name", "Bash", "bash"), ("id", "", "new0")]
    _, events = gathered([piece(0, LS, "bash", "a")])
    closed = events[-1]
    assert isinstance(closed, CallClosed)
    assert closed.fixes == ()


def test_the_completion_of_a_call_is_recorded() -> None:
    """C6: every repair yields an audit record."""
    _, events = gathered([piece(0, LS[:-1], "bash", "a")])
    closed = events[-1]
    assert isinstance(closed, CallClosed)
    assert closed.fixes


def test_what_stands_behind_a_whole_call_is_content() -> None:
    """C4: the call is whole, and nothing that the model wrote is lost; a few characters and closers are junk (F31)."""
    content_of = {"} and more": " and more", "}\nAnd so.": "\nAnd so.", "}}": "", "} </tool_call>\n": ""}
    for text, content in content_of.items():
        for cut in all_cuts(LS[:-1] + text):
            calls = gatherer(PLAIN)
            pieces = [piece(0, "", "bash", "a"), *(piece(0, part) for part in cut)]
            events = [event for each in pieces for event in calls.feed(said(each))]
            seen = view([*events, *calls.finish(stopped=True)])[0]
            assert (seen.calls, seen.text) == ([("bash", LS)], content)


def test_what_a_call_holds_in_all_is_bounded() -> None:
    """C7: what has left is kept too, for the end of the call."""
    calls = gatherer(limits=CallLimits(held=100))
    calls.feed(said(piece(0, '{"command": "', "bash", "a")))
    with pytest.raises(UpstreamBroken, match="max_held"):
        for _ in range(500):
            calls.feed(said(piece(0, "x")))


def test_what_was_sent_again_is_one_call() -> None:
    """F27: with the same id, or without a name in one piece; equal calls with ids of their own are two (F51)."""
    again = [piece(0, LS, "bash", "a"), piece(0, LS, "bash", "a")]
    assert gathered(again)[0].calls == [("bash", LS)]
    nameless = [piece(0, LS + LS, id="a")]
    assert gathered(nameless)[0].calls in ([("bash", LS)], []) and LS + LS not in gathered(nameless)[0].text
    assert gathered([piece(0, LS, "bash", "a"), piece(0, LS, "bash", "b")])[0].calls == [("bash", LS)] * 2


@pytest.mark.parametrize("more", ["{}", "{}{}", " {} "])
def test_empty_arguments_again_are_still_none(more: str) -> None:
    """F25, F27."""
    assert gathered([piece(0, "{}", "bash", "a"), piece(0, more)])[0].calls == [("bash", "{}")]
    assert gathered([piece(0, "{}", "bash", "a"), piece(0, more), piece(0, LS)])[0].calls == [("bash", LS)]


def test_c7_empty_arguments_again_and_again_are_over_soon() -> None:
    with over_soon(3.0):
        assert gathered([piece(0, "{}", "bash", "a"), piece(0, "{}" * 500_000)])[0].calls == [("bash", "{}")]


def test_an_object_in_the_prose_behind_empty_arguments_is_no_call_at_any_cut() -> None:
    """C3: a phantom call is worse than a missed one."""
    for cut in [["{}", " Note: ", LS], *all_cuts("{} Note: " + LS)]:
        seen, _ = gathered([piece(0, "", "bash", "a"), *(piece(0, part) for part in cut)])
        assert (seen.calls, seen.text) == ([("bash", "{}")], " Note: " + LS)


def test_one_nameless_text_of_the_same_object_twice_is_one_call() -> None:
    """F27, F37."""
    only = json.dumps({"content": "x", "path": "a"})
    for cut in all_cuts(only + only):
        seen, _ = gathered([piece(0, part) for part in cut])
        assert seen.calls == [("write_file", only)]
