"""Features for users of qwen3-call-patch-proxy, end to end over HTTP: the rules, the table and the XML of its guide,
and the nine defects of that proxy as regression tests (earlier systems, A2).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.engine.events import Chunk
from tests.conftest import Inside
from tests.failures.test_qwen3_users import BUILT_IN, FILE
from tests.support.client_view import DONE, ROLE, entry
from tests.support.helpers import calls, chunk, delta, ends, piece, received, says
from tests.support.scripted import Upstream, answer, chat, stream

DATA = json.loads(Path(__file__).with_name("qwen3_calls.json").read_text("utf-8"))

CHAT = "/v1/chat/completions"
OPENCODE = DATA["OPENCODE"]
# The names that the guide infers from keys, in its order.
TABLE: list[tuple[str, dict[str, Any]]] = [*map(tuple, DATA["TABLE"])]
# The values that the guide's rules add to them.
ADDED = {"bash": {"description": "Execute the given shell command"}, "glob": {"path": "."}}


def asked(inside: Inside, script: Any, *, rules: str = FILE, stream: bool = True, **request: Any) -> bytes:
    body = chat(stream=stream, **{"tools": OPENCODE, **request})
    with Upstream(script) as server:
        data: bytes = inside(server.url, rules).post(CHAT, json=body).data
    return data


def streamed(inside: Inside, *chunks: Chunk, **more: Any) -> Any:
    script = stream(ROLE.raw, *(each.raw for each in chunks), DONE)
    return received(asked(inside, script, **more))[0]


def answered(inside: Inside, *messages: dict[str, Any], finish: str = "tool_calls", **more: Any) -> list[Any]:
    choices = [
        {"index": number, "message": {"role": "assistant", **each}, "finish_reason": finish}
        for number, each in enumerate(messages)
    ]
    body = answer({"id": "c", "object": "chat.completion", "created": 1, "model": "tiny", "choices": choices})
    found: list[Any] = json.loads(asked(inside, [body], stream=False, **more))["choices"]
    return found


def calls_of(choice: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the calls of a choice of a whole answer, with parsed arguments."""
    found = [call["function"] for call in choice["message"].get("tool_calls") or ()]
    return [(each["name"], json.loads(each["arguments"])) for each in found]


def values_of(seen: Any) -> list[tuple[str, Any]]:
    """Return the calls of a stream, with parsed arguments."""
    return [(name, json.loads(arguments)) for name, arguments in seen.calls]


@pytest.mark.parametrize(("name", "values", "new_name", "after"), BUILT_IN)
def test_each_rule_of_the_guide_takes_effect(inside: Inside, name: str, values: Any, new_name: str, after: Any) -> None:
    text = json.dumps(values)
    cut = len(text) // 2
    seen = streamed(inside, calls(piece(0, text[:cut], name, "a")), calls(piece(0, text[cut:])), ends("tool_calls"))
    assert (values_of(seen), seen.ids, seen.finish) == ([(new_name, after)], ["a"], "tool_calls")
    (choice,) = answered(inside, {"content": None, "tool_calls": [entry(name, text)]})
    assert calls_of(choice) == [(new_name, after)]


@pytest.mark.parametrize(("name", "values"), TABLE)
def test_each_row_of_the_table_infers_a_name(inside: Inside, name: str, values: Any) -> None:
    text = json.dumps(values)
    seen = streamed(inside, *(calls(piece(0, part)) for part in (text[:7], text[7:])), ends("tool_calls"))
    assert values_of(seen) == [(name, {**values, **ADDED.get(name, {})})]
    assert seen.text == "" and len(seen.ids[0]) == 29


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


def test_defect_9_without_tools_nothing_is_changed(inside: Inside) -> None:
    said = "<function=glob><parameter=pattern>*</parameter></function>"
    odd = chunk(delta(0, tool_calls=[piece(0, '{"todos": "[]"', "todowrite")]))
    events = [ROLE.raw, says(said).raw, odd.raw, ends("stop").raw, DONE]
    requests: tuple[dict[str, Any], ...] = ({"tools": None}, {"tools": []}, {"tool_choice": "none"})
    for request in requests:
        assert asked(inside, stream(*events), **request) == b"".join(events)
    message = {"content": said, "tool_calls": [entry("todowrite", '{"todos": "[]"')]}
    (choice,) = answered(inside, message, finish="stop", tools=None)
    assert choice["message"] == {"role": "assistant", **message}
