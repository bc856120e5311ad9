"""docs/responses.md: it names every field and type that the pinned `openai` SDK has, and what it says is so (F94)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import (
    input_token_count_params,
    response_create_params,
    response_function_call_output_item_list_param,
    response_input_item_param,
    response_input_message_content_list_param,
    response_output_message_param,
    response_text_config_param,
    tool_param,
)
from openai.types.shared_params import reasoning

from proxy.dialects.responses import fields
from tests.support.responses_ask import (
    CUSTOM,
    PIXEL,
    SCHEMA,
    SPACE,
    TOOL,
    ask,
    call,
    lost,
    output,
    refusal,
    sent,
    text,
    user,
)
from tests.unit.dialects.messages.test_fields import hints, literals, names, structures, types

GUIDE = (Path(__file__).parents[4] / "docs" / "responses.md").read_text("utf-8")
NOTE = "internal_chat_message_metadata_passthrough"


def nested(rows: Mapping[str, fields.Rows]) -> dict[str, str]:
    return {f"{kind}.{name}": row for kind, inner in rows.items() for name, row in inner.items()}


# Of the field `text`, whose members are translated one by one (proxy/dialects/responses/request.py).
TEXT_ROWS = {
    "format": "`response_format`; beside tools vLLM would call none of them, so there it is dropped",
    "verbosity": "`verbosity`",
}
ROWS: dict[str, Mapping[str, str]] = {
    "Fields of the body": {
        **fields.BODY_ROWS,
        **{f"reasoning.{name}": row for name, row in fields.REASONING_ROWS.items()},
        **{f"text.{name}": row for name, row in TEXT_ROWS.items()},
    },
    "Messages": fields.MESSAGE_ROWS,
    "Parts of messages and outputs": nested(fields.PART_ROWS),
    "Reasoning, calls and outputs": nested(fields.ITEM_ROWS),
    "Other items": fields.OTHER_ITEM_ROWS,
    "Tools": nested(fields.TOOL_ROWS),
    "Other tools": fields.OTHER_TOOL_ROWS,
}


def guide_rows() -> dict[str, dict[str, str]]:
    """The tables of the guide by their headings."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^#+ ", GUIDE, flags=re.MULTILINE)[1:]:
        heading = section.split("\n", 1)[0]
        if "what becomes of it" in section:
            found[heading] = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", section, flags=re.MULTILINE))
    return found


def test_the_guide_says_what_the_translation_goes_by() -> None:
    assert guide_rows() == {heading: dict(rows) for heading, rows in ROWS.items()}


# All of the SDK is there.

INPUT = response_input_item_param.ResponseInputItemParam
PARAMS = (
    response_create_params.ResponseCreateParamsNonStreaming,
    response_create_params.ResponseCreateParamsStreaming,
)
CONTENT = (
    response_input_message_content_list_param.ResponseInputMessageContentListParam,
    response_function_call_output_item_list_param.ResponseFunctionCallOutputItemListParam,
    *(hints(kind)["content"] for kind in structures(response_output_message_param.ResponseOutputMessageParam)),
)
# What no version of the SDK names: Codex sends it.
CODEX_ITEMS = {"agent_message", "compaction_summary", "context_compaction"}


def of_type(annotation: Any, word: str) -> set[str]:
    """The fields of the structures of this type."""
    found = [kind for kind in structures(annotation) if word in literals(hints(kind).get("type"))]
    return {name for kind in found for name in hints(kind)}


def test_each_field_of_the_body_has_a_row() -> None:
    sdk = {name for params in PARAMS for name in hints(params)}
    assert {"input", "store", "stream"} <= sdk
    assert fields.BODY_ROWS.keys() == sdk | {"client_metadata"}
    assert fields.REASONING_ROWS.keys() == names(reasoning.Reasoning)
    assert TEXT_ROWS.keys() == names(response_text_config_param.ResponseTextConfigParam)


def test_each_field_of_a_message_has_a_row() -> None:
    assert fields.MESSAGE_ROWS.keys() == of_type(INPUT, "message") | {NOTE}


@pytest.mark.parametrize("kind", fields.PART_ROWS)
def test_each_field_of_a_part_has_a_row(kind: str) -> None:
    assert types(*CONTENT) == fields.PART_ROWS.keys()
    assert fields.PART_ROWS[kind].keys() == {name for union in CONTENT for name in of_type(union, kind)}


@pytest.mark.parametrize("kind", [kind for kind in fields.ITEM_ROWS if kind not in CODEX_ITEMS])
def test_each_field_of_an_item_has_a_row(kind: str) -> None:
    assert fields.ITEM_ROWS[kind].keys() == of_type(INPUT, kind)


def test_each_type_of_item_is_there() -> None:
    known = {*fields.ITEM_ROWS, *fields.OTHER_ITEM_ROWS, "message"}
    assert known == types(INPUT) | CODEX_ITEMS


@pytest.mark.parametrize("kind", fields.TOOL_ROWS)
def test_each_field_of_a_tool_has_a_row(kind: str) -> None:
    assert fields.TOOL_ROWS[kind].keys() == of_type(tool_param.ToolParam, kind)


def test_each_type_of_tool_is_there() -> None:
    assert {*fields.TOOL_ROWS, *fields.OTHER_TOOL_ROWS} == types(tool_param.ToolParam)


def test_each_field_of_the_count_is_one_of_the_body() -> None:
    """But for the style of OpenAI's own prompts."""
    counted = names(input_token_count_params.InputTokenCountParams)
    assert counted - fields.BODY_ROWS.keys() == {"personality"}


# What it says is so.

BODY_VALUES: dict[str, Any] = {
    "access_programs": {"cyber": "standard"},
    "background_options": {"completion_window": "2h"},
    "context_management": [{"type": "compaction"}],
    "image": {"context_compression": "auto"},
    "include": ["reasoning.encrypted_content"],
    "max_tool_calls": 3,
    "moderation": {"model": "m"},
    "prompt_cache_options": {"mode": "implicit"},
    "stream_options": {"include_obfuscation": False},
    "top_logprobs": 2,
    "client_metadata": {"a": "b"},
}
HI = ask()


def dropped(rows: Mapping[str, str]) -> list[str]:
    return [name for name, row in rows.items() if row.startswith(fields.DROPPED)]


@pytest.mark.parametrize("name", dropped(fields.BODY_ROWS))
def test_a_field_of_the_body_that_is_dropped_has_a_record(name: str) -> None:
    translation = sent(ask(**{name: BODY_VALUES.get(name, "x")}))
    assert translation.body == sent(HI).body and lost(translation) == {name: 1}


@pytest.mark.parametrize("name", dropped(fields.REASONING_ROWS))
def test_a_field_of_the_reasoning_that_is_dropped_has_a_record(name: str) -> None:
    translation = sent(ask(reasoning={name: "auto"}))
    assert translation.body == sent(HI).body and lost(translation) == {f"reasoning.{name}": 1}


@pytest.mark.parametrize("name", dropped(fields.MESSAGE_ROWS))
def test_a_field_of_a_message_that_is_dropped_has_a_record(name: str) -> None:
    translation = sent(ask(user("hi", **{name: "x"})))
    assert translation.body == sent(HI).body and lost(translation) == {f"input[].{name}": 1}


PARTS = {
    "input_text": text("a"),
    "output_text": {"type": "output_text", "text": "a"},
    "refusal": {"type": "refusal", "refusal": "a"},
    "input_image": {"type": "input_image", "image_url": PIXEL},
    "input_file": {"type": "input_file", "file_data": "data:application/pdf;base64,JVBE"},
}


@pytest.mark.parametrize("row", dropped(nested(fields.PART_ROWS)))
def test_a_field_of_a_part_that_is_dropped_has_a_record(row: str) -> None:
    kind, name = row.split(".")
    translation = sent(ask(user({**PARTS[kind], name: "x"})))
    assert translation.body == sent(ask(user(PARTS[kind]))).body
    assert lost(translation) == {f"input[].content[].{name}": 1}


PATCH_CALL = {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "a"}}
# For each type of item a conversation that ends with it.
ITEMS: dict[str, list[Any]] = {
    "reasoning": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}],
    "function_call": [call()],
    "function_call_output": [call(), output()],
    "custom_tool_call": [{"type": "custom_tool_call", "call_id": "c1", "name": "run", "input": "a"}],
    "custom_tool_call_output": [call(), {"type": "custom_tool_call_output", "call_id": "c1", "output": "a"}],
    "tool_search_call": [{"type": "tool_search_call", "call_id": "c1", "arguments": {}}],
    "tool_search_output": [call(), {"type": "tool_search_output", "call_id": "c1", "tools": []}],
    "additional_tools": [{"type": "additional_tools", "tools": [TOOL]}],
    "local_shell_call": [{"type": "local_shell_call", "call_id": "c1", "action": {}}],
    "local_shell_call_output": [call(), {"type": "local_shell_call_output", "id": "c1", "output": "a"}],
    "shell_call": [{"type": "shell_call", "call_id": "c1", "action": {}}],
    "shell_call_output": [call(), {"type": "shell_call_output", "call_id": "c1", "output": []}],
    "apply_patch_call": [PATCH_CALL],
    "apply_patch_call_output": [PATCH_CALL, {"type": "apply_patch_call_output", "call_id": "c1", "output": "a"}],
    "agent_message": [{"type": "agent_message", "author": "a", "recipient": "b", "content": [text("c")]}],
}


@pytest.mark.parametrize("row", [*dropped(nested(fields.ITEM_ROWS)), *(f"{kind}.{NOTE}" for kind in ITEMS)])
def test_a_field_of_an_item_that_is_dropped_has_a_record(row: str) -> None:
    kind, name = row.split(".")
    *before, last = ITEMS[kind]
    options = {"reasoning_history": "reasoning"}
    translation = sent(ask(user("hi"), *before, {**last, name: "x"}), **options)
    assert translation.body == sent(ask(user("hi"), *before, last), **options).body
    assert lost(translation) == {f"input[].{name}": 1}


def test_an_example_is_there_for_each_type_of_item() -> None:
    assert ITEMS.keys() == fields.ITEM_ROWS.keys()


@pytest.mark.parametrize("kind", ["configuration_update", "web_search_call"])
def test_an_item_that_is_dropped_has_a_record(kind: str) -> None:
    assert fields.OTHER_ITEM_ROWS[kind].startswith(fields.DROPPED)
    translation = sent(ask(user("hi"), {"type": kind, "id": "x"}))
    assert translation.body == sent(HI).body and lost(translation) == {f"input[] of type {kind}": 1}


@pytest.mark.parametrize("kind", sorted(fields.REFUSED_ITEMS))
def test_an_item_that_is_refused_says_why(kind: str) -> None:
    assert fields.REFUSED_ITEMS[kind] in refusal(ask(user("hi"), {"type": kind, "id": "x"}))


@pytest.mark.parametrize("kind", sorted(fields.HOSTED_ITEMS))
def test_an_item_of_openais_own_goes_by_the_rules(kind: str) -> None:
    body = ask(user("hi"), {"type": kind, "id": "x"})
    assert lost(sent(body)) == {f"input[] of type {kind}": 1}
    assert "`server_tools: drop`" in refusal(body, server_tools="refuse")


TOOLS = {
    "function": TOOL,
    "custom": CUSTOM,
    "namespace": SPACE,
    "tool_search": {"type": "tool_search", "execution": "client", "parameters": SCHEMA},
}


@pytest.mark.parametrize("row", dropped(nested(fields.TOOL_ROWS)))
def test_a_field_of_a_tool_that_is_dropped_has_a_record(row: str) -> None:
    kind, name = row.split(".")
    translation = sent(ask(tools=[{**TOOLS[kind], name: "x"}]))
    assert translation.body == sent(ask(tools=[TOOLS[kind]])).body and lost(translation) == {f"tools[].{name}": 1}


def test_what_a_namespace_holds_is_read_as_well() -> None:
    inner = {**TOOL, "defer_loading": True}
    assert lost(sent(ask(tools=[{**SPACE, "tools": [inner]}]))) == {"tools[].tools[].defer_loading": 1}


@pytest.mark.parametrize(("kind", "row"), fields.OTHER_TOOL_ROWS.items())
def test_another_tool_is_dropped_or_refused(kind: str, row: str) -> None:
    body = ask(tools=[{"type": kind}])
    if row.startswith("refused: "):
        assert row.removeprefix("refused: ") in refusal(body)
    else:
        assert lost(sent(body)) == {f"tools[] of type '{kind}'": 1}
        assert "`server_tools: drop`" in refusal(body, server_tools="refuse")
