"""The input of a custom tool that the model writes as its text, so that vLLM keeps it to the tool's grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.responses.tools import Called, Kind
from proxy.dialects.responses.writer import ResponsesDialect
from proxy.engine.events import Event, Finished, Reasoning, Text
from proxy.errors import ProxyError
from tests.support.helpers import all_cuts
from tests.support.responses_ask import CUSTOM, TOOL, ask, lost, sent, user
from tests.support.responses_checker import calls_of, check_response, check_stream, events, text_of
from tests.support.responses_view import offering, options, told

LARK = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
REGEX = {"type": "grammar", "syntax": "regex", "definition": "a+"}
PATCH = {**CUSTOM, "format": LARK}
FORCED = {"type": "custom", "name": "apply_patch"}
BY_GRAMMAR = {"server_kind": "vllm", "grammars": "structured_outputs"}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [FORCED]}
END = Finished(0, "stop", None)
INPUT = '*** Begin Patch\n"a"\\\té\n*** End Patch'


@pytest.mark.parametrize(
    ("tools", "choice", "form"),
    [
        ([PATCH, TOOL], FORCED, {"grammar": 'start: "a"'}),
        ([TOOL, {**CUSTOM, "format": REGEX}], FORCED, {"regex": "a+"}),
        ([PATCH], "required", {"grammar": 'start: "a"'}),
        ([PATCH, TOOL], ALLOWED, {"grammar": 'start: "a"'}),
    ],
)
def test_the_grammar_of_the_only_tool_that_can_be_called_goes_to_vllm(tools: Any, choice: Any, form: Any) -> None:
    found = sent(ask(user("a"), tools=tools, tool_choice=choice), **BY_GRAMMAR)
    assert (found.body["structured_outputs"], found.body["tool_choice"]) == (form, "none")
    assert (found.written, lost(found)) == ("apply_patch", {})
    assert "apply_patch" in [tool["function"]["name"] for tool in found.body["tools"]]


@pytest.mark.parametrize(
    ("tools", "choice", "said"),
    [
        ([PATCH, TOOL], "auto", BY_GRAMMAR),
        ([PATCH, TOOL], "required", BY_GRAMMAR),
        ([PATCH], "none", BY_GRAMMAR),
        ([PATCH, TOOL], {"type": "function", "name": "run"}, BY_GRAMMAR),
        ([CUSTOM], FORCED, BY_GRAMMAR),
        ([{**CUSTOM, "format": {"type": "text"}}], FORCED, BY_GRAMMAR),
        ([{**CUSTOM, "format": {**LARK, "syntax": "ebnf"}}], FORCED, BY_GRAMMAR),
        ([PATCH], FORCED, {"server_kind": "vllm"}),
        ([PATCH], FORCED, {"server_kind": "llamacpp", "grammars": "structured_outputs"}),
    ],
)
def test_everywhere_else_the_description_is_all(tools: Any, choice: Any, said: Any) -> None:
    found = sent(ask(user("a"), tools=tools, tool_choice=choice), **said)
    assert "structured_outputs" not in found.body and found.written == ""


def test_a_form_of_the_answer_is_dropped_beside_it() -> None:
    body = ask(user("a"), tools=[PATCH], tool_choice=FORCED, text={"format": {"type": "json_object"}})
    found = sent(body, **BY_GRAMMAR)
    assert "response_format" not in found.body and lost(found) == {"text.format": 1}


def stream(*given: Event) -> bytes:
    tools = offering(("apply_patch", Called(Kind.CUSTOM, "apply_patch")))
    writer = ResponsesDialect(options(tools=tools), written="apply_patch").writer(expand=False)
    data = b"".join(map(writer.write, given))
    try:
        return data + writer.end()
    except ProxyError as error:
        return data + writer.error(error)


@pytest.mark.parametrize("parts", [*all_cuts(INPUT, 2)][:200])
def test_the_text_is_the_input_of_one_call_at_every_cut(parts: list[str]) -> None:
    data = stream(Reasoning(0, "hm"), *(Text(0, part) for part in parts), END)
    response = check_stream(data)
    assert calls_of(response) == [("apply_patch", INPUT)]
    assert (text_of(response), text_of(response, "reasoning")) == ("", "hm")
    deltas = [json.loads(said)["delta"] for name, said in events(data) if name.endswith("custom_tool_call_input.delta")]
    assert "".join(deltas) == INPUT and len(deltas) >= len([part for part in parts if part]) - 1


def test_reasoning_in_the_text_is_none_of_the_input() -> None:
    response = check_stream(stream(*told(["<think>hm</think>\n\n", INPUT])))
    assert (calls_of(response), text_of(response, "reasoning")) == ([("apply_patch", INPUT)], "hm")


def test_half_an_input_is_never_done() -> None:
    response = check_stream(stream(Text(0, INPUT), Finished(0, "length", None)))
    assert (response["status"], calls_of(response)) == ("incomplete", [])
    assert [item["status"] for item in response["output"]] == ["incomplete"]


def test_a_reply_of_nothing_is_no_call() -> None:
    assert check_stream(stream(Text(0, " "), END))["output"] == []


def test_whole_it_is_the_same() -> None:
    tools = offering(("apply_patch", Called(Kind.CUSTOM, "apply_patch")))
    made = ResponsesDialect(options(tools=tools), written="apply_patch").complete_answer(b"", {}, [Text(0, INPUT), END])
    assert calls_of(check_response(made)) == [("apply_patch", INPUT)]
