"""What users of qwen3-call-patch-proxy have, end to end: the rules, the table and the XML of its guide over HTTP, and
the nine defects of that proxy as regressions (earlier systems, A2).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.events import Chunk
from tests.conftest import Inside
from tests.failures.test_qwen3_users import BUILT_IN, FILE
from tests.support.client_view import DONE, ROLE, entry
from tests.support.helpers import calls, chunk, delta, ends, function, piece, received, says
from tests.support.scripted import Upstream, answer, chat, stream

CHAT = "/v1/chat/completions"
TEXT = {"type": "string"}
SWITCH = {"type": "boolean"}
OPENCODE = [
    function("todowrite", {"todos": {"type": "array", "items": {"type": "object"}}}, "todos"),
    function("bash", {"command": TEXT, "description": TEXT, "timeout": {"type": "integer"}}, "command", "description"),
    function(
        "edit",
        {"filePath": TEXT, "oldString": TEXT, "newString": TEXT, "replaceAll": SWITCH, "replace_all": SWITCH},
    ),
    function("multiedit", {"file_path": TEXT, "edits": {"type": "array"}}),
    function("glob", {"pattern": TEXT, "path": TEXT}, "pattern"),
    function("grep", {"pattern": TEXT, "output_mode": {"enum": ["content", "files_with_matches", "count"]}}, "pattern"),
    function("task", {"description": TEXT, "prompt": TEXT, "subagent_type": TEXT}, "prompt", "subagent_type"),
    function("read", {"filePath": TEXT, "offset": {"type": "integer"}}, "filePath"),
    function("write", {"filePath": TEXT, "content": TEXT}, "filePath", "content"),
    function("webfetch", {"url": TEXT, "prompt": TEXT}),
    function("websearch", {"query": TEXT}),
    function("notebookedit", {"notebook_path": TEXT, "new_source": TEXT}),
    function("list", {"path": TEXT}),
    function("mymodel_search", {"search_type": {"enum": ["semantic", "keyword", "hybrid"]}}, "search_type"),
    function("mcp__db__query", {"sql": TEXT, "limit": {"type": "integer"}}, "sql"),
    function("TodoRead"),
]
# What the guide infers from which keys, in its order.
TABLE: list[tuple[str, dict[str, Any]]] = [
    ("todowrite", {"todos": []}),
    ("bash", {"command": "ls"}),
    ("multiedit", {"file_path": "a", "edits": []}),
    ("edit", {"filePath": "a", "oldString": "b", "newString": "c"}),
    ("grep", {"pattern": "x", "output_mode": "count"}),
    ("glob", {"pattern": "*.py"}),
    ("webfetch", {"url": "http://a", "prompt": "b"}),
    ("websearch", {"query": "x"}),
    ("write", {"content": "a", "filePath": "b"}),
    ("read", {"filePath": "a"}),
    ("task", {"description": "a", "prompt": "b", "subagent_type": "c"}),
    ("notebookedit", {"notebook_path": "a", "new_source": "b"}),
    ("list", {"path": "a"}),
]
# What the rules of the guide add to those.
ADDED = {"bash": {"description": "Execute the given shell command"}, "glob": {"path": "."}}


def asked(inside: Inside, script: Any, *, rules: str = FILE, stream: bool = True, **request: Any) -> bytes:
    """The body that OpenCode gets."""
    body = chat(stream=stream, **{"tools": OPENCODE, **request})
    with Upstream(script) as server:
        data: bytes = inside(server.url, rules).post(CHAT, json=body).data
    return data


def streamed(inside: Inside, *chunks: Chunk, **more: Any) -> Any:
    """What a client has of a stream of these chunks."""
    script = stream(ROLE.raw, *(each.raw for each in chunks), DONE)
    return received(asked(inside, script, **more))[0]


def answered(inside: Inside, *messages: dict[str, Any], finish: str = "tool_calls", **more: Any) -> list[Any]:
    """The choices of a whole answer."""
    choices = [
        {"index": number, "message": {"role": "assistant", **each}, "finish_reason": finish}
        for number, each in enumerate(messages)
    ]
    body = answer({"id": "c", "object": "chat.completion", "created": 1, "model": "tiny", "choices": choices})
    found: list[Any] = json.loads(asked(inside, [body], stream=False, **more))["choices"]
    return found


def calls_of(choice: dict[str, Any]) -> list[tuple[str, Any]]:
    """The calls of a choice of a whole answer, with their arguments as values."""
    found = [call["function"] for call in choice["message"].get("tool_calls") or ()]
    return [(each["name"], json.loads(each["arguments"])) for each in found]


def values_of(seen: Any) -> list[tuple[str, Any]]:
    """The calls of a stream, with their arguments as values."""
    return [(name, json.loads(arguments)) for name, arguments in seen.calls]


@pytest.mark.parametrize(("name", "values", "new_name", "after"), BUILT_IN)
def test_each_rule_of_the_guide_acts_on_streams_and_on_whole_answers(
    inside: Inside, name: str, values: Any, new_name: str, after: Any
) -> None:
    text = json.dumps(values)
    cut = len(text) // 2
    seen = streamed(inside, calls(piece(0, text[:cut], name, "a")), calls(piece(0, text[cut:])), ends("tool_calls"))
    assert (values_of(seen), seen.ids, seen.finish) == ([(new_name, after)], ["a"], "tool_calls")
    (choice,) = answered(inside, {"content": None, "tool_calls": [entry(name, text)]})
    assert calls_of(choice) == [(new_name, after)]


@pytest.mark.parametrize(("name", "values"), TABLE)
def test_each_row_of_the_table_tells_a_call_without_a_name(inside: Inside, name: str, values: Any) -> None:
    text = json.dumps(values)
    seen = streamed(inside, *(calls(piece(0, part)) for part in (text[:7], text[7:])), ends("tool_calls"))
    assert values_of(seen) == [(name, {**values, **ADDED.get(name, {})})]
    assert seen.text == "" and len(seen.ids[0]) == 29


def test_the_xml_of_the_guide_is_a_call_and_not_shown(inside: Inside) -> None:
    said = "<function=glob><parameter=pattern>**/*.py</parameter></function>"
    expected = [("glob", {"pattern": "**/*.py", "path": "."})]
    for size in (1, 9, 100):
        parts = [says(said[at : at + size]) for at in range(0, len(said), size)]
        seen = streamed(inside, *parts, ends())
        assert (values_of(seen), seen.text, seen.finish) == (expected, "", "tool_calls")
        assert seen.ids[0].startswith("call_") and len(seen.ids[0]) == 29
    (choice,) = answered(inside, {"content": said}, finish="stop")
    assert (calls_of(choice), choice["message"]["content"]) == (expected, None)


def test_defect_1_parallel_calls_without_names_are_kept_apart(inside: Inside) -> None:
    one, two = '{"todos": [{"a": 1}]}', '{"sql": "select 1", "limit": 3}'
    turns = [piece(0, one[:9], id="a"), piece(1, two[:9], id="b"), piece(0, one[9:]), piece(1, two[9:])]
    seen = streamed(inside, *map(calls, turns), ends("tool_calls"))
    assert values_of(seen) == [("todowrite", json.loads(one)), ("mcp__db__query", json.loads(two))]
    assert seen.ids == ["a", "b"]


@pytest.mark.parametrize("name", ["grep", "mcp__db__query", "TodoRead"])
def test_defect_2_the_name_in_a_delta_without_arguments_is_kept(inside: Inside, name: str) -> None:
    """Theirs threw it away and guessed: `pattern` alone was `glob`, and a tool of the user's own was dropped."""
    text = {"grep": '{"pattern": "x"}', "mcp__db__query": '{"sql": "x"}', "TodoRead": "{}"}[name]
    seen = streamed(inside, calls(piece(0, "", name, "a")), calls(piece(0, text)), ends("tool_calls"))
    assert (seen.calls, seen.ids) == ([(name, text)], ["a"])


def test_defect_3_names_keep_their_letter_case(inside: Inside) -> None:
    tools = [function("TodoWrite", {"todos": {"type": "array"}}), function("Read", {"file_path": TEXT}, "file_path")]
    for name, text in (("TodoWrite", '{"todos": "[1]"}'), ("Read", '{"file_path": "a"}')):
        seen = streamed(inside, calls(piece(0, text, name, "a")), ends("tool_calls"), tools=tools)
        assert seen.names == [name]
    assert values_of(streamed(inside, calls(piece(0, '{"todos": "[1]"}', "todowrite")), ends(), tools=tools)) == [
        ("TodoWrite", {"todos": [1]})
    ]


def test_defect_4_good_ids_stay_and_calls_have_a_type(inside: Inside) -> None:
    ids = ["call_1", "chatcmpl-tool-0123456789abcdef"]
    text = '{"filePath": "a", "offset": "3"}'
    deltas = [{**piece(number, text, id=id_), "function": _named(text)} for number, id_ in enumerate(ids)]
    data = asked(inside, stream(ROLE.raw, calls(*deltas).raw, ends("tool_calls").raw, DONE))
    assert received(data)[0].ids == ids
    assert data.count(b'"type":"function"') == 2
    (choice,) = answered(inside, {"content": None, "tool_calls": [entry("read", text, id_) for id_ in ids]})
    found = choice["message"]["tool_calls"]
    assert [(call["id"], call["type"]) for call in found] == [(id_, "function") for id_ in ids]


def _named(text: str) -> dict[str, str]:
    return {"name": "read", "arguments": text}


def test_defect_5_xml_calls_are_whole_and_typed_and_as_many_as_there_are(inside: Inside) -> None:
    said = (
        "I look.\n"
        "<function=mcp__db__query>\n<parameter=sql>\nselect a from b where a < 3 and c > '<x>'\n</parameter>\n"
        "<parameter=limit>\n10\n</parameter>\n</function>\n"
        "<function=TodoRead>\n</function>"
    )
    expected = [("mcp__db__query", {"sql": "select a from b where a < 3 and c > '<x>'", "limit": 10}), ("TodoRead", {})]
    for size in (1, 11, 1000):
        parts = [says(said[at : at + size]) for at in range(0, len(said), size)]
        seen = streamed(inside, *parts, ends())
        assert (values_of(seen), seen.text.strip(), seen.finish) == (expected, "I look.", "tool_calls")
        assert len(set(seen.ids)) == 2


def test_defect_6_a_call_that_is_completed_late_comes_before_the_finish_with_id_and_model(inside: Inside) -> None:
    """`received` refuses whatever follows a finish."""
    half = calls(piece(0, '{"filePath": "a"', "read"))
    data = asked(inside, stream(ROLE.raw, half.raw, ends("tool_calls").raw, DONE))
    seen = received(data)[0]
    assert (values_of(seen), seen.finish) == ([("read", {"filePath": "a"})], "tool_calls")
    assert seen.ids[0] and all(b'"model"' in block for block in data.split(b"\n\n")[:-2])


def test_defect_7_every_choice_of_a_whole_answer_is_repaired(inside: Inside) -> None:
    xml = "<function=read><parameter=filePath>a</parameter></function>"
    said: list[dict[str, Any]] = [
        {"content": None, "tool_calls": [entry("todowrite", '{"todos": "[]"}')]},
        {"content": xml},
        {"content": "Hi."},
    ]
    found = answered(inside, *said, n=3)
    assert [calls_of(each) for each in found] == [[("todowrite", {"todos": []})], [("read", {"filePath": "a"})], []]
    assert [each["finish_reason"] for each in found] == ["tool_calls", "tool_calls", "stop"]


def test_defect_8_no_bytes_are_added_and_no_line_is_too_long(inside: Inside) -> None:
    """What needs nothing leaves as it came, however long; what is said twice stays."""
    long = json.dumps({"filePath": "a", "content": "x" * 100_000})
    events = [ROLE.raw, says("y" * 100_000).raw, says("so ").raw, says("so ").raw]
    events += [calls(piece(0, long, "write", "a")).raw, ends("tool_calls").raw, DONE]
    given = asked(inside, stream(*events), rules="")
    assert given.startswith(b"".join(events[:4])) and received(given) == received(b"".join(events))
    twice = [calls(piece(number, '{"query": "x"}', "websearch", f"c{number}")) for number in range(2)]
    assert streamed(inside, *twice, ends("tool_calls")).ids == ["c0", "c1"]


def test_defect_9_without_tools_nothing_is_touched(inside: Inside) -> None:
    said = "<function=glob><parameter=pattern>*</parameter></function>"
    odd = chunk(delta(0, tool_calls=[piece(0, '{"todos": "[]"', "todowrite")]))
    events = [ROLE.raw, says(said).raw, odd.raw, ends("stop").raw, DONE]
    requests: tuple[dict[str, Any], ...] = ({"tools": None}, {"tools": []}, {"tool_choice": "none"})
    for request in requests:
        assert asked(inside, stream(*events), **request) == b"".join(events)
    message = {"content": said, "tool_calls": [entry("todowrite", '{"todos": "[]"')]}
    (choice,) = answered(inside, message, finish="stop", tools=None)
    assert choice["message"] == {"role": "assistant", **message}
