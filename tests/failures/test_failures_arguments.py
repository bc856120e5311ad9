"""Failures from the field: arguments of structured calls (F19 to F35), one test each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.events import Chunk
from proxy.repair.policy import Policy, ToolRule
from tests.support.client_view import LS, PWD, argued, entry, kept, mended, stays, streamed, whole
from tests.support.helpers import calls, chunk, ends, function, offered, piece, says
from tests.support.rows import rows

FILES = offered(
    function("read", {"filePath": {"type": "string"}, "offset": {"type": "integer"}}, "filePath"),
    function("note", {"file_path": {"type": "string"}, "due-date": {"type": "string"}}, "file_path"),
)


def late(**message: Any) -> Chunk:
    return chunk({"index": 0, "delta": {}, "message": message, "finish_reason": "tool_calls"})


def test_f19_the_opening_brace_is_missing() -> None:
    """A server that streams only the text after the first token loses the brace."""
    assert mended("bash", '"command": "echo hi"}') == ({"command": "echo hi"}, {"opening_brace"})
    assert mended("bash", ' "command":"a {b}", "timeout": 3}') == (
        {"command": "a {b}", "timeout": 3},
        {"opening_brace"},
    )
    assert mended("bash", '"command": "ls"')[0] == {"command": "ls"}
    assert mended("todowrite", '"todos": [{"content": "a", "done": "true"}]}') == (
        {"todos": [{"content": "a", "done": True}]},
        {"opening_brace", "literal"},
    )
    assert stays("bash", '{"command": "\\"command\\": \\"x\\"}"}')


def test_f20_the_last_tokens_are_missing() -> None:
    """With several tokens per step the last ones are lost. Only closers are added."""
    assert mended("bash", '{"command": "ls"') == ({"command": "ls"}, {"closers"})
    assert mended("bash", '{"command": "ls", "timeout": 3') == ({"command": "ls", "timeout": 3}, {"closers"})
    assert mended("todowrite", '{"todos": [{"content": "a}", "done": false') == (
        {"todos": [{"content": "a}", "done": False}]},
        {"closers"},
    )
    for half in ('{"command": "l', '{"command": "ls",', '{"command": "ls", "background": tr'):
        assert argued("bash", half).error
    for unopened in ('{"command":', '{"comm', '{"background": tr'):
        assert argued("bash", unopened).text == f"bash{unopened}"


def test_f21_a_brace_in_a_string_does_not_end_the_call() -> None:
    """Servers that count braces end the call at this brace."""
    assert stays("write_file", '{"path": "a}", "content": "}"}')
    assert stays("write_file", '{"content": "{[\\"}]", "path": "}}{{"}')
    assert stays("bash", '{"command": "echo \\\\"}')
    assert mended("write_file", '{"path": "a", "content": "}"') == ({"path": "a", "content": "}"}, {"closers"})
    two = '{"command": "}{"}' + '{"command": "{}"}'
    assert [values["command"] for _, values in argued("bash", two).values] == ["}{", "{}"]


def test_f22_arrays_and_objects_are_strings() -> None:
    """A list of tasks, or one task in it, is written as JSON text."""
    tasks = [{"content": "a", "done": True}]
    todos = {"todos": tasks}
    assert mended("todowrite", json.dumps({"todos": json.dumps(tasks)})) == (todos, {"literal"})
    assert mended("todowrite", json.dumps({"todos": [json.dumps(tasks[0])]})) == (todos, {"literal"})
    assert mended("todowrite", json.dumps({"todos": "[{'content': 'a', 'done': True}]"})) == (todos, {"literal"})
    assert mended("typed", '{"items": "[\\"a\\"]", "options": "{\\"b\\": 1}"}') == (
        {"items": ["a"], "options": {"b": 1}},
        {"literal"},
    )
    assert stays("write_file", json.dumps({"path": "a", "content": json.dumps(tasks)}))


def test_f23_an_object_is_in_place_of_a_string() -> None:
    """The content of a JSON file is written as an object."""
    expected = {"path": "a", "content": '{"a": [1, null]}'}
    assert mended("write_file", '{"path": "a", "content": {"a": [1, null]}}') == (expected, {"text"})
    assert mended("write_file", '{"content": {"a": [1, null]}, "path": "a"}') == (expected, {"text"})
    assert mended("write_file", '{"path": "a", "content": 1.10}')[0]["content"] == "1.10"
    assert stays("typed", '{"options": {"a": 1}, "free": {"b": 2}}')


@pytest.mark.slow
@rows(__file__, "arguments,values")
def test_f24_numbers_and_booleans_are_strings(arguments: str, values: Any) -> None:
    """Exact literals are converted to the schema's type, and only if it forbids the string."""
    assert mended("typed", arguments) == (values, {"literal"})
    assert stays("typed", '{"either": "10", "label": "true", "free": "1", "items": ["2"]}')
    for literal in ("ten", "yes", "1.5", "10 "):
        told = mended("typed", json.dumps({"count": literal}))
        assert told == ({"count": literal}, set()) if literal != "10 " else told[0] == {"count": 10}


def test_f25_arguments_are_empty() -> None:
    """They are taken from a later chunk. Without one, nothing is invented and the call is counted."""
    got = argued("bash", "{}")
    assert (got.calls, got.fixes, got.empty) == ([("bash", "{}")], (), 1)
    assert argued("now", "{}").empty == argued("bash", LS).empty == 0
    hydrated = [
        streamed(calls(piece(0, "{}", "bash", "a")), calls(piece(0, LS[:5])), calls(piece(0, LS[5:])), ends()),
        streamed(calls(piece(0, "{ }", "bash", "a")), calls(piece(0, LS, id="a")), ends()),
        *(streamed(calls({**piece(0, "", "bash", "a"), field: LS}), ends()) for field in ("args", "input")),
        *(streamed(calls(_under(field)), ends()) for field in ("parsed_arguments", "args", "input")),
        *(
            streamed(calls(piece(0, first, "bash", "a")), late(tool_calls=[entry("bash", LS)]))
            for first in ("", None, "{}", LS[:6])
        ),
        streamed(calls(_under("input", {"command": "ls"})), ends()),
    ]
    for got in hydrated:
        assert (got.values, got.ids, got.empty, got.finish) == ([("bash", {"command": "ls"})], ("a",), 0, "tool_calls")
        assert "form" in got.fixes


def _under(field: str, arguments: Any = LS) -> dict[str, Any]:
    """Return a call whose arguments are in another field."""
    return {"index": 0, "id": "a", "function": {"name": "bash", "arguments": None, field: arguments}}


@pytest.mark.parametrize("arguments", ["", None, "null", '""', " ", ...])
def test_f26_a_call_has_no_arguments(arguments: Any) -> None:
    """Empty, null, or no field: the client receives an object, and text after the call is kept."""
    for got in (
        whole({"content": None, "tool_calls": [entry("now", arguments)]}),
        streamed(calls(piece(0, arguments, "now", "a")), ends()),
    ):
        assert (got.calls, got.ids, got.finish, got.empty) == ([("now", "{}")], ("a",), "tool_calls", 0)
        assert got.fixes == ("empty_arguments", "finish")
    both = streamed(calls(piece(0, arguments, "now", "a")), calls(piece(1, LS, "bash", "b")), ends("tool_calls"))
    assert sorted(both.calls) == [("bash", LS), ("now", "{}")]
    assert whole({"content": "<tool_call>now</tool_call>"}).calls == [("now", "{}")]


def test_f27_the_same_object_is_sent_twice() -> None:
    """After a second flush, one of them is kept. Two different objects are two calls."""
    for twice in (LS + LS, f"{LS}\n{LS}", LS + '{"command":"ls"}', LS + LS + LS):
        got = argued("bash", twice)
        assert ([values for _, values in got.values], got.finish) == ([{"command": "ls"}], "tool_calls")
        assert "doubled" in got.fixes
    assert [values["command"] for _, values in argued("bash", LS + PWD).values] == ["ls", "pwd"]


def test_f28_the_arguments_are_in_the_content_too() -> None:
    """In the same chunk, after the call, or in the whole response: the repetition is dropped."""
    call = calls(piece(0, LS, "bash", "a"))
    half = [calls(piece(0, LS[:5], "bash", "a"), content=LS[:5]), calls(piece(0, LS[5:]), content=LS[5:])]
    doubled = [
        streamed(calls(piece(0, LS, "bash", "a"), content=LS), ends()),
        streamed(*half, ends()),
        streamed(call, says(LS), ends()),
        streamed(call, *map(says, (LS[:3], LS[3:9], LS[9:])), says("\n"), ends()),
        whole({"content": LS, "tool_calls": [entry("bash", LS)]}),
        whole({"content": f"\n{LS}\n", "tool_calls": [entry("bash", LS)]}),
    ]
    for got in doubled:
        assert (got.text.strip(), got.calls, got.finish) == ("", [("bash", LS)], "tool_calls")
        assert set(got.fixes) == {"echo", "finish"}
    for content in ("I list.", LS[:-1], f"{LS} is it", PWD):
        answer = {"content": content, "tool_calls": [entry("bash", LS)]}
        for got in (streamed(call, says(content), ends()), whole(answer)):
            assert (got.text, got.calls, got.fixes) == (content, [("bash", LS)], ("finish",))


def test_content_between_the_pieces_of_a_call_is_not_lost() -> None:
    """Content is not compared with incomplete arguments."""
    begun, rest = calls(piece(0, "{", "bash", "a")), calls(piece(0, LS[1:]))
    got = streamed(begun, says("{"), rest, says(" is a brace"), ends("tool_calls"))
    assert (got.text, got.calls, got.fixes) == ("{ is a brace", [("bash", LS)], ())


def test_f29_arguments_are_encoded_twice_or_not_at_all() -> None:
    """A JSON string in a JSON string, or a bare object, becomes one JSON text."""
    assert mended("bash", json.dumps(LS)) == ({"command": "ls"}, {"double_encoded"})
    assert mended("bash", json.dumps(f" {LS}\n")) == ({"command": "ls"}, {"double_encoded"})
    assert mended("bash", json.dumps(json.dumps(LS)))[0] == {"command": "ls"}
    assert mended("todowrite", json.dumps('{"todos": "[]"}')) == ({"todos": []}, {"double_encoded", "literal"})
    for got in (
        whole({"content": None, "tool_calls": [entry("bash", {"command": "ls"})]}, "tool_calls"),
        streamed(calls(piece(0, {"command": "ls"}, "bash", "a")), ends("tool_calls")),
    ):
        assert (got.values, got.ids, got.fixes) == ([("bash", {"command": "ls"})], ("a",), ("form",))
    assert stays("write_file", json.dumps({"path": "a", "content": json.dumps(LS)}))


@pytest.mark.parametrize(
    ("arguments", "values", "fixes"),
    [
        ("{'command': 'ls'}", {"command": "ls"}, {"literals"}),
        ("{'command': \"it's\", 'background': True}", {"command": "it's", "background": True}, {"literals"}),
        ('{"command": "ls",}', {"command": "ls"}, {"literals"}),
        ('{"command": "a\nb", "timeout": 3,}', {"command": "a\nb", "timeout": 3}, {"literals"}),
        ('{"command": "ls", // all\n "timeout": 3}', {"command": "ls", "timeout": 3}, {"comments"}),
        ('{"command": "ls" /* all */}', {"command": "ls"}, {"comments"}),
        ('{command: "ls"}', {"command": "ls"}, {"bare_keys"}),
        ('{"command": "a "b" c"}', {"command": 'a "b" c'}, {"inner_quotes"}),
        ("{“command”: “ls”}", {"command": "ls"}, {"smart_quotes"}),
        ("{'command': 'a\\'b', 'timeout': '5',}", {"command": "a'b", "timeout": 5}, {"literals", "literal"}),
    ],
)
def test_f30_arguments_are_python_or_nearly_json(arguments: str, values: Any, fixes: set[str]) -> None:
    """Wrong quotation marks, commas, line ends and comments are repaired to strict JSON."""
    assert mended("bash", arguments) == (values, fixes)
    assert stays("bash", '{"command": "say “hi”, {\'a\': True,} // no comment"}')


@pytest.mark.parametrize("before", ["json\n", "```json\n", "bash", "<arguments>", "Here they are: ", ""])
@pytest.mark.parametrize("after", ["", "\n```", "</tool_call>", "\n</function></tool_call>", "<|im_end|>", "}", ");"])
def test_f31_there_is_text_around_the_arguments(before: str, after: str) -> None:
    """Short markup, a word or a surplus brace is dropped. The object is unchanged."""
    got = argued("bash", before + LS + after, cuts=2)
    assert (got.calls, got.text) == ([("bash", LS)], "")
    assert set(got.fixes) == ({"junk"} if before + after else set())
    inside = json.dumps({"command": f"{before}x{after}"}, ensure_ascii=False)
    assert stays("bash", inside)


def test_long_text_around_the_arguments_is_not_dropped() -> None:
    """With long text before the object, the whole call is text. Long text after the object is content."""
    assert argued("bash", "x" * 97 + LS).text == "bash" + "x" * 97 + LS
    assert argued("bash", f"{LS} and more").text == " and more"


def test_f32_arguments_contain_html_entities() -> None:
    """They are decoded only if a rule says so."""
    text = '{"command": "a &amp;&amp; echo &quot;b&quot; &lt;c", "timeout": 3}'
    rule = ToolRule("entities", "*", ("command",), "is_string", "unescape_html")
    policy = Policy(rules=(rule,))
    assert mended("bash", text, policy=policy) == ({"command": 'a && echo "b" <c', "timeout": 3}, {"rule:entities"})
    assert stays("bash", text)
    assert kept("bash", '{"command": "a && b &amp;lt;"}', policy=policy)


def test_f33_a_key_is_misspelled() -> None:
    """It is unchanged (C10): the client's error teaches the model."""
    for key in ("comand", "commnad", "commandd", "Xommand"):
        assert kept("bash", json.dumps({key: "ls", "timeout": 1}))


def test_f34_a_key_is_spelled_as_in_another_agent() -> None:
    """Case and separators are corrected if only one key matches. Other words need a rule."""
    assert mended("read", '{"file_path": "a", "Offset": 3}', tools=FILES) == (
        {"filePath": "a", "offset": 3},
        {"key_spelling"},
    )
    for key in ("filePath", "FilePath", "file-path", "FILE_PATH"):
        assert mended("note", json.dumps({key: "a"}), tools=FILES) == ({"file_path": "a"}, {"key_spelling"})
    assert kept("note", '{"filePath": "a", "FILE_PATH": "b"}', tools=FILES)
    rule = ToolRule("alias", "bash", ("cmd",), "exists", "rename_parameter", to="command")
    assert mended("bash", '{"cmd": "ls"}', policy=Policy(rules=(rule,))) == ({"command": "ls"}, {"rule:alias"})
    assert kept("bash", '{"cmd": "ls"}')


def test_f35_an_optional_argument_is_empty() -> None:
    """It is omitted if the schema forbids it, and kept if it is required or allowed."""
    for arguments in ('{"pattern": "a", "mode": ""}', '{"mode": null, "pattern": "a", "context": null}'):
        assert mended("grep", arguments) == ({"pattern": "a"}, {"dropped"})
    assert mended("grep", '{"pattern": "a", "context": "", "mode": "Count"}') == (
        {"pattern": "a", "mode": "count"},
        {"dropped", "enum_case"},
    )
    assert kept("grep", '{"pattern": null}')
    assert stays("typed", '{"maybe": null, "label": "", "free": null}')


def test_several_failures_of_arguments_are_repaired_together() -> None:
    """Each is fixed by its own repair."""
    arguments = 'json\n{\'todos\': \'[{"content": "a", "done": "true", "rank": ""}]\',}</tool_call>'
    assert mended("todowrite", arguments) == (
        {"todos": [{"content": "a", "done": True}]},
        {"junk", "literals", "literal", "dropped"},
    )
    assert mended("write_file", '{"Path": "a", "content": {"b": 1},}') == (
        {"path": "a", "content": '{"b": 1}'},
        {"literals", "key_spelling", "text"},
    )
    assert mended("write_file", '"args": {"Path": "a", "content": "b"') == (
        {"path": "a", "content": "b"},
        {"opening_brace", "closers", "unwrapped", "key_spelling"},
    )
    # C9: the intended end of this text is unknown.
    refused = argued("write_file", '"args": {"path": "a", "content": {"b": 1}')
    assert (refused.calls, refused.text) == ([], 'write_file"args": {"path": "a", "content": {"b": 1}')
