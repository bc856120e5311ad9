"""A Messages request as a chat-completions request: the body's own fields, and real requests whole (C8, F95)."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.codec.json_text import dump_request, load_json
from proxy.dialects.chat.request import read_chat
from proxy.dialects.messages.request import Translation, translate, translate_count
from proxy.dialects.model_options import ModelOptions
from proxy.dialects.token_count import count
from proxy.errors import BadRequest
from tests.support.messages_ask import (
    FUNCTION,
    MODEL,
    TOOL,
    ask,
    assistant,
    call,
    lost,
    refusal,
    result,
    sent,
    text,
    user,
)
from tests.support.shared import SHARED, VARIABLE
from tests.support.translations import sources_of

CAPTURES = SHARED / "captures"
OPTIONS = ModelOptions(model=MODEL, server_kind="vllm", thinking="enable_thinking")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def captured(turn: int) -> dict[str, Any]:
    """What Claude Code sent in this turn of a conversation."""
    path = CAPTURES / f"claude-code-{turn}.json"
    if not path.exists() and "CI" not in os.environ:
        pytest.skip(f"no captures in {CAPTURES}: {VARIABLE} names the folder that holds `captures/*.json`")
    body = json.loads(path.read_text("utf-8"))["body"]
    assert isinstance(body, dict)
    return body


def body(**fields: Any) -> dict[str, Any]:
    """The chat request for a greeting with these fields, without the model, the limit and the messages."""
    found = dict(sent(ask(**fields)).body)
    assert found.pop("messages") == [{"role": "user", "content": "hi"}]
    assert (found.pop("model"), found.pop("max_tokens")) == (MODEL, 10)
    return found


def test_claude_codes_second_turn_begins_with_the_bytes_of_its_first() -> None:
    """C8: although the client moved its marks of the cache meanwhile."""
    first, second = (dump_request(translate(captured(turn), OPTIONS).body) for turn in (1, 2))
    assert first.endswith(b"}]}")
    assert second.startswith(first.removesuffix(b"]}") + b",")


def test_claude_codes_request_is_all_there() -> None:
    given = captured(2)
    translation = translate(given, OPTIONS)
    out: dict[str, Any] = translation.body
    assert [*out] == [
        *("model", "max_tokens", "user", "stream", "stream_options", "chat_template_kwargs", "tools", "messages")
    ]
    assert (out["model"], out["max_tokens"], out["stream"]) == (MODEL, 32000, True)
    assert out["user"] == given["metadata"]["user_id"]
    assert out["chat_template_kwargs"] == {"enable_thinking": True}
    assert [entry["function"]["parameters"] for entry in out["tools"]] == [
        tool["input_schema"] for tool in given["tools"]
    ]
    assert [message["role"] for message in out["messages"]] == ["system", "user", "assistant", "tool"]
    assert out["messages"][0]["content"].startswith("You are a Claude agent")
    assert out["messages"][2]["tool_calls"][0]["id"] == out["messages"][3]["tool_call_id"] == "abc123"
    seen = "\n".join(sources_of(translation))
    for said in ("(Bash completed with no output)", "<system-reminder>\nAs", "Available agent type"):
        assert said in seen
    assert "You are a Claude agent" not in seen
    assert lost(translation) == {
        "context_management": 1,
        "output_config.effort": 1,
        "x-anthropic-billing-header": 1,
        "system[].cache_control": 2,
        "messages[].content[].cache_control": 1,
    }


def test_the_proxy_reads_its_own_translation() -> None:
    """What the engine needs to know of a request is in it."""
    translation = translate(captured(2), OPTIONS)
    request = read_chat(dump_request(translation.body), translation.body)
    assert (request.stream, request.usage, request.forced, request.json_reply) == (True, True, False, False)
    assert request.ids == {"abc123"}
    assert request.tools is not None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"output_format": {"type": "json_schema", "schema": {}}}, True),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, True),
        ({"output_config": {"effort": "low"}}, False),
    ],
)
def test_a_translation_knows_whether_json_was_asked_for(fields: dict[str, Any], expected: bool) -> None:
    """C3: also where no server is told."""
    assert translate({**captured(2), **fields}, OPTIONS).json_reply is expected


def test_a_translation_knows_the_stop_sequences() -> None:
    given = captured(2)
    assert translate(given, OPTIONS).stop_sequences == frozenset()
    assert translate({**given, "stop_sequences": ["END", "STOP"]}, OPTIONS).stop_sequences == {"END", "STOP"}


def test_the_same_request_gives_the_same_bytes_and_stays_as_it_was() -> None:
    given = captured(2)
    before = json.dumps(given)
    assert dump_request(translate(given, OPTIONS).body) == dump_request(translate(given, OPTIONS).body)
    assert json.dumps(given) == before


@pytest.mark.parametrize(
    ("fields", "out"),
    [
        ({}, {}),
        ({"stream": False}, {"stream": False}),
        ({"stream": None}, {}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"temperature": 0, "top_p": 1.0, "top_k": 5}, {"temperature": 0, "top_p": 1.0, "top_k": 5}),
        ({"temperature": None, "top_p": None, "top_k": None, "stop_sequences": None, "metadata": None}, {}),
        ({"stop_sequences": []}, {}),
        ({"stop_sequences": ["a", "\n"]}, {"stop": ["a", "\n"]}),
        ({"metadata": {}}, {}),
        ({"metadata": {"user_id": None}}, {}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"container": None, "mcp_servers": [], "thread": None, "compaction": None}, {}),
        ({"container": {}, "mcp_servers": None}, {}),
        ({"output_config": {}}, {}),
        ({"output_config": {"format": None, "effort": None}}, {}),
    ],
)
def test_small_fields(fields: dict[str, Any], out: dict[str, Any]) -> None:
    assert body(**fields) == out
    assert lost(sent(ask(**fields))) == {}


def test_counts_from_the_start_are_asked_of_vllm_alone() -> None:
    """Other servers refuse fields that they do not know."""
    for server in ("", "sglang", "llamacpp", "litellm"):
        assert sent(ask(stream=True), server_kind=server).body["stream_options"] == {"include_usage": True}
    options = sent(ask(stream=True), server_kind="vllm").body["stream_options"]
    assert options == {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize(
    ("thinking", "out"),
    [("enabled", True), ("adaptive", True), ("between_tools", True), ("disabled", False)],
)
@pytest.mark.parametrize("switch", ["enable_thinking", "thinking"])
def test_thinking_by_the_templates_switch(thinking: str, out: bool, switch: str) -> None:
    """F94: adaptive thinking is not lost."""
    translation = sent(ask(thinking={"type": thinking}), thinking=switch)
    assert translation.body["chat_template_kwargs"] == {switch: out}
    assert lost(translation) == {}


@pytest.mark.parametrize(
    ("thinking", "effort", "out"),
    [
        ({"type": "enabled", "budget_tokens": 1024}, None, "low"),
        ({"type": "enabled", "budget_tokens": 4096}, None, "low"),
        ({"type": "enabled", "budget_tokens": 4097}, None, "medium"),
        ({"type": "enabled", "budget_tokens": 16384}, None, "medium"),
        ({"type": "enabled", "budget_tokens": 16385}, None, "high"),
        ({"type": "enabled"}, None, None),
        ({"type": "adaptive"}, None, None),
        ({"type": "between_tools"}, None, None),
        ({"type": "disabled"}, None, "low"),
        (None, None, None),
        (None, "low", "low"),
        (None, "medium", "medium"),
        (None, "high", "high"),
        (None, "xhigh", "high"),
        ({"type": "adaptive"}, "max", "high"),
    ],
)
def test_thinking_by_effort(thinking: Any, effort: str | None, out: str | None) -> None:
    translation = sent(ask(thinking=thinking, output_config={"effort": effort}), thinking="reasoning_effort")
    assert translation.body.get("reasoning_effort") == out
    assert "chat_template_kwargs" not in translation.body
    assert lost(translation) == {}


@pytest.mark.parametrize(
    ("switch", "fields", "kinds"),
    [
        ("", {"thinking": {"type": "enabled", "budget_tokens": 9}}, {"thinking"}),
        ("none", {"thinking": {"type": "disabled"}}, {"thinking"}),
        ("none", {"output_config": {"effort": "high"}}, {"output_config.effort"}),
        ("thinking", {"output_config": {"effort": "high"}}, {"output_config.effort"}),
        ("thinking", {"thinking": {"type": "enabled", "budget_tokens": 9}}, {"thinking.budget_tokens"}),
        ("reasoning_effort", {"output_config": {"effort": "extreme"}}, {"output_config.effort"}),
        (
            "reasoning_effort",
            {"thinking": {"type": "enabled", "budget_tokens": 9}, "output_config": {"effort": "high"}},
            {"thinking.budget_tokens"},
        ),
        (
            "reasoning_effort",
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
            {"output_config.effort"},
        ),
        (
            "thinking",
            {"thinking": {"type": "adaptive", "display": "omitted", "new": 1}},
            {"thinking.display", "thinking.new"},
        ),
    ],
)
def test_what_of_thinking_has_no_place(switch: str, fields: dict[str, Any], kinds: set[str]) -> None:
    assert lost(sent(ask(**fields), thinking=switch)).keys() == kinds


def test_disabled_thinking_wins_over_effort() -> None:
    fields = {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}
    assert sent(ask(**fields), thinking="reasoning_effort").body["reasoning_effort"] == "low"


def test_the_schema_of_the_answer() -> None:
    form = {"type": "json_schema", "schema": SCHEMA, "name": "mine"}
    wanted = {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA, "strict": True}}
    assert body(output_config={"format": form}) == {"response_format": wanted}
    assert lost(sent(ask(output_config={"format": form}))) == {"output_config.format.name": 1}
    both = ask(output_config={"format": form}, output_format={"type": "json_schema", "schema": {}})
    assert sent(both).body["response_format"] == wanted
    assert lost(sent(both)) == {"output_config.format.name": 1, "output_format": 1}


FORM = {"type": "json_schema", "schema": SCHEMA}


@pytest.mark.parametrize("choice", [None, {"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "run"}])
def test_a_schema_beside_tools_goes_where_it_would_keep_the_model_from_calling(choice: Any) -> None:
    """vLLM keeps the whole reply to the schema then; other servers take both."""
    for fields in ({"output_config": {"format": FORM}}, {"output_format": FORM}):
        given = ask(tools=[TOOL], tool_choice=choice, **fields)
        translation = sent(given, server_kind="vllm")
        assert translation.body["tools"] == [FUNCTION]
        assert "response_format" not in translation.body
        assert lost(translation) == {"output_config.format" if "output_config" in fields else "output_format": 1}
        assert "vLLM" in translation.dropped[0].why
        for server in ("", "sglang", "llamacpp"):
            assert "response_format" in sent(given, server_kind=server).body
            assert lost(sent(given, server_kind=server)) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tools": []},
        {"tools": [TOOL], "tool_choice": {"type": "none"}},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    ],
)
def test_a_schema_stays_where_nothing_can_be_called(fields: dict[str, Any]) -> None:
    translation = sent(ask(output_config={"format": FORM}, **fields), server_kind="vllm", server_tools="drop")
    body: dict[str, Any] = translation.body
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "output_config.format" not in lost(translation)


BEGUN = (user("hi"), assistant("The answer is ("))


@pytest.mark.parametrize(
    ("thinking", "kinds"),
    [
        (None, {}),
        ({"type": "disabled"}, {}),
        ({"type": "adaptive"}, {"thinking": 1}),
        ({"type": "enabled"}, {"thinking": 1}),
    ],
)
def test_llama_cpp_continues_an_answer_only_without_thinking(thinking: Any, kinds: dict[str, int]) -> None:
    """It refuses the request otherwise."""
    translation = sent(ask(*BEGUN, thinking=thinking, tools=[TOOL]), server_kind="llamacpp", thinking="enable_thinking")
    assert translation.body["chat_template_kwargs"] == {"enable_thinking": False}
    assert lost(translation) == kinds
    assert "add_generation_prompt" not in translation.body


@pytest.mark.parametrize(
    ("server", "switch", "out"),
    [
        ("vllm", "enable_thinking", {"enable_thinking": True}),
        ("", "enable_thinking", {"enable_thinking": True}),
        ("llamacpp", "reasoning_effort", None),
        ("llamacpp", "none", None),
        ("llamacpp", "", None),
    ],
)
def test_thinking_stays_on_elsewhere(server: str, switch: str, out: Any) -> None:
    body = sent(ask(*BEGUN, thinking={"type": "adaptive"}), server_kind=server, thinking=switch).body
    assert body.get("chat_template_kwargs") == out
    answered = ask(*BEGUN, user("go"), thinking={"type": "adaptive"})
    whole = sent(answered, server_kind="llamacpp", thinking="thinking").body
    assert whole["chat_template_kwargs"] == {"thinking": True}


def test_what_nobody_knows_goes_with_a_record() -> None:
    """New betas come every month."""
    translation = sent(ask(new_beta={"a": 1}, metadata={"user_id": "u", "team": "x"}, nothing=None))
    assert lost(translation) == {"new_beta": 1, "metadata.team": 1}
    assert "new_beta" not in translation.body


def test_what_needs_anthropics_servers_goes_if_the_rules_say_so() -> None:
    given = ask(container="c", mcp_servers=[{"name": "a"}])
    assert lost(sent(given, server_tools="drop")) == {"container": 1, "mcp_servers": 1}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": None}, "model: Field required"),
        ({"model": ""}, "model: may not be empty"),
        ({"model": 1}, "model: must be a string"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens: must be greater than or equal to 1"),
        ({"max_tokens": -1}, "max_tokens: must be greater than or equal to 1"),
        ({"max_tokens": "10"}, "max_tokens: must be a whole number"),
        ({"max_tokens": 1.5}, "max_tokens: must be a whole number"),
        ({"max_tokens": True}, "max_tokens: must be a whole number"),
        ({"stream": "true"}, "stream: must be true or false"),
        ({"temperature": "0"}, "temperature: must be a number"),
        ({"top_p": True}, "top_p: must be a number"),
        ({"top_k": 1.5}, "top_k: must be a whole number"),
        ({"stop_sequences": "a"}, "stop_sequences: must be a list"),
        ({"stop_sequences": ["a", 1]}, "stop_sequences.1: must be a string"),
        ({"metadata": "u"}, "metadata: must be an object"),
        ({"metadata": {"user_id": 1}}, "metadata.user_id: must be a string"),
        ({"thinking": True}, "thinking: must be an object"),
        ({"thinking": {}}, "thinking.type: Field required"),
        ({"thinking": {"type": "auto"}}, "thinking.type: 'auto' is none of enabled, adaptive, between_tools, disabled"),
        ({"thinking": {"type": "enabled", "budget_tokens": "9"}}, "thinking.budget_tokens: must be a whole number"),
        ({"output_config": []}, "output_config: must be an object"),
        ({"output_config": {"effort": 1}}, "output_config.effort: must be a string"),
        ({"output_config": {"format": {"type": "json"}}}, "output_config.format.type: 'json' is not json_schema"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema: Field required"),
        ({"output_format": {"schema": {}}}, "output_format.type: Field required"),
        ({"container": "c"}, "container: a container works only on Anthropic's own servers; leave it out"),
        ({"mcp_servers": [{}]}, "mcp_servers: calling MCP servers works only on Anthropic's own servers"),
        ({"thread": {"type": "create"}}, "thread: this server keeps no conversations"),
        ({"compaction": {"type": "summarize"}}, "compaction: this server summarises no conversations"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(fields: dict[str, Any], words: str) -> None:
    assert refusal(ask(**fields)).startswith(words)


def counted(given: dict[str, Any], **options: Any) -> Translation:
    return translate_count(given, ModelOptions(**{"model": MODEL, **options}))


def test_what_is_counted_is_what_would_be_sent() -> None:
    """F95: model, messages, tools and the template's switches; no limit is needed."""
    given = ask(
        *(user("hi"), assistant(call()), user(result())),
        **{"system": "s", "tools": [TOOL], "tool_choice": {"type": "any"}, "stream": True, "temperature": 1},
        thinking={"type": "disabled"},
    )
    whole = sent(given, thinking="enable_thinking", server_kind="vllm")
    del given["max_tokens"]
    found = counted(given, thinking="enable_thinking", server_kind="vllm")
    assert [*found.body] == ["model", "tools", "chat_template_kwargs", "messages"]
    assert found.body == {name: whole.body[name] for name in found.body}
    assert found.body["tools"] == [FUNCTION]
    assert sources_of(found) == sources_of(whole) == ("hi", "done")


def test_a_beginning_of_an_answer_is_counted_as_such() -> None:
    """Else the server would count the start of a new answer behind it."""
    found = counted(ask(*BEGUN), server_kind="vllm").body
    assert (found["continue_final_message"], found["add_generation_prompt"]) == (True, False)
    seen: list[bytes] = []

    def post(_: str, body: bytes) -> tuple[int, bytes]:
        seen.append(body)
        return 200, b'{"count":5}'

    assert count(post, found, {}) == (5, "tokenize")
    assert load_json(seen[0]) == found


def test_counting_refuses_what_a_request_would_be_refused_for() -> None:
    for wrong, words in (
        ({"messages": []}, "messages: at least one message"),
        ({"model": None}, "model: Field required"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0: the tool 'web_search'"),
        ({"container": "c"}, "container: "),
    ):
        with pytest.raises(BadRequest) as caught:
            counted(ask(**wrong) if "messages" not in wrong else {**ask(), **wrong})
        assert caught.value.message.startswith(words)


def test_counting_passes_over_a_wish_to_compact() -> None:
    """The API reference: count_tokens accepts it and ignores it."""
    found = counted(ask(compaction={"type": "summarize"}))
    assert found.body == {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    assert lost(found) == {"compaction": 1}


ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
ANY = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=3,
)
FIELDS = st.sampled_from(
    [
        *("system", "tools", "tool_choice", "stop_sequences", "stream", "metadata", "thinking", "output_config"),
        *("temperature", "top_p", "top_k", "container", "mcp_servers", "thread", "compaction", "output_format"),
        *("max_tokens", "model", "messages", "cache_control", "context_management"),
    ]
)
BLOCK_FIELDS = st.sampled_from(["text", "source", "content", "id", "name", "input", "tool_use_id", "thinking", "title"])
KINDS = st.sampled_from(["text", "image", "document", "tool_use", "tool_result", "thinking", "search_result", "x"])
BLOCKS = st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS, st.dictionaries(BLOCK_FIELDS, ANY, max_size=3))
ROLES = st.sampled_from(["user", "assistant", "system"])


@given(st.dictionaries(FIELDS, ANY, max_size=3))
def test_odd_fields_are_refused_or_carried_and_never_an_error_of_the_proxys(fields: dict[str, Any]) -> None:
    check_never_fails({**ask(), **fields})


@given(
    st.lists(
        st.builds(lambda role, blocks: {"role": role, "content": blocks}, ROLES, st.lists(BLOCKS, max_size=3)),
        max_size=3,
    )
)
def test_odd_blocks_are_refused_or_carried_and_never_an_error_of_the_proxys(given: list[Any]) -> None:
    check_never_fails({**ask(), "messages": given})


def check_never_fails(given: dict[str, Any]) -> None:
    """A translation, which is JSON, or a BadRequest."""
    try:
        translation = translate(given, OPTIONS)
    except BadRequest:
        return
    assert load_json(dump_request(translation.body)) == translation.body
    assert translation.body["messages"]


def test_a_message_of_text_blocks_alone_is_the_same_as_a_string() -> None:
    assert dump_request(sent(ask(user(text("hi")))).body) == dump_request(sent(ask(user("hi"))).body)
