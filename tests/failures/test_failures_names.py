"""Failures from the field: names of structured calls (F36 to F40), one test each."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.repair.policy import Policy
from tests.support.client_view import LS, Got, entry, is_untouched, streamed, whole, whole_is_untouched
from tests.support.helpers import OFFERED, call_json, calls, ends, function, offered, piece, says

TEXT = {"type": "string"}
TOOLS = offered(
    *OFFERED,
    function("todowrite", {"todos": {"type": "array"}}),
    function("web_fetch", {"url": TEXT}),
    function("mcp__git-log", {"n": {"type": "integer"}}),
    function("Twin", {"a": TEXT}),
    function("twin", {"a": TEXT}),
)
AGENT = offered(
    function("bash", {"command": TEXT, "description": TEXT}, "command", "description"),
    function("read", {"filePath": TEXT, "offset": {"type": "integer"}}, "filePath"),
    function("write", {"filePath": TEXT, "content": TEXT}, "filePath", "content"),
    function("delete", {"filePath": TEXT}, "filePath"),
    function("glob", {"pattern": TEXT, "path": TEXT}, "pattern"),
    function("grep", {"pattern": TEXT, "path": TEXT, "output_mode": TEXT}, "pattern"),
)


def both_ways(name: Any, arguments: str, **task: Any) -> Got:
    """Return the client's view of a call with this name: the same in one piece, in two, and as a whole response."""
    half = len(arguments) // 2
    said = {"content": None, "tool_calls": [entry(name, arguments)]}
    got = [
        streamed(calls(piece(0, arguments, name, "a")), ends("tool_calls"), **task),
        streamed(calls(piece(0, arguments[:half], name, "a")), calls(piece(0, arguments[half:])), ends(), **task),
        whole(said, "tool_calls", **task),
    ]
    assert len({(each.calls[0] if each.calls else None, each.ids, each.text, each.finish) for each in got}) == 1
    return got[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("Bash", "BASH", "functions.bash:0", "functions.bash", "bash:12", "tools.bash", "default_api:bash"),
        *("repo_browser.bash", " bash\n", "bash<|channel|>commentary", "bash</arg_value>", "functions.Bash:7"),
    ],
)
def test_f36_a_name_is_nearly_an_offered_one(name: str) -> None:
    """Letter case, known prefixes and suffixes, token residue and separators are corrected if only one tool matches."""
    got = both_ways(name, LS)
    assert (got.calls, got.ids, got.text) == ([("bash", LS)], ("a",), "")
    assert "name" in got.fixes or name.strip() == "bash"
    for other, meant in (("todo_write", "todowrite"), ("WebFetch", "web_fetch"), ("mcp__git_log", "mcp__git-log")):
        assert both_ways(other, "{}", tools=TOOLS).names == (meant,)
    for unknown in ("bahs", "bas", "bash_1_234", "bashful", "TWIN"):
        assert both_ways(unknown, LS, tools=TOOLS).calls == [(unknown, LS)]
    for exact in ("Twin", "twin"):
        assert is_untouched(calls(piece(0, '{"a": "x"}', exact, "a")), ends("tool_calls"), tools=TOOLS)


def test_f37_a_call_has_no_name() -> None:
    """The name is inferred if only one offered tool accepts the keys, or by a rule's table. Otherwise it is text."""
    for name in (..., "", None):
        got = both_ways(name, '{"path": "a", "content": "b"}')
        assert (got.calls, got.ids) == ([("write_file", '{"path": "a", "content": "b"}')], ("a",))
        assert "inferred_name" in got.fixes
        for text in ('{"command": "ls", "x": 1}', '{"limit": 3}', "{}", "what is this"):
            got = both_ways(name, text)
            assert (got.calls, got.text, got.finish) == ([], text, "stop")
            assert "no_call" in got.fixes
    table = Policy(infer_from_legacy_table=True)
    for arguments, meant in (
        ('{"filePath": "a"}', "read"),
        ('{"pattern": "*.py"}', "glob"),
        ('{"pattern": "x", "output_mode": "count"}', "grep"),
        ('{"command": "ls"}', "bash"),
    ):
        assert both_ways("", arguments, tools=AGENT, policy=table).names == (meant,)
    for arguments in ('{"filePath": "a"}', '{"pattern": "*.py"}', '{"command": "ls"}'):
        assert both_ways("", arguments, tools=AGENT).names == ()
    for arguments in ('{"url": "x", "prompt": "y"}', '{"query": "x"}', '{"filePath": "a", "limit": 1}'):
        assert both_ways("", arguments, tools=AGENT, policy=table).names == ()


def test_f38_the_name_follows_the_arguments() -> None:
    """The call is held until it has a name. Two calls are kept apart."""
    late: list[list[dict[str, Any]]] = [
        [piece(0, LS[:5], id="a"), piece(0, LS[5:]), piece(0, name="bash")],
        [piece(0, LS[:5], id="a"), piece(0, LS[5:9], "bash"), piece(0, LS[9:])],
        [piece(0, LS, None, "a"), piece(0, None, "bash")],
        [piece(0, LS, "", "a"), piece(0, "", "bash")],
    ]
    for deltas in late:
        got = streamed(*map(calls, deltas), ends("tool_calls"))
        assert (got.calls, got.ids, got.text, got.fixes) == ([("bash", LS)], ("a",), "", ("form",))
    # These accept the same keys, so only their names distinguish them.
    two = [piece(0, '{"filePath": "a"}', id="a"), piece(1, '{"filePath": "b"}', id="b")]
    named = [piece(1, name="delete"), piece(0, name="read")]
    got = streamed(calls(*two), calls(*named), ends("tool_calls"), tools=AGENT)
    assert sorted(got.values) == [("delete", {"filePath": "b"}), ("read", {"filePath": "a"})]


def test_f39_the_name_is_repeated_or_in_pieces() -> None:
    """On every delta, in pieces, growing, or doubled: the client receives the name once."""
    repeated: list[list[dict[str, Any]]] = [
        [piece(0, LS[:5], "bash", "a"), piece(0, LS[5:9], "bash"), piece(0, LS[9:], "bash", "a")],
        [piece(0, "", "bash", "a"), piece(0, LS, "bash", "a"), piece(0, "", "bash", "a")],
        [piece(0, "", "ba", "a"), piece(0, "", "sh"), piece(0, LS)],
        [piece(0, "", "b", "a"), piece(0, "", "ba"), piece(0, "", "bash"), piece(0, LS)],
    ]
    for deltas in repeated:
        got = streamed(*map(calls, deltas), ends("tool_calls"))
        assert (got.calls, got.ids, got.finish) == ([("bash", LS)], ("a",), "tool_calls")
    three = [piece(0, f'{{"url": "{page}"}}', "web_fetch", page) for page in "xyz"]
    got = streamed(*map(calls, three), ends("tool_calls"), tools=TOOLS)
    assert [values["url"] for _, values in got.values] == ["x", "y", "z"] and got.ids == ("x", "y", "z")


@pytest.mark.parametrize("name", ["nope", "bash2", "read_files", "multi_tool_use.parallel"])
def test_f40_a_tool_that_was_never_offered(name: str) -> None:
    """The client can answer it: a structured call is unchanged, and text stays text."""
    assert is_untouched(calls(piece(0, '{"x": "1', name, "a")), calls(piece(0, '"}')), ends("tool_calls"))
    assert whole_is_untouched({"content": None, "tool_calls": [entry(name, '{"x": "1"}')]})
    said = f"<tool_call>{call_json(name, command='ls')}</tool_call>"
    assert is_untouched(says(said), ends())
    assert whole_is_untouched({"content": said}, "stop")
