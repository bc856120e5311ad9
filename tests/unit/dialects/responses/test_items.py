"""The items of a Responses request as chat messages: turns, calls and their outputs (C8, F48, F94)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.responses_ask import (
    CUSTOM,
    PIXEL,
    SPACE,
    TOOL,
    ask,
    assistant,
    call,
    developer,
    lost,
    messages,
    output,
    refusal,
    sent,
    text,
    user,
)
from tests.support.translations import sources_of

HI = {"role": "user", "content": "hi"}
DONE = {"role": "tool", "tool_call_id": "c1", "content": "done"}
PICTURE = {"type": "input_image", "image_url": PIXEL, "detail": "high"}
PICTURE_PART = {"type": "image_url", "image_url": {"url": PIXEL, "detail": "high"}}


def called(*calls: tuple[str, str, str], content: str | None = None, **more: Any) -> dict[str, Any]:
    made = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": given}} for id_, name, given in calls
    ]
    return {"role": "assistant", "content": content, **more, "tool_calls": made}


CALLED = called(("c1", "run", '{"x":1}'))


def test_a_string_is_a_message_of_the_users() -> None:
    assert sent({"model": "m", "input": "hi"}).body["messages"] == [HI]


@pytest.mark.parametrize("item", [user("hi"), user(text("hi")), {"role": "user", "content": "hi"}])
def test_a_message_may_have_no_type(item: dict[str, Any]) -> None:
    assert messages(item) == [HI]


def test_the_leading_instructions_are_one_system_message_and_later_ones_stay_in_their_place() -> None:
    """Codex sends two developer messages in each request; Qwen3.5's template takes a system message only at the top."""
    body = ask(
        developer("one"),
        developer(text("two"), text("three"), role="system"),
        user("hi"),
        assistant("yes"),
        developer("be brief"),
        user("go"),
        instructions="zero",
    )
    assert sent(body).body["messages"] == [
        {"role": "system", "content": "zero\n\none\n\ntwo\n\nthree"},
        HI,
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "<system-reminder>\nbe brief\n</system-reminder>\n\ngo"},
    ]


def test_a_later_instruction_beside_outputs_stands_in_the_last_of_them() -> None:
    """A user's message right behind results is refused by Mistral's template."""
    found = messages(user("hi"), call(), output(), developer("be brief"))
    assert found[2:] == [{**DONE, "content": "done\n\n<system-reminder>\nbe brief\n</system-reminder>"}]


def test_texts_calls_and_reasoning_of_one_turn_are_one_message() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    found = messages(user("hi"), thought, assistant("a"), call(), call("c2"), output(), output("x", "c2"),
                     reasoning_history="reasoning_content")  # fmt: skip
    both = called(("c1", "run", '{"x":1}'), ("c2", "run", '{"x":1}'), content="a", reasoning_content="hm")
    assert found == [HI, both, DONE, {**DONE, "tool_call_id": "c2", "content": "x"}]


def test_parts_of_a_message_are_one_text_and_messages_are_parted() -> None:
    two = {**assistant("a"), "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]}
    assert messages(user("hi"), two, assistant("c"), user("d"))[1]["content"] == "ab\n\nc"


def test_a_call_and_its_output_between_other_turns() -> None:
    assert messages(user("hi"), call(), output(), assistant("ok"), user("go")) == [
        *(HI, CALLED, DONE, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go"})
    ]


def test_ids_that_come_twice_are_paired_by_their_place() -> None:
    """F48: Codex sends both pairs back with the ids as they were."""
    found = messages(user("hi"), call(), output("one"), call(), output("two"))
    assert [each["tool_calls"][0]["id"] for each in found if each["role"] == "assistant"] == ["c1", "c1_2"]
    assert [(each["tool_call_id"], each["content"]) for each in found if each["role"] == "tool"] == [
        ("c1", "one"),
        ("c1_2", "two"),
    ]


def test_ids_that_come_twice_in_one_turn_are_paired_in_the_order_of_the_calls() -> None:
    found = messages(user("hi"), call(), call(), output("a"), output("b"), call(), call(), output("c"), output("d"))
    ids = [each["id"] for turn in found if turn["role"] == "assistant" for each in turn["tool_calls"]]
    assert ids == ["c1", "c1_2", "c1_3", "c1_4"]
    results = [(each["tool_call_id"], each["content"]) for each in found if each["role"] == "tool"]
    assert results == [*zip(ids, "abcd", strict=True)]


def test_outputs_without_ids_are_paired_in_the_order_of_the_calls_too() -> None:
    given = [{"type": "function_call_output", "name": "run", "output": said} for said in "ab"]
    found = messages(user("hi"), call(), call("c2"), *given)
    assert [(each["tool_call_id"], each["content"]) for each in found[2:]] == [("c1", "a"), ("c2", "b")]


def test_an_output_without_its_call_is_text_that_says_so() -> None:
    found = messages(user("hi"), output("lost", "gone"))
    said = "hi\n\nOutput of the call gone, which is not in the conversation:\n\nlost"
    assert found == [{"role": "user", "content": said}]


def test_an_output_without_an_id_is_paired_by_its_name() -> None:
    given = {"type": "function_call_output", "name": "run", "output": "done"}
    assert messages(user("hi"), call(), given) == [HI, CALLED, DONE]


def test_pictures_in_an_output_stand_in_the_users_message_behind_it() -> None:
    """F94: a message of the role `tool` cannot hold them."""
    found = messages(user("hi"), call(), output([text("see"), PICTURE]))
    head = {"type": "text", "text": "From the result of the call c1:"}
    assert found[2:] == [{**DONE, "content": "see"}, {"role": "user", "content": [head, PICTURE_PART]}]


def test_pictures_and_files_of_the_users() -> None:
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}
    part = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}}
    assert messages(user(text("see"), PICTURE, file)) == [
        {"role": "user", "content": [{"type": "text", "text": "see"}, PICTURE_PART, part]}
    ]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        *(("", "{}"), ("  ", "{}"), ('{"a": 1}', '{"a": 1}'), ('{"a":', '{"arguments":"{\\"a\\":"}')),
        *(("[1]", '{"arguments":"[1]"}'), ("null", '{"arguments":"null"}')),
    ],
)
def test_arguments_in_the_history_are_an_object(given: str, wanted: str) -> None:
    """F79, F80: 21 of 57 templates raise on anything else."""
    (made,) = messages(user("hi"), call(arguments=given), output())[1]["tool_calls"]
    assert made["function"]["arguments"] == wanted
    json.loads(wanted)


def test_a_custom_tools_input_goes_back_as_the_model_wrote_it() -> None:
    given = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": '*** Begin\n"é"'}
    said = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    found = sent(ask(user("hi"), given, said, tools=[CUSTOM])).body["messages"]
    assert found == [HI, called(("c1", "apply_patch", '{"input":"*** Begin\\n\\"é\\""}')), DONE]


@pytest.mark.parametrize("tools", [[SPACE], []], ids=["offered", "not offered"])
def test_a_call_of_a_namespace_has_the_joined_name(tools: list[Any]) -> None:
    found = sent(ask(user("hi"), call(name="close", namespace="agents"), output(), tools=tools)).body["messages"]
    assert found == [HI, called(("c1", "agents__close", '{"x":1}')), DONE]


def test_a_search_for_tools_and_what_it_found() -> None:
    search = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": TOOL["parameters"]}
    asked = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"q": "a"}}
    found = {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [TOOL, SPACE]}
    translation = sent(ask(user("hi"), asked, found, tools=[search]))
    said = {**DONE, "content": "These tools can be called now: run, agents__close"}
    assert translation.body["messages"] == [HI, called(("c1", "tool_search", '{"q":"a"}')), said]
    names = [each["function"]["name"] for each in translation.body["tools"]]
    assert names == ["tool_search", "run", "agents__close"]


@pytest.mark.parametrize(("given", "wanted"), [(None, "{}"), ([1], '{"arguments":"[1]"}'), (0, '{"arguments":"0"}')])
def test_arguments_of_a_search_are_an_object_too(given: Any, wanted: str) -> None:
    asked = {"type": "tool_search_call", "call_id": "c1", "arguments": given}
    assert messages(user("hi"), asked)[1] == called(("c1", "tool_search", wanted))


def test_tools_may_come_in_an_item_alone() -> None:
    """Codex's lite requests have no `tools`."""
    given = {"type": "additional_tools", "role": "developer", "tools": [SPACE, CUSTOM]}
    translation = sent(ask(given, developer("one"), user("hi")))
    assert translation.body["messages"] == [{"role": "system", "content": "one"}, HI]
    assert [each["function"]["name"] for each in translation.body["tools"]] == ["agents__close", "apply_patch"]


SHELL = {"type": "exec", "command": ["ls"], "env": {}}


@pytest.mark.parametrize(
    ("made", "answer", "name", "arguments", "content"),
    [
        (
            {"type": "local_shell_call", "call_id": "c1", "id": "lsh", "action": SHELL, "status": "completed"},
            output(),
            "local_shell",
            '{"type":"exec","command":["ls"],"env":{}}',
            "done",
        ),
        (
            {"type": "local_shell_call", "id": "c1", "action": SHELL, "status": "completed"},
            {"type": "local_shell_call_output", "id": "c1", "output": "done"},
            "local_shell",
            '{"type":"exec","command":["ls"],"env":{}}',
            "done",
        ),
        (
            {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a"}]},
            "shell",
            '{"commands":["ls"]}',
            '[{"stdout":"a"}]',
        ),
        (
            {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no file"},
            "apply_patch",
            '{"type":"delete_file","path":"a"}',
            "failed\nno file",
        ),
    ],
)
def test_other_calls_that_the_client_ran(made: Any, answer: Any, name: str, arguments: str, content: str) -> None:
    assert messages(user("hi"), made, answer) == [HI, called(("c1", name, arguments)), {**DONE, "content": content}]


def test_what_agents_say_to_each_other_is_text_of_the_users() -> None:
    hidden = {"type": "encrypted_content", "encrypted_content": "x"}
    given = {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": [text("look"), hidden]}
    translation = sent(ask(given))
    assert translation.body["messages"] == [{"role": "user", "content": "Message from /root to /root/a:\nlook"}]
    assert lost(translation) == {"input[].content[] of type encrypted_content": 1}


def test_reasoning_goes_back_where_the_rules_say_and_else_with_a_record() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "x"}
    body = ask(user("hi"), thought, assistant("a"), user("b"))
    kept = sent(body, reasoning_history="reasoning")
    assert kept.body["messages"][1] == {"role": "assistant", "content": "a", "reasoning": "s"}
    assert lost(kept) == {"input[].encrypted_content": 1}
    gone = sent(body)
    assert gone.body["messages"][1] == {"role": "assistant", "content": "a"}
    assert lost(gone) == {"input[].encrypted_content": 1, "input[] of type reasoning": 1}


def test_calls_may_be_copied_from_what_the_client_adds() -> None:
    """C3, F89."""
    body = ask(user("a"), call(), output("one"), assistant("ok"), user("b"), call(), output("two"), developer("note"))
    seen = "\n".join(sources_of(sent(body)))
    assert all(said in seen for said in ("a", "one", "b", "two", "note")) and "ok" not in seen


REFERENCES = [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}]


@pytest.mark.parametrize("item", REFERENCES)
def test_a_reference_is_refused_in_words(item: Any) -> None:
    assert "nothing is kept here; send the item itself" in refusal(ask(user("a"), item))


@pytest.mark.parametrize("kind", ["file_search_call", "mcp_call", "image_generation_call", "program"])
def test_items_of_openais_own_tools_go_unless_the_rules_say_so(kind: str) -> None:
    body = ask(user("hi"), {"type": kind, "id": "x"})
    for options in ({}, {"server_tools": "drop"}):
        translation = sent(body, **options)
        assert translation.body["messages"] == [HI] and lost(translation) == {f"input[] of type {kind}": 1}
    assert "OpenAI's own servers" in refusal(body, server_tools="refuse")


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"type": "ghost"}], "input.0.type: 'ghost' is no item"),
        ([{}], "input.0.type: Field required"),
        ([7], "input.0: must be an object"),
        ([user({"type": "input_audio"})], "input.0.content.0.type: 'input_audio' cannot stand here"),
        ([user({"type": "input_image", "file_id": "f"})], "input.0.content.0.file_id: this server keeps no files"),
        ([user({"type": "input_image", "image_url": "ftp://a"})], "input.0.content.0.image_url: must begin with"),
        ([user({"type": "input_file", "file_url": "https://a"})], "input.0.content.0.file_url: no chat server reads"),
        ([{"role": "tool", "content": "a"}], "input.0.role: 'tool' is none of"),
        ([call(), output(None)], "input.1.output: Field required"),
        ([{"type": "function_call", "name": "a"}], "input.0.call_id: Field required"),
        ([{"type": "function_call_output", "output": "a"}], "input.0.name: Field required"),
        ([developer({"type": "input_image", "image_url": PIXEL})], "input.0.content: takes text only"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(items: list[Any], words: str) -> None:
    assert refusal(ask(*items)).startswith(words)


@pytest.mark.parametrize("body", [{"model": "m"}, {"model": "m", "input": 7}, {"model": "m", "input": []}])
def test_a_request_without_input_is_refused(body: dict[str, Any]) -> None:
    assert refusal(body).startswith("input: ")


TURNS = [
    developer("one"),
    user("hi"),
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    assistant("a"),
    call(),
    call("c2"),
    output(),
    output([text("x"), PICTURE], "c2"),
    assistant("b"),
    user("more"),
    developer("note"),
    call(),
    output("two"),
    call(),
    call(),
    output("three"),
    output("four"),
]


@pytest.mark.parametrize("reasoning", ["drop", "reasoning_content"])
def test_each_turn_begins_with_the_bytes_of_the_one_before(reasoning: str) -> None:
    """C8: at each place where the model spoke."""
    ends = [at for at, item in enumerate(TURNS) if at > 1 and "output" not in item["type"] and _is_models(item)]
    before = ""
    for end in [*ends, len(TURNS)]:
        if end < len(TURNS) and _is_models(TURNS[end - 1]):
            continue
        now = json.dumps(sent(ask(*TURNS[:end]), reasoning_history=reasoning).body["messages"])
        assert now.startswith(before)
        before = now[:-1]


def _is_models(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or item["type"] in ("reasoning", "function_call")
