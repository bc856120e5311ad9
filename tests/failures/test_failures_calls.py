"""Failures from the field: ids, indexes and parallel calls (F41 to F47, F51, F52), one test each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client_view import LS, PWD, Got, entry, is_untouched, streamed, whole
from tests.support.helpers import call_json, calls, ends, piece, says

READ = '{"path": "a"}'
Delta = dict[str, Any]
NEW_ID = "call_"


def reply(*deltas: Delta, **task: Any) -> Got:
    """Return the client's view of these deltas, asserting that it is the same in one chunk and in separate chunks."""
    apart = streamed(*map(calls, deltas), ends("tool_calls"), **task)
    assert streamed(calls(*deltas), ends("tool_calls"), **task).meant == apart.meant
    assert (apart.text, apart.finish, apart.error) == ("", "tool_calls", "")
    return apart


def in_pieces(index: int | None, id_: Any, name: str, arguments: str, later: Any = ...) -> list[Delta]:
    """Return a call in four deltas, the last three with the id `later`."""
    parts = (arguments[:1], arguments[1:7], arguments[7:])
    return [piece(index, "", name, id_), *(piece(index, part, id=later) for part in parts)]


def test_f41_all_parallel_calls_have_index_0() -> None:
    """A new name with a new id begins a call, and so does an object after a complete one."""
    three = [("bash", LS), ("read", READ), ("bash", PWD)]
    spoken: list[list[Delta]] = [
        [piece(0, arguments, name, id_) for (name, arguments), id_ in zip(three, "abc", strict=True)],
        [piece(0, arguments, name) for name, arguments in three],
        [*in_pieces(0, "a", "bash", LS), *in_pieces(0, "b", "read", READ), *in_pieces(0, "c", "bash", PWD)],
        [each for name, arguments in three for each in (piece(0, "", name), piece(0, arguments))],
        [piece(0, LS + READ + PWD, "bash", "a")],
        [piece(0, LS, "bash", "a"), piece(0, READ), piece(0, PWD)],
        [piece(0, LS[:5], "bash", "a"), piece(0, LS[5:] + READ[:4]), piece(0, READ[4:] + PWD[:1]), piece(0, PWD[1:])],
    ]
    for deltas in spoken:
        got = reply(*deltas)
        assert (got.calls, len(set(got.ids))) == (three, 3)
        assert "form" in got.fixes
    assert whole({"content": None, "tool_calls": [entry("bash", LS + READ + PWD)]}).calls == three


def test_a_repeated_name_after_a_complete_object_begins_a_call() -> None:
    """Otherwise the second call would be inferred to be another tool's."""
    again = [piece(0, "", "now"), piece(0, "{}"), piece(0, "", "now"), piece(0, "{}")]
    assert reply(*again).calls == [("now", "{}"), ("now", "{}")]


@pytest.mark.parametrize("index", [None, "0", "as null"])
def test_f42_the_index_is_missing(index: Any) -> None:
    """Missing, null, a string, or only on the first delta: the proxy counts."""

    def at(number: int, delta: Delta) -> Delta:
        ways: dict[str | None, Delta] = {None: {}, "0": {"index": str(number)}, "as null": {"index": None}}
        given = ways[index]
        return {**{key: value for key, value in delta.items() if key != "index"}, **given}

    one = [at(0, each) for each in in_pieces(0, "a", "bash", LS)]
    two = [at(1, each) for each in in_pieces(1, "b", "read", READ)]
    got = reply(*one, *two)
    assert (got.calls, got.ids, got.fixes) == ([("bash", LS), ("read", READ)], ("a", "b"), ("form", "form"))
    assert reply(at(0, piece(0, LS, "bash")), at(1, piece(1, READ, "read"))).calls == [("bash", LS), ("read", READ)]
    later = [piece(0, LS[:5], "bash", "a"), {"function": {"arguments": LS[5:]}}]
    assert reply(*later).calls == [("bash", LS)]


@pytest.mark.parametrize("missing", [..., None, ""])
def test_f43_the_id_is_missing(missing: Any) -> None:
    """Each call gets an id when it opens, and keeps it. The server's id is used if it arrives in time."""
    given = {} if missing is ... else {"id": missing}
    got = reply({**piece(0, LS[:5], "bash"), **given}, piece(0, LS[5:]), {**piece(1, READ, "read"), **given})
    assert got.calls == [("bash", LS), ("read", READ)]
    assert len(set(got.ids)) == 2 and all(id_.startswith(NEW_ID) and len(id_) == 29 for id_ in got.ids)
    assert got.fixes == ("id", "id")
    answered = whole({"content": None, "tool_calls": [entry("bash", LS, missing), entry("read", READ, missing)]})
    assert answered.ids == got.ids
    assert reply(piece(0, "", "bash"), piece(0, LS, id="late")).ids == ("late",)


def test_f44_the_id_is_a_number() -> None:
    """Clients expect a string, and `0` is not a missing id."""
    got = reply(piece(0, LS[:5], "bash", 0), piece(0, LS[5:], id=0), piece(1, READ, "read", 17))
    assert (got.calls, got.ids, got.fixes) == ([("bash", LS), ("read", READ)], ("0", "17"), ("form", "form"))
    answered = whole({"content": None, "tool_calls": [entry("bash", LS, 0), entry("read", READ, 17)]})
    assert (answered.calls, answered.ids) == (got.calls, got.ids)


@pytest.mark.parametrize("later", ["a", ""])
def test_f45_the_id_is_on_every_delta(later: str) -> None:
    """A translator would open a block for each. The call has its id once, and a later empty id is ignored."""
    got = reply(*in_pieces(0, "a", "bash", LS, later), *in_pieces(1, "b", "read", READ, later and "b"))
    assert (got.calls, got.ids, got.fixes) == ([("bash", LS), ("read", READ)], ("a", "b"), ("form", "form"))


def test_f46_the_id_changes_in_the_middle_of_a_call() -> None:
    """The first id is kept: a new id alone does not begin a call, but one with a new name does."""
    for index in (0, None):
        got = reply(piece(index, LS[:5], "bash", "a"), piece(index, LS[5:8], id="b"), piece(index, LS[8:], id="c"))
        assert (got.calls, got.ids) == ([("bash", LS)], ("a",))
        assert "form" in got.fixes
    named = reply(piece(0, LS[:5], "bash", "a"), piece(0, LS[5:8], "bash", "b"), piece(0, LS[8:], "bash", "c"))
    assert (named.calls, named.ids) == ([("bash", LS)], ("a",))
    two = [piece(0, LS[:5], "bash", "a"), piece(1, READ[:5], "read", "r")]
    churned = reply(*two, piece(0, LS[5:], id="b"), piece(1, READ[5:], id="s"))
    assert (churned.calls, churned.ids) == ([("bash", LS), ("read", READ)], ("a", "r"))
    other = reply(piece(0, LS, "bash", "a"), piece(0, READ, "read", "b"))
    assert (other.calls, other.ids) == ([("bash", LS), ("read", READ)], ("a", "b"))


def test_f47_the_pieces_of_two_calls_alternate() -> None:
    """They are separated by index or, if it is missing or constant, by id."""
    one, two = in_pieces(0, "a", "bash", LS), in_pieces(1, "b", "read", READ)
    turns = [each for pair in zip(one, two, strict=True) for each in pair]
    assert is_untouched(calls(piece(0, LS, "bash", "a")), calls(piece(1, READ, "read", "b")), ends("tool_calls"))
    got = reply(*turns)
    assert (got.calls, got.ids, got.fixes) == ([("bash", LS), ("read", READ)], ("a", "b"), ())
    for index in (None, 0):
        one, two = in_pieces(index, "a", "bash", LS, "a"), in_pieces(index, "b", "read", READ, "b")
        turns = [each for pair in zip(one, two, strict=True) for each in pair]
        got = reply(*turns)
        assert (got.calls, got.ids) == ([("bash", LS), ("read", READ)], ("a", "b"))


def test_f51_two_calls_of_one_name_are_two() -> None:
    """Even with the same arguments; with the same id, only if their arguments differ (F27)."""
    for index in (0, 1):
        twin, other = (reply(piece(0, LS, "bash", "a"), piece(index, text, "bash", "a")) for text in (LS, PWD))
        assert (twin.calls, twin.ids) == ([("bash", LS)], ("a",))
        assert (other.calls, len(set(other.ids))) == ([("bash", LS), ("bash", PWD)], 2)
    for same in (LS, PWD):
        pairs: list[list[Delta]] = [
            [piece(0, LS, "bash", "a"), piece(1, same, "bash", "b")],
            [piece(0, LS, "bash", "a"), piece(0, same, "bash", "b")],
            [piece(0, LS, "bash"), piece(1, same, "bash")],
            [piece(0, LS, "bash"), piece(0, same, "bash")],
            [piece(None, LS, "bash", "a"), piece(None, same, "bash", "b")],
            [*in_pieces(0, "a", "bash", LS), *in_pieces(1, "b", "bash", same)],
        ]
        for deltas in pairs:
            got = reply(*deltas)
            assert (got.calls, len(set(got.ids))) == ([("bash", LS), ("bash", same)], 2)
        answered = whole({"content": None, "tool_calls": [entry("bash", LS), entry("bash", same, "b")]})
        assert answered.calls == [("bash", LS), ("bash", same)]


def test_f52_the_client_requested_one_call_at_a_time() -> None:
    """The server ignored `parallel_tool_calls: false`: only the first call is sent, structured or in text."""
    both = [piece(0, LS, "bash", "a"), piece(1, READ, "read", "b")]
    apart = [*in_pieces(0, "a", "bash", LS), *in_pieces(1, "b", "read", READ)]
    in_turns = [each for pair in zip(apart[:4], apart[4:], strict=True) for each in pair]
    for deltas in (both, apart, in_turns):
        got = reply(*deltas, one_call=True)
        assert (got.calls, got.ids, got.fixes) == ([("bash", LS)], ("a",), ("one_call",))
    answered = whole({"content": None, "tool_calls": [entry("bash", LS), entry("read", READ, "b")]}, one_call=True)
    assert (answered.calls, answered.finish) == ([("bash", LS)], "tool_calls")
    written = [f"<tool_call>{call_json(name, **values)}</tool_call>" for name, values in _WRITTEN]
    for got in (
        streamed(says("".join(written)), ends(), one_call=True),
        whole({"content": "\n".join(written)}, one_call=True),
        streamed(says(written[0]), calls(piece(0, READ, "read", "b")), ends(), one_call=True),
    ):
        assert ([name for name, _ in got.calls], got.text.strip(), got.finish) == (["bash"], "", "tool_calls")
        assert got.fixes.count("one_call") == 1


_WRITTEN: list[tuple[str, dict[str, Any]]] = [("bash", {"command": "ls"}), ("read", {"path": "a"})]
