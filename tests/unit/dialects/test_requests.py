"""Recorded requests of Messages and Responses: a body, and the chat request or the position of the error."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.dialects.messages import request as messages
from proxy.dialects.responses import request as responses
from proxy.dialects.translation import MAX_KINDS
from proxy.errors import BadRequest
from proxy.healing.heal import HealPlan, heal_request
from proxy.json import dump_request
from tests.support.translations import lost, options, refused

ROWS = Path(__file__).parent / "rows"
DIALECTS: dict[str, Any] = {"messages": messages, "responses": responses}
# Translation fields that a row omits if they are empty.
FIELDS = ("prefill", "json_reply")


def rows(dialect: str) -> Iterator[Any]:
    for number, line in enumerate((ROWS / f"{dialect}_requests.jsonl").read_text("utf-8").splitlines(), 1):
        row = json.loads(line)
        yield pytest.param(dialect, row, id=f"{dialect}:{number}:{row['name']}")


@pytest.mark.parametrize(("dialect", "row"), [*rows("messages"), *rows("responses")])
def test_recorded_request_is_translated(dialect: str, row: dict[str, Any]) -> None:
    module = DIALECTS[dialect]
    translate = getattr(module, "translate_count", module.translate) if "count" in row else module.translate
    given = copy.deepcopy(row["body"])
    if "error" in row:
        with pytest.raises(BadRequest) as caught:
            translate(given, options(**row.get("options", {})))
        error = caught.value
        assert (error.status, error.param) == (row["error"], row["at"]), error.message
        assert "\n" not in error.message and len(error.message) < 300
        return
    found = translate(given, options(**row.get("options", {})))
    if "count" in row:
        assert {key: found.body[key] for key in row["chat"]} == row["chat"]
    else:
        body = heal_request(found.body, HealPlan()).body if "healed" in row else found.body
        assert dump_request(body) == dump_request(row["chat"])  # keys keep their order, too (C8)
    assert [*found.body][-1] == "messages"
    assert lost(found) == row.get("lost", {})
    logged = [repair.before.rsplit(": ", 1)[0] for repair in found.dropped if repair.logged]
    assert sorted(logged) == row.get("logged", [])
    assert {name: getattr(found, name) for name in FIELDS if getattr(found, name, "")} == {
        name: row[name] for name in FIELDS if name in row
    }
    assert sorted(getattr(found, "stop_sequences", ())) == row.get("stops", [])
    offered = found.tools.by_name if dialect == "responses" else {}
    names = {name: [tool.kind.value, tool.name, tool.namespace] for name, tool in offered.items()}
    assert names == row.get("tools", {})
    assert given == row["body"]


@pytest.mark.parametrize(
    ("dialect", "begin"),
    [("messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}), ("responses", {"input": "hi"})],
)
def test_the_number_of_kinds_of_lost_fields_is_limited(dialect: str, begin: dict[str, Any]) -> None:
    """C7: further kinds share a name. An unusual name is not repeated."""
    body: dict[str, Any] = {"model": "m", **begin, "x\ny": 1, **{f"f{number}": 1 for number in range(2 * MAX_KINDS)}}
    found = lost(DIALECTS[dialect].translate(body, options()))
    assert len(found) == MAX_KINDS + 1
    assert found["(odd name)"] == 1
    assert found["(more)"] == 2 * MAX_KINDS + 1 - MAX_KINDS


@pytest.mark.parametrize("name", ["\ud800", "a\ud800"])
def test_a_lone_surrogate_in_a_name_is_not_an_internal_error(name: str) -> None:
    body: dict[str, Any] = {"model": "m", "input": [{"role": "user", "content": "hi", name: 1}], name: 1, "tools": []}
    assert lost(responses.translate(body, options())) == {"(odd name)": 1, "input[].(odd name)": 1}
    wrong = {**body, "max_output_tokens": name}
    assert refused(lambda: responses.translate(wrong, options())).startswith("max_output_tokens: ")


def test_deeply_nested_arguments_are_refused() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    block = {"type": "tool_use", "id": "a", "name": "b", "input": deep}
    body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "assistant", "content": [block]}]}
    assert refused(lambda: messages.translate(body, options())).endswith("input: is nested too deeply")
    odd: dict[str, Any] = {"model": "m", "input": "hi", "\ud800": deep}
    assert refused(lambda: responses.translate(odd, options())) == "is nested too deeply"


def test_mcp_servers_are_refused_with_an_alternative() -> None:
    said = [{"role": "user", "content": "hi"}]
    body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": said, "mcp_servers": [{}]}
    words = refused(lambda: messages.translate(body, options()))
    assert words.startswith("mcp_servers: ") and "server_tools: drop" in words


def test_token_counts_ignore_limits_and_compaction() -> None:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    found = messages.translate_count({**body, "max_tokens": 0, "compaction": {"type": "x"}}, options())
    assert found.body == messages.translate_count(body, options()).body


@pytest.mark.parametrize(
    ("dialect", "fields", "words"),
    [
        ("messages", {"max_tokens": 0}, "max_tokens: Expected a whole number >= 1"),
        ("messages", {"temperature": "hot"}, "temperature: Expected a number, got a string"),
        ("messages", {"thinking": {"type": "x"}}, "thinking.type: 'x' is not supported here"),
        ("responses", {"input": None}, "input: Field required"),
        ("responses", {"input": [{"role": "tool"}]}, "input.0.role: 'tool' is not supported here"),
        ("responses", {"input": [{"type": "ghost"}]}, "input.0.type: 'ghost' is not an item that this server knows"),
    ],
)
def test_an_error_names_the_position_and_the_reason(dialect: str, fields: dict[str, Any], words: str) -> None:
    body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **fields}
    assert refused(lambda: DIALECTS[dialect].translate(body, options())).startswith(words)
