"""docs/messages.md: it names every field and type that the pinned `anthropic` SDK has, and no others, and what it says
of those of a request is so (F94).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import anthropic.types as stable
import pytest
from anthropic.types import beta, message_create_params, raw_message_delta_event
from anthropic.types.beta import beta_raw_message_delta_event
from anthropic.types.beta import message_create_params as beta_create_params
from anthropic.types.document_block_param import Source as DocumentSource
from anthropic.types.image_block_param import Source as ImageSource
from anthropic.types.tool_result_block_param import Content as ResultContent
from pydantic import BaseModel
from typing_extensions import is_typeddict

from proxy.dialects.messages.signature import Signature
from tests.support.messages_ask import (
    FUNCTION,
    MODEL,
    PICTURE,
    PICTURE_PART,
    PIXEL,
    TOOL,
    ask,
    assistant,
    call,
    lost,
    refusal,
    result,
    sent,
    system,
    text,
    user,
)

GUIDE = (Path(__file__).parents[4] / "docs" / "messages.md").read_text("utf-8")
PARAMS = (
    message_create_params.MessageCreateParamsNonStreaming,
    message_create_params.MessageCreateParamsStreaming,
    beta_create_params.MessageCreateParamsNonStreaming,
    beta_create_params.MessageCreateParamsStreaming,
)
# The parts of the body whose own fields the table names too.
PARTS = ("metadata", "thinking", "output_config", "tool_choice")
DETAILED = {
    "Text, pictures and documents": ("text", "image", "document"),
    "Thinking and calls": ("thinking", "redacted_thinking", "tool_use", "tool_result"),
}
EVENTS = (stable.RawMessageStreamEvent, beta.BetaRawMessageStreamEvent)
DELTAS = (stable.RawContentBlockDelta, beta.BetaRawContentBlockDelta)
USAGES = (stable.Usage, beta.BetaUsage, stable.MessageDeltaUsage, beta.BetaMessageDeltaUsage)


def hints(kind: Any) -> dict[str, Any]:
    """The fields of a type of the SDK."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {entry.alias or name: entry.annotation for name, entry in kind.model_fields.items()}
    return get_type_hints(kind)


def structures(*annotations: Any) -> list[Any]:
    """The structures that an annotation is made of: members of unions, entries of lists."""
    found: list[Any] = []
    for annotation in annotations:
        if is_typeddict(annotation) or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            found.append(annotation)
        else:
            found += structures(*get_args(annotation))
    return found


def names(*annotations: Any) -> set[str]:
    """The names of all fields of the structures."""
    return {name for kind in structures(*annotations) for name in hints(kind)}


def literals(annotation: Any) -> set[str]:
    if get_origin(annotation) is Literal:
        return {*get_args(annotation)}
    return {word for inner in get_args(annotation) if inner is not NoneType for word in literals(inner)}


def types(*annotations: Any) -> set[str]:
    """The words for `type` of the structures."""
    return {word for kind in structures(*annotations) for word in literals(hints(kind).get("type"))}


def typed(word: str, *annotations: Any) -> list[Any]:
    """The structures of this type."""
    return [kind for kind in structures(*annotations) if word in literals(hints(kind).get("type"))]


def body_rows() -> set[str]:
    """The fields of the body, and those of its smaller parts."""
    found = {name for params in PARAMS for name in hints(params)}
    assert found >= {"max_tokens", "betas", "thread", "stream"}, "the SDK's types are not read as they should"
    for part in PARTS:
        annotations = [hints(params)[part] for params in PARAMS]
        found |= {f"{part}.{name}" for name in names(*annotations)}
    formats = [hints(kind)["format"] for params in PARAMS for kind in structures(hints(params)["output_config"])]
    return found | {f"output_config.format.{name}" for name in names(*formats)}


def block_annotations() -> list[Any]:
    """Wherever the SDK lists blocks of a request or of a reply."""
    system_ = [hints(kind)["content"] for kind in structures(beta.BetaMessageParam)]
    inner = [hints(kind)["content"] for kind in typed("content", DocumentSource)]
    responses = [stable.ContentBlock, beta.BetaContentBlock]
    results = [hints(kind)["content"] for kind in typed("tool_result", beta.BetaContentBlockParam)]
    params = [stable.ContentBlockParam, beta.BetaContentBlockParam, ResultContent]
    return [*params, *results, *system_, *inner, *responses]


def block_rows(words: tuple[str, ...]) -> set[str]:
    """The fields of these blocks of a request, and of the sources of pictures and documents."""
    params = [stable.ContentBlockParam, beta.BetaContentBlockParam]
    found = {f"{word}.{name}" for word in words for kind in typed(word, *params) for name in hints(kind)}
    for word, given in (("image", ImageSource), ("document", DocumentSource)):
        sources = [given, *(hints(kind)["source"] for kind in typed(word, *params))]
        for kind in structures(*sources) if word in words else ():
            found |= {f"{word}.source.{said}.{name}" for said in literals(hints(kind)["type"]) for name in hints(kind)}
    return found


def tools() -> list[Any]:
    return structures(*(hints(params)["tools"] for params in PARAMS))


def event_rows() -> set[str]:
    """The fields of the events, and of what the last one but one says of the end."""
    ends = (raw_message_delta_event.Delta, beta_raw_message_delta_event.Delta)
    return typed_rows(*EVENTS) | {f"message_delta.delta.{name}" for name in names(*ends)}


def typed_rows(*annotations: Any) -> set[str]:
    """The fields of structures, each behind its structure's type."""
    return {
        f"{word}.{name}"
        for kind in structures(*annotations)
        for word in literals(hints(kind)["type"])
        for name in hints(kind)
    }


DETAILED_TYPES = {word for words in DETAILED.values() for word in words}
REPLIED = [
    kind
    for word in ("text", "thinking", "redacted_thinking", "tool_use")
    for kind in typed(word, stable.ContentBlock, beta.BetaContentBlock)
]
SDK = {
    "Fields of the body": body_rows(),
    "Messages": names(stable.MessageParam, beta.BetaMessageParam),
    **{heading: block_rows(words) for heading, words in DETAILED.items()},
    "Other types of blocks": types(*block_annotations()) - DETAILED_TYPES,
    "A custom tool": {name for kind in tools() if "input_schema" in hints(kind) for name in hints(kind)},
    "Other types of tools": types(*(kind for kind in tools() if "input_schema" not in hints(kind))),
    "The message": names(stable.Message, beta.BetaMessage),
    "Usage": names(*USAGES),
    "Blocks": typed_rows(*REPLIED),
    "Events of a stream": event_rows(),
    "Deltas": typed_rows(*DELTAS),
}


def guide_rows() -> dict[str, dict[str, str]]:
    """The tables of the guide: by heading, each field or type and what becomes of it."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^#+ ", GUIDE, flags=re.MULTILINE)[1:]:
        heading = section.split("\n", 1)[0]
        pairs = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section, flags=re.MULTILINE)
        assert len({name for name, _ in pairs}) == len(pairs), f"{heading}: a row is there twice"
        if "what becomes of it" in section:
            found[heading] = dict(pairs)
    return found


GUIDE_ROWS = guide_rows()
EARLIER = "Earlier fields"


def test_the_guide_has_these_tables() -> None:
    assert GUIDE_ROWS.keys() == {*SDK, EARLIER}


@pytest.mark.parametrize("heading", SDK)
def test_each_field_of_the_sdk_has_a_row(heading: str) -> None:
    assert sorted(SDK[heading] - GUIDE_ROWS[heading].keys()) == [], f"docs/messages.md lacks them under {heading}"


@pytest.mark.parametrize("heading", SDK)
def test_each_row_is_a_field_of_the_sdk(heading: str) -> None:
    assert sorted(GUIDE_ROWS[heading].keys() - SDK[heading]) == [], f"under {heading}, the SDK has no such fields"


def test_earlier_fields_are_none_of_this_sdks() -> None:
    assert GUIDE_ROWS[EARLIER].keys() & SDK["Fields of the body"] == set()


@dataclass(frozen=True, slots=True)
class Carried:
    """The chat request holds this; `told`: with these options."""

    given: dict[str, Any]
    wanted: dict[str, Any]
    told: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        translation = sent(self.given, **self.told)
        found = {name: translation.body.get(name, "absent") for name in self.wanted}
        assert found == self.wanted
        assert lost(translation) == {}


@dataclass(frozen=True, slots=True)
class Dropped:
    """It goes with a record of this kind, and the chat request is that of `plain`."""

    given: dict[str, Any]
    plain: dict[str, Any]
    kind: str
    told: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        translation = sent(self.given, **self.told)
        assert translation.body == sent(self.plain, **self.told).body
        assert lost(translation) == {self.kind: 1}


@dataclass(frozen=True, slots=True)
class Refused:
    """The error says this."""

    given: dict[str, Any]
    words: str

    def check(self) -> None:
        assert self.words in refusal(self.given)


@dataclass(frozen=True, slots=True)
class ByRule:
    """Refused, or dropped if the rules say so."""

    given: dict[str, Any]
    plain: dict[str, Any]
    kind: str
    where: str

    def check(self) -> None:
        assert re.match(rf"{re.escape(self.where)}: .*`server_tools: drop`.*rules\.yaml", refusal(self.given))
        Dropped(self.given, self.plain, self.kind, {"server_tools": "drop"}).check()


Example = Carried | Dropped | Refused | ByRule
HI = ask()
SAID = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
FORMAT_OUT = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA, "strict": True}}
}
CHOSEN = {"type": "function", "function": {"name": "run"}}
EFFORT = {"thinking": "reasoning_effort"}
SWITCH = {"thinking": "enable_thinking"}
ON: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}}
CACHE = {"type": "ephemeral"}


def gone(name: str, value: Any) -> Dropped:
    """A field of the body that goes."""
    return Dropped(ask(**{name: value}), HI, name)


def by_rule(name: str, value: Any) -> ByRule:
    return ByRule(ask(**{name: value}), HI, name, name)


BODY: dict[str, Example] = {
    "model": Carried(HI, {"model": MODEL}),
    "max_tokens": Carried(ask(max_tokens=7), {"max_tokens": 7}),
    "messages": Carried(HI, {"messages": [SAID]}),
    "system": Carried(
        ask(system=[text("one"), text("two")]), {"messages": [{"role": "system", "content": "one\n\ntwo"}, SAID]}
    ),
    "tools": Carried(ask(tools=[TOOL]), {"tools": [FUNCTION], "tool_choice": "absent"}),
    "tool_choice": Carried(ask(tools=[TOOL], tool_choice={"type": "auto"}), {"tool_choice": "auto"}),
    "tool_choice.type": Carried(ask(tools=[TOOL], tool_choice={"type": "any"}), {"tool_choice": "required"}),
    "tool_choice.name": Carried(
        ask(tools=[TOOL], tool_choice={"type": "tool", "name": "run"}), {"tool_choice": CHOSEN}
    ),
    "tool_choice.disable_parallel_tool_use": Carried(
        ask(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
        {"tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "stop_sequences": Carried(ask(stop_sequences=["END"]), {"stop": ["END"]}),
    "stream": Carried(
        ask(stream=True),
        {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        {"server_kind": "vllm"},
    ),
    "metadata": Carried(ask(metadata={"user_id": "me"}), {"user": "me"}),
    "metadata.user_id": Carried(ask(metadata={"user_id": "me"}), {"user": "me"}),
    "thinking": Carried(ask(thinking={"type": "adaptive"}), ON, SWITCH),
    "thinking.type": Carried(
        ask(thinking={"type": "disabled"}), {"chat_template_kwargs": {"enable_thinking": False}}, SWITCH
    ),
    "thinking.budget_tokens": Carried(
        ask(thinking={"type": "enabled", "budget_tokens": 4097}), {"reasoning_effort": "medium"}, EFFORT
    ),
    "thinking.display": Dropped(
        ask(thinking={"type": "adaptive", "display": "omitted"}),
        ask(thinking={"type": "adaptive"}),
        "thinking.display",
        SWITCH,
    ),
    "thinking.block_binding": Dropped(
        ask(thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}),
        ask(thinking={"type": "adaptive"}),
        "thinking.block_binding",
        SWITCH,
    ),
    "output_config": Carried(ask(output_config={"format": FORMAT}), FORMAT_OUT),
    "output_config.effort": Carried(ask(output_config={"effort": "max"}), {"reasoning_effort": "high"}, EFFORT),
    "output_config.format": Carried(ask(output_config={"format": FORMAT}), FORMAT_OUT),
    "output_config.format.type": Carried(ask(output_config={"format": FORMAT}), FORMAT_OUT),
    "output_config.format.schema": Carried(ask(output_config={"format": FORMAT}), FORMAT_OUT),
    "output_config.task_budget": Dropped(
        ask(output_config={"task_budget": {"type": "tokens", "total": 9}}), HI, "output_config.task_budget"
    ),
    "cache_control": gone("cache_control", CACHE),
    "context_management": gone("context_management", {"edits": [{"type": "clear_tool_uses_20250919"}]}),
    "container": by_rule("container", "container_1"),
    "mcp_servers": by_rule("mcp_servers", [{"type": "url", "name": "a", "url": "https://a.example"}]),
    "thread": Refused(ask(thread={"type": "create"}), "thread: this server keeps no conversations"),
    "compaction": Refused(ask(compaction={"type": "summarize"}), "compaction: this server summarises no"),
    "fallbacks": gone("fallbacks", [{"model": "other"}]),
    "fallback_credit_token": gone("fallback_credit_token", "token"),
    "billing_policy": gone("billing_policy", {"type": "billing_policy", "bill_to": "self"}),
    "diagnostics": gone("diagnostics", {"previous_message_id": "msg_1"}),
    "inference_geo": gone("inference_geo", "us"),
    "service_tier": gone("service_tier", "auto"),
    "speed": gone("speed", "fast"),
    "betas": gone("betas", ["a-beta"]),
    "user_profile_id": gone("user_profile_id", "profile"),
    "workspace_id": gone("workspace_id", "space"),
}
EARLIER_EXAMPLES: dict[str, Example] = {
    "temperature": Carried(ask(temperature=0.5), {"temperature": 0.5}),
    "top_p": Carried(ask(top_p=0.9), {"top_p": 0.9}),
    "top_k": Carried(ask(top_k=40), {"top_k": 40}),
    "output_format": Carried(ask(output_format=FORMAT), FORMAT_OUT),
}
REMINDER = "<system-reminder>\nnow\n</system-reminder>"
MESSAGES: dict[str, Example] = {
    "role": Carried(
        ask(user("hi"), system("now"), assistant("ok"), user("go")),
        {
            "messages": [
                {"role": "user", "content": f"hi\n\n{REMINDER}"},
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": "go"},
            ]
        },
    ),
    "content": Carried(ask(user("hi")), {"messages": [SAID]}),
    "clear_at": Carried(
        ask(user("hi"), system("old", clear_at="next_user_message"), assistant("ok"), user("go")),
        {"messages": [SAID, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go"}]},
    ),
    "output_config": Dropped(
        ask(user("hi"), system("now", output_config={"effort": "low"})),
        ask(user("hi"), system("now")),
        "messages[].output_config",
    ),
}


def said(*blocks: Any, out: Any) -> Carried:
    """Blocks of a user's, and the content that they become."""
    return Carried(ask(user(*blocks)), {"messages": [{"role": "user", "content": out}]})


def less(block: dict[str, Any], name: str, value: Any, **told: Any) -> Dropped:
    """A field of a block that goes."""
    kind = f"messages[].content[].{name}"
    return Dropped(ask(user({**block, name: value})), ask(user(block)), kind, told)


def from_source(kind: str, **source: Any) -> dict[str, Any]:
    return {"type": kind, "source": source}


URL_PICTURE = from_source("image", type="url", url="https://a.example/b.png")
URL_PART = [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]
FILE_PICTURE = Refused(ask(user(from_source("image", type="file", file_id="file_1"))), "messages.0.content.0.source: ")
PLAIN = from_source("document", type="text", media_type="text/plain", data="all of it")
NESTED = from_source("document", type="content", content=[text("look"), PICTURE])
PDF = from_source("document", type="base64", media_type="application/pdf", data="JVBERg==")


def pdf_part(name: str) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": "data:application/pdf;base64,JVBERg=="}}


NESTED_OUT = said(NESTED, out=[text("look"), PICTURE_PART])
PDF_OUT = said(PDF, out=[pdf_part("document.pdf")])
URL_PDF = Refused(
    ask(user(from_source("document", type="url", url="https://a.example/b.pdf"))),
    "messages.0.content.0.source: no chat server reads a document from a URL",
)
FILE_PDF = Refused(ask(user(from_source("document", type="file", file_id="file_1"))), "there is no Files API")
DOCUMENTS: dict[str, Example] = {
    "text.type": said(text("a"), PICTURE, out=[text("a"), PICTURE_PART]),
    "text.text": said(text("a"), text(""), text("b"), out="a\n\nb"),
    "text.cache_control": less(text("a"), "cache_control", CACHE),
    "text.citations": less(text("a"), "citations", [{"type": "char_location"}]),
    "image.type": said(PICTURE, out=[PICTURE_PART]),
    "image.source": said(PICTURE, out=[PICTURE_PART]),
    "image.source.base64.type": said(PICTURE, out=[PICTURE_PART]),
    "image.source.base64.media_type": said(
        from_source("image", type="base64", media_type="image/webp", data=PIXEL),
        out=[{"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{PIXEL}"}}],
    ),
    "image.source.base64.data": said(PICTURE, out=[PICTURE_PART]),
    "image.source.url.type": said(URL_PICTURE, out=URL_PART),
    "image.source.url.url": said(URL_PICTURE, out=URL_PART),
    "image.source.file.type": FILE_PICTURE,
    "image.source.file.file_id": FILE_PICTURE,
    "image.cache_control": less(PICTURE, "cache_control", CACHE),
    "image.transformations": less(PICTURE, "transformations", {"oversized_image": "error"}),
    "document.type": PDF_OUT,
    "document.source": said(PLAIN, out="all of it"),
    "document.source.text.type": said(PLAIN, out="all of it"),
    "document.source.text.media_type": said(PLAIN, out="all of it"),
    "document.source.text.data": said(PLAIN, out="all of it"),
    "document.source.content.type": NESTED_OUT,
    "document.source.content.content": NESTED_OUT,
    "document.source.base64.type": PDF_OUT,
    "document.source.base64.media_type": PDF_OUT,
    "document.source.base64.data": PDF_OUT,
    "document.source.url.type": URL_PDF,
    "document.source.url.url": URL_PDF,
    "document.source.file.type": FILE_PDF,
    "document.source.file.file_id": FILE_PDF,
    "document.title": said({**PDF, "title": "A"}, out=[text("Title: A"), pdf_part("A")]),
    "document.context": said({**PLAIN, "context": "from B"}, out="Context: from B\n\nall of it"),
    "document.cache_control": less(PLAIN, "cache_control", CACHE),
    "document.citations": less(PLAIN, "citations", {"enabled": True}),
}
_SIGNATURE = Signature()
_SIGNATURE.add("hm")
SIGNED = {"type": "thinking", "thinking": "hm", "signature": _SIGNATURE.sign("reasoning")}
UNSIGNED = {"type": "thinking", "thinking": "hm"}
BACK = {"reasoning_history": "reasoning_content"}
HIDDEN = Dropped(
    ask(user("hi"), assistant({"type": "redacted_thinking", "data": "x"}, text("a")), user("b")),
    ask(user("hi"), assistant("a"), user("b")),
    "messages[].content[] of type redacted_thinking",
)
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "run", "arguments": '{"x":1}'}}],
}
ANSWERED = {"role": "tool", "tool_call_id": "1", "content": "done"}


def turn(used: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return ask(user("hi"), assistant(used), user(answer))


CALL_OUT = Carried(turn(call(), result()), {"messages": [SAID, CALLED, ANSWERED]})
FAILED = {**ANSWERED, "content": "Error: no"}
THOUGHT_OUT = Carried(
    ask(user("hi"), assistant(UNSIGNED, text("a")), user("b")),
    {
        "messages": [
            SAID,
            {"role": "assistant", "content": "a", "reasoning_content": "hm"},
            {"role": "user", "content": "b"},
        ]
    },
    BACK,
)


def call_less(name: str, value: Any) -> Dropped:
    kind = f"messages[].content[].{name}"
    return Dropped(turn(call(**{name: value}), result()), turn(call(), result()), kind)


def result_less(name: str, value: Any) -> Dropped:
    kind = f"messages[].content[].{name}"
    return Dropped(turn(call(), result(**{name: value})), turn(call(), result()), kind)


CALLS: dict[str, Example] = {
    "thinking.type": THOUGHT_OUT,
    "thinking.thinking": THOUGHT_OUT,
    "thinking.signature": Carried(
        ask(user("hi"), assistant(SIGNED, text("a")), user("b")),
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "a", "reasoning": "hm"},
                {"role": "user", "content": "b"},
            ]
        },
        {"reasoning_history": "reasoning_content"},
    ),
    "redacted_thinking.type": HIDDEN,
    "redacted_thinking.data": HIDDEN,
    "tool_use.type": CALL_OUT,
    "tool_use.id": CALL_OUT,
    "tool_use.name": CALL_OUT,
    "tool_use.input": CALL_OUT,
    "tool_use.cache_control": call_less("cache_control", CACHE),
    "tool_use.caller": call_less("caller", {"type": "direct"}),
    "tool_use.toolset_name": call_less("toolset_name", "browser"),
    "tool_result.type": CALL_OUT,
    "tool_result.tool_use_id": CALL_OUT,
    "tool_result.content": CALL_OUT,
    "tool_result.is_error": Carried(turn(call(), result("no", is_error=True)), {"messages": [SAID, CALLED, FAILED]}),
    "tool_result.cache_control": result_less("cache_control", CACHE),
    "tool_result.toolset_name": result_less("toolset_name", "browser"),
}
FALLBACK = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
FOUND = {"type": "search_result", "title": "A", "source": "https://a.example", "content": [text("b"), text("c")]}
AVAILABLE = {**ANSWERED, "content": "The tool grep is available."}


def foreign_block(word: str) -> ByRule:
    """A block of Anthropic's own servers, where it may stand."""
    block = {"type": word}
    kind = f"messages[].content[] of type {word}"
    if word in ("tool_addition", "tool_removal"):
        plain = ask(user("hi"), system(text("now")))
        return ByRule(ask(user("hi"), system(block, text("now"))), plain, kind, "messages.1.content.0")
    if word == "browser_state":
        kind = f"messages[].content[].content[] of type {word}"
        given, plain = (turn(call(), result([*extra, text("done")])) for extra in ([block], []))
        return ByRule(given, plain, kind, "messages.2.content.0.content.0")
    plain = ask(user("hi"), assistant("a"), user("b"))
    return ByRule(ask(user("hi"), assistant(block, text("a")), user("b")), plain, kind, "messages.1.content.0")


BLOCKS: dict[str, Example] = {
    "search_result": said(FOUND, out="A\nhttps://a.example\n\nb\n\nc"),
    "tool_reference": Carried(
        turn(call(), result([{"type": "tool_reference", "tool_name": "grep"}])),
        {"messages": [SAID, CALLED, AVAILABLE]},
    ),
    "fallback": Dropped(
        ask(user("hi"), assistant(FALLBACK, text("a")), user("b")),
        ask(user("hi"), assistant("a"), user("b")),
        "messages[].content[] of type fallback",
    ),
    **{
        word: foreign_block(word)
        for word in SDK["Other types of blocks"] - {"search_result", "tool_reference", "fallback"}
    },
}


def tool_says(out: dict[str, Any], **fields: Any) -> Carried:
    wanted = {"type": "function", "function": {**FUNCTION["function"], **out}}
    return Carried(ask(tools=[{**TOOL, **fields}]), {"tools": [wanted]})


def tool_less(name: str, value: Any) -> Dropped:
    return Dropped(ask(tools=[{**TOOL, name: value}]), ask(tools=[TOOL]), f"tools[].{name}")


CUSTOM: dict[str, Example] = {
    "type": tool_says({}, type="custom"),
    "name": tool_says({"name": "mcp__a-b"}, name="mcp__a-b"),
    "description": tool_says({"description": "runs"}, description="runs"),
    "input_schema": tool_says({"parameters": {"$schema": "x", **SCHEMA}}, input_schema={"$schema": "x", **SCHEMA}),
    "strict": tool_says({"strict": True}, strict=True),
    "cache_control": tool_less("cache_control", CACHE),
    "defer_loading": tool_less("defer_loading", True),
    "allowed_callers": tool_less("allowed_callers", ["direct"]),
    "input_examples": tool_less("input_examples", [{"x": 1}]),
    "eager_input_streaming": tool_less("eager_input_streaming", True),
}
TOOLS: dict[str, Example] = {
    word: ByRule(
        ask(tools=[TOOL, {"type": word, "name": "theirs"}]), ask(tools=[TOOL]), f"tools[] of type '{word}'", "tools.1"
    )
    for word in SDK["Other types of tools"]
}
EXAMPLES: dict[str, dict[str, Example]] = {
    "Fields of the body": BODY,
    EARLIER: EARLIER_EXAMPLES,
    "Messages": MESSAGES,
    "Text, pictures and documents": DOCUMENTS,
    "Thinking and calls": CALLS,
    "Other types of blocks": BLOCKS,
    "A custom tool": CUSTOM,
    "Other types of tools": TOOLS,
}
REQUEST_ROWS = [(heading, row) for heading in EXAMPLES for row in GUIDE_ROWS[heading]]
BEGINNINGS = {"dropped:": Dropped, "refused:": Refused, "by `server_tools`:": ByRule}


def test_the_request_half_is_all_of_the_guides_first_part() -> None:
    """The tables that have examples are those above the response."""
    assert [heading for heading in GUIDE_ROWS if GUIDE.index(f"# {heading}\n") < GUIDE.index("## Response")] == [
        *sorted(EXAMPLES, key=[*GUIDE_ROWS].index)
    ]


@pytest.mark.parametrize(("heading", "row"), REQUEST_ROWS, ids=lambda word: word)
def test_each_row_of_the_request_is_so(heading: str, row: str) -> None:
    """A row without an example fails, and so does an example of another outcome than the row's."""
    example = EXAMPLES[heading][row]
    outcome = GUIDE_ROWS[heading][row]
    expected = next((kind for word, kind in BEGINNINGS.items() if outcome.startswith(word)), Carried)
    assert type(example) is expected, outcome
    assert f'"{row.rsplit(".", 1)[-1]}"' in json.dumps(example.given), "the example has not what it is of"
    example.check()


def test_no_example_is_of_something_else() -> None:
    assert {heading: rows.keys() for heading, rows in EXAMPLES.items()} == {
        heading: GUIDE_ROWS[heading].keys() for heading in EXAMPLES
    }
