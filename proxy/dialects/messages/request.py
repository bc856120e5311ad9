"""Translation of Messages requests (Anthropic) to chat completions.

A field that cannot be translated is dropped with an audit record, or rejected if it changes the meaning of the request.

Source: the Anthropic API reference, "Create a Message", "Count tokens in a Message"; OpenAI's, "Chat Completions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.dialects.messages.ids import server_id, signed_field
from proxy.dialects.translation import (
    OWN_WORDS,
    AssistantTurn,
    Lost,
    ModelOptions,
    Name,
    Number,
    Object,
    Part,
    Translator,
    bad,
    inner_json,
    kind_of,
    present,
    shown,
)
from proxy.errors import NoThreads
from proxy.json import Json, JsonObject
from proxy.repair.record import Repair

# Known fields of the body that are dropped. Unknown ones are also logged.
_IGNORED = frozenset(
    (
        "cache_control",
        "context_management",
        "diagnostics",
        "fallbacks",
        "fallback_credit_token",
        "billing_policy",
        "inference_geo",
        "service_tier",
        "speed",
        "betas",
        "user_profile_id",
        "workspace_id",
    )
)
_DROPPED_BLOCKS = {
    "fallback": "it is not part of the prompt",
    "redacted_thinking": "only Anthropic's own servers can read it",
}
# Blocks that only Anthropic's servers write or read.
SERVER_BLOCKS = frozenset(
    (
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "advisor_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "container_upload",
        "compaction",
        "tool_addition",
        "tool_removal",
        "browser_state",
    )
)
# Claude Code's accounting line, which changes with each request and would invalidate the prefix cache (F95).
_BILLING = re.compile(r"x-anthropic-billing-header:[^\n]*\n*")
# The start of a text that already reports a failure.
_FAILED = re.compile(r"\s*(?:error(?:[:\s]|\Z)|<tool_use_error>)", re.IGNORECASE)
_CHOICES: JsonObject = {"auto": "auto", "any": "required", "none": "none"}
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


class Text(Struct):
    text: str


class Base64(Struct, tag_field="type", tag="base64"):
    media_type: Name
    data: Name


class Url(Struct, tag_field="type", tag="url"):
    url: Name


class PlainText(Struct, tag_field="type", tag="text"):
    data: Name
    media_type: str | None = None


class Inner(Struct, tag_field="type", tag="content"):
    content: str | list[Object]


class Image(Struct):
    source: Base64 | Url


class Document(Struct):
    source: Base64 | PlainText | Inner
    title: str | None = None
    context: str | None = None


class SearchResult(Struct):
    title: str
    source: str
    content: list[Object]


class ToolReference(Struct):
    tool_name: Name


class ToolResult(Struct):
    tool_use_id: Name
    content: str | list[Object] | None = None
    is_error: bool | None = None


class ToolUse(Struct):
    id: Name
    name: Name
    input: Object | None = None


class Thinking(Struct):
    thinking: str
    signature: Any = None


_BLOCKS: dict[str, type[Struct]] = {
    "text": Text,
    "image": Image,
    "document": Document,
    "search_result": SearchResult,
    "tool_reference": ToolReference,
    "tool_result": ToolResult,
    "tool_use": ToolUse,
    "thinking": Thinking,
}
# The blocks that content may have.
_IN_USER = ("text", "image", "document", "search_result", "tool_result")
_IN_RESULT = ("text", "image", "document", "search_result", "tool_reference")
_IN_ANSWER = ("text", "thinking", "tool_use")


class Message(Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[Object] | None = None
    clear_at: Any = None


class Tool(Struct):
    name: Name
    input_schema: Object
    description: str | None = None
    strict: bool | None = None


class ToolChoice(Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: Name | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingConfig(Struct):
    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: int | None = None


class Format(Struct):
    type: Literal["json_schema"]
    schema: Object


class OutputConfig(Struct):
    format: Format | None = None
    effort: str | None = None


class Metadata(Struct):
    user_id: str | None = None


class Request(Struct):
    model: Name
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)]
    system: str | list[Object] | None = None
    tools: list[Object] | None = None
    tool_choice: ToolChoice | None = None
    stop_sequences: list[str] | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: int | None = None
    metadata: Metadata | None = None
    stream: bool | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: Format | None = None
    container: Any = None
    mcp_servers: Any = None
    thread: Any = None
    compaction: Any = None


@dataclass(frozen=True, slots=True)
class Translation:
    """The chat request. `messages` is the last key of the body, so that turn n+1 starts with turn n (C8).

    `dropped`: one audit record per kind of dropped field. `prefill`: the client's start of the answer, which llama.cpp
    repeats in whole answers. `json_reply`: the client asked for JSON, even if this is not sent to the server (C3).
    """

    body: JsonObject
    dropped: tuple[Repair, ...]
    prefill: str = ""
    json_reply: bool = False
    stop_sequences: frozenset[str] = frozenset()


def translate(body: JsonObject, options: ModelOptions) -> Translation:
    """Return the chat request for a Messages request. Raises BadRequest with the place of the error."""
    return _MessagesTranslator(body, options).translated()


def translate_count(body: JsonObject, options: ModelOptions) -> Translation:
    """Return the chat request whose prompt is counted. Limits of the answer do not matter."""
    return translate({**body, "max_tokens": 1, "compaction": None}, options)


class _MessagesTranslator(Translator):
    def __init__(self, body: JsonObject, options: ModelOptions) -> None:
        super().__init__(options, Lost(drops=options.server_tools == "drop", owner="Anthropic"))
        self.request = self.lost.read(body, Request, ignored=_IGNORED)

    def translated(self) -> Translation:
        request, options, lost = self.request, self.options, self.lost
        if request.compaction:
            raise bad("compaction", "this server does not summarize conversations; let the client do it")
        for name in ("container", "mcp_servers"):
            if getattr(request, name):
                lost.server_only(name, "this field")
        if request.thread:
            raise NoThreads("thread: this server keeps no conversations; send all messages each time")
        messages, prefill = self.conversation()
        body = self.begun(
            request.max_tokens,
            request.stream,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            stop=[*request.stop_sequences] if request.stop_sequences else None,
            user=(request.metadata and request.metadata.user_id) or None,
        )
        if request.stream and options.server_kind == "vllm":
            # With this option, vLLM reports token counts from the start of the stream.
            body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        body |= self.thinking()
        form = (request.output_config and request.output_config.format) or request.output_format
        if form:
            if form is not request.output_format and request.output_format:
                lost.add("output_format", "output_config.format replaces it")
            schema: JsonObject = {"name": "output", "schema": form.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        body |= self.tools()
        self.let_call(body, "output_format" if form is request.output_format else "output_config.format")
        body |= self.continued(prefill)
        body["messages"] = messages
        return Translation(body, lost.records(), prefill, form is not None, frozenset(request.stop_sequences or ()))

    # The conversation.

    def conversation(self) -> tuple[list[Json], str]:
        """Return the chat messages and the start of the answer. Consecutive messages of one side are one turn."""
        messages = self.request.messages
        system = self.system(self.request.system, "system")
        roles = [message.role for message in messages]
        at_top = 0
        if not system and roles[0] == "system" and "user" in takewhile(lambda role: role != "assistant", roles):
            # The server has read nothing before it, so it can be the system message.
            at_top, system = 1, self.reminder(messages[0], 0, over=True)
        last_user = max((at for at, role in enumerate(roles) if role == "user"), default=-1)
        for at, message in enumerate(messages[at_top:], at_top):
            if message.role == "assistant":
                self.answer(message, f"messages.{at}.content")
            elif message.role == "user":
                self.say(message, f"messages.{at}.content")
            else:
                self.remind(self.reminder(message, at, over=at < last_user))
        if self.empty:
            raise bad("messages", "they have no content")
        last = self.turns[-1]
        prefill = last.text if isinstance(last, AssistantTurn) and not last.calls else ""
        return self.messages(system), prefill

    def blocks(self, content: Any, where: str, takes: tuple[str, ...]) -> Iterator[tuple[Any, str]]:
        """Return the blocks of a content with their places, without blocks that have no content for a model."""
        if content is None:
            raise bad(where, "Field required")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for at, block in enumerate(content):
            here = f"{where}.{at}"
            kind = kind_of(block, here)
            if kind in _DROPPED_BLOCKS:
                self.lost.add(f"{here} of type {kind}", _DROPPED_BLOCKS[kind])
            elif kind in SERVER_BLOCKS:
                self.lost.server_only(here, f"a block of type {kind}", kind)
            elif kind in takes:
                yield self.lost.read(block, _BLOCKS[kind], here), here
            else:
                raise bad(f"{here}.type", f"{shown(kind)} is not allowed here; use {', '.join(takes)}")

    def system(self, content: Any, where: str) -> str:
        """Return the instructions as one text, without Claude Code's accounting line."""
        texts: list[str] = []
        for block, _ in self.blocks(content or "", where, ("text",)):
            text = block.text
            if line := _BILLING.match(text):
                self.lost.add("x-anthropic-billing-header", "it changes each time, and would break the prefix cache")
                text = text[line.end() :]
            texts.append(text)
        return "\n\n".join(filter(None, texts))

    def reminder(self, message: Message, at: int, *, over: bool) -> str:
        """Return the text of a system message; "" if it was meant for one turn only, which is over."""
        if over and message.clear_at == "next_user_message":
            return ""
        return self.system(message.content, f"messages.{at}.content")

    def say(self, message: Message, where: str) -> None:
        """Add a user's message to its turn: results, text, pictures and documents."""
        turn = self.user
        for block, here in self.blocks(message.content, where, _IN_USER):
            if isinstance(block, ToolResult):
                turn.add_result(server_id(block.tool_use_id), self.result(block, f"{here}.content"))
            else:
                turn.parts += self.parts(block, here)

    def result(self, block: ToolResult, where: str) -> list[Part]:
        """Return the content of a result. An error result says so in its text: a tool message has no field for it."""
        inner = self.blocks(block.content or [], where, _IN_RESULT)
        parts = [part for each, here in inner for part in self.parts(each, here)]
        text = "\n\n".join(part for part in parts if isinstance(part, str))
        if not block.is_error or _FAILED.match(text):
            return parts
        return [f"Error: {text}" if text else "Error", *(part for part in parts if not isinstance(part, str))]

    def parts(self, block: Any, where: str) -> list[Part]:
        """Return a block as content parts."""
        match block:
            case Text(text=text):
                return [text] if text else []
            case ToolReference(tool_name=name):
                return [f"The tool {name} is available."]
            case SearchResult():
                texts = [inner.text for inner, _ in self.blocks(block.content, f"{where}.content", ("text",))]
                return ["\n\n".join((f"{block.title}\n{block.source}", *texts))]
            case Image(source=Url(url=url)):
                if not url.lower().startswith(("http://", "https://")):
                    words = "must begin with http:// or https://; send other pictures as base64"
                    raise bad(f"{where}.source.url", words)
                return [{"type": "image_url", "image_url": {"url": url}}]
            case Image(source=Base64() as source):
                return [{"type": "image_url", "image_url": {"url": _data_url(source, where, "image/")}}]
        return self.document(block, where)

    def document(self, block: Document, where: str) -> list[Part]:
        """Return a document's title and context as text, then its content."""
        head = [f"{name}: {text}" for name, text in (("Title", block.title), ("Context", block.context)) if text]
        parts: list[Part] = ["\n".join(head)] if head else []
        match block.source:
            case PlainText(data=data):
                parts.append(data)
            case Inner(content=content):
                for inner, here in self.blocks(content, f"{where}.source.content", ("text", "image")):
                    parts += self.parts(inner, here)
            case Base64() as source:
                data = _data_url(source, where, "application/pdf")
                parts.append({"type": "file", "file": {"filename": block.title or "document.pdf", "file_data": data}})
        return parts

    def answer(self, message: Message, where: str) -> None:
        """Add an assistant's message to its turn: text, calls (F79, F80), and reasoning if it is sent back.

        Consecutive texts are one paragraph.
        """
        turn, paragraph = self.assistant, list[str]()
        for block, here in self.blocks(message.content, where, _IN_ANSWER):
            match block:
                case Text(text=text):
                    if text and not paragraph:
                        turn.texts.append(paragraph)
                    paragraph += [text] if text else []
                    continue
                case ToolUse():
                    turn.add_call(server_id(block.id), block.name, inner_json(block.input or {}, f"{here}.input"))
                case Thinking():
                    self.reasoning(turn, block, here)
            paragraph = []

    def reasoning(self, turn: AssistantTurn, block: Thinking, where: str) -> None:
        signed = signed_field(block.signature)
        if self.options.reasoning_history == "drop" or not (self.options.reasoning_history or signed):
            self.lost.add(f"{where} of type thinking", "the rules name no field for it")
        elif block.thinking:
            turn.thoughts.append(block.thinking)
            turn.thought_field = turn.thought_field or signed

    # The other fields.

    def thinking(self) -> JsonObject:
        """Return the fields that switch the model's reasoning, as the rules configure it.

        `{"type": "enabled", "budget_tokens": 4096}` is `{"chat_template_kwargs": {"enable_thinking": true}}` or
        `{"reasoning_effort": "low"}`.
        """
        thinking, switch, lost = self.request.thinking, self.options.thinking, self.lost
        takes_effort = switch in ("reasoning_effort", OWN_WORDS)
        effort = (self.request.output_config and self.request.output_config.effort) or ""
        if effort and not (takes_effort and effort in _EFFORTS):
            lost.add("output_config.effort", "the model does not support this effort")
            effort = ""
        wish: JsonObject = {}
        if thinking is not None and switch in ("", "none"):
            lost.add("thinking", "the rules name no switch for the model's reasoning")
        elif thinking is not None:
            wish["enable_thinking"] = on = thinking.type != "disabled"
            budget = thinking.budget_tokens
            if budget is not None and takes_effort and thinking.type == "enabled" and not effort:
                effort = "low" if budget <= 4096 else "medium" if budget <= 16384 else "high"
            elif budget is not None:
                lost.add("thinking.budget_tokens", "the model's switch does not accept a budget")
            if effort and not on:
                lost.add("output_config.effort", "thinking is disabled")
        if effort:
            wish["reasoning_effort"] = effort
        return self.in_words_of_rules(wish)

    def tools(self) -> JsonObject:
        """Return `tools`, `tool_choice` and `parallel_tool_calls`."""
        tools: list[Json] = []
        names: set[str] = set()
        for at, value in enumerate(self.request.tools or ()):
            here = f"tools.{at}"
            if value.get("type") in (None, "custom"):
                tool = self.lost.read(value, Tool, here)
                given = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
                tools.append({"type": "function", "function": present({**given, "strict": tool.strict})})
                names.add(tool.name)
                continue
            kind = kind_of(value, here)
            self.lost.server_only(here, f"the tool of type {shown(kind)}", shown(kind))
        fields: JsonObject = {"tools": tools} if tools else {}
        choice = self.request.tool_choice
        if choice is None:
            return fields
        wanted = _CHOICES.get(choice.type)
        if choice.type == "tool":
            if choice.name is None:
                raise bad("tool_choice.name", "Field required")
            if choice.name not in names:
                words = f"{shown(choice.name)} is not one of the tools that the model gets; name another one"
                raise bad("tool_choice.name", words)
            wanted = {"type": "function", "function": {"name": choice.name}}
        if not tools:
            self.lost.add("tool_choice", "there are no tools to choose from")
            return {}
        fields["tool_choice"] = wanted
        if choice.disable_parallel_tool_use:
            fields["parallel_tool_calls"] = False
        return fields

    def continued(self, prefill: str) -> JsonObject:
        """Return the fields that make the server continue the last message; other servers treat it as an earlier
        answer.

        llama.cpp always continues it, but refuses to while reasoning is on.
        """
        kind, switch = self.options.server_kind, self.options.thinking
        if prefill and kind in ("vllm", "sglang"):
            return {"continue_final_message": True, "add_generation_prompt": False}
        if not prefill or kind != "llamacpp" or switch in ("", "none", "reasoning_effort"):
            return {}
        if self.request.thinking and self.request.thinking.type != "disabled":
            self.lost.add("thinking", "llama.cpp cannot continue an answer while reasoning is on")
        return self.in_words_of_rules({"enable_thinking": False})


def _data_url(source: Base64, where: str, expected: str) -> str:
    if not source.media_type.startswith(expected):
        raise bad(f"{where}.source.media_type", f"{shown(source.media_type)} is not {expected}")
    return f"data:{source.media_type};base64,{source.data}"
