"""Translation of Responses requests (OpenAI) to chat completions.

A field that cannot be translated is dropped with an audit record, or rejected if it changes the meaning of the request.

Source: OpenAI's API reference, "Create a model response", "Get input token counts", "Chat Completions". Items that only
Codex sends are taken from its requests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.dialects.responses.tools import INPUT, SEARCH, OfferedTools, tool_names
from proxy.dialects.translation import (
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
from proxy.healing.results import ORPHAN
from proxy.json import Json, JsonObject, dump_inner, is_object_text
from proxy.repair.record import Repair

# Known fields of the body that are dropped. Unknown ones are also logged.
_IGNORED = frozenset(
    (
        "include",
        "service_tier",
        "access_programs",
        "background_options",
        "context_management",
        "image",
        "max_tool_calls",
        "moderation",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "stream_options",
        "top_logprobs",
        "truncation",
        "client_metadata",
    )
)
_HOSTED_ITEMS = frozenset(
    (
        "file_search_call",
        "computer_call",
        "computer_call_output",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "program",
        "program_output",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
    )
)
_DROPPED_ITEMS = {
    "configuration_update": "the request's own fields contain it",
    "web_search_call": "it does not contain the search results",
}
NO_COMPACTION = (
    "this server cannot write compactions; let the client compact by an ordinary request "
    "(Codex: give its provider another name than OpenAI)"
)
_NO_SUMMARY = "only the server that wrote it can read it; send the conversation itself"
_REFUSED_ITEMS = {
    "item_reference": "this server keeps no responses; send the item itself",
    "compaction_trigger": NO_COMPACTION,
    **dict.fromkeys(("compaction", "compaction_summary", "context_compaction"), _NO_SUMMARY),
}
NO_RESPONSES = (
    "this server keeps no responses; configure the client to send the whole conversation as `input` each time "
    "(`store: false`)"
)
# Fields that need state, and the advice for clients that send them.
_NO_STATE = {
    "previous_response_id": NO_RESPONSES,
    "conversation": "this server keeps no conversations; send the whole conversation as `input` each time",
    "prompt": "this server keeps no prompts; send `instructions` and `input`",
    "background": "this server does not support background responses; leave it out, and stream long answers",
}
_URLS = ("http://", "https://", "data:")


class Text(Struct):
    text: str


class Refusal(Struct):
    refusal: str


class Image(Struct):
    image_url: Name
    detail: str | None = None


class File(Struct):
    file_data: Name
    filename: str | None = None


_PARTS: dict[str, type[Struct]] = {
    "input_text": Text,
    "output_text": Text,
    "refusal": Refusal,
    "input_image": Image,
    "input_file": File,
}


class Message(Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Object]


class Reasoning(Struct):
    content: list[Text] | None = None
    summary: list[Text] | None = None


class FunctionCall(Struct):
    name: Name
    call_id: Name
    arguments: str | None = None
    namespace: str | None = None


class CustomCall(Struct):
    name: Name
    call_id: Name
    input: str
    namespace: str | None = None


class SearchCall(Struct):
    arguments: Any = None
    call_id: str | None = None


class LocalShellCall(Struct):
    """A call in a session that Codex began with another model."""

    action: Object
    call_id: Name


class Output(Struct):
    """The output of a function or a custom tool."""

    output: str | list[Object]
    call_id: Name


class SearchOutput(Struct):
    tools: list[Object]
    call_id: str | None = None


class AdditionalTools(Struct):
    tools: list[Object]


class AgentMessage(Struct):
    """A message from one of Codex's agents to another."""

    content: list[Object]
    author: str | None = None
    recipient: str | None = None


_ITEMS: dict[str, type[Struct]] = {
    "message": Message,
    "reasoning": Reasoning,
    "function_call": FunctionCall,
    "function_call_output": Output,
    "custom_tool_call": CustomCall,
    "custom_tool_call_output": Output,
    "tool_search_call": SearchCall,
    "local_shell_call": LocalShellCall,
    "tool_search_output": SearchOutput,
    "additional_tools": AdditionalTools,
    "agent_message": AgentMessage,
}


class ReasoningConfig(Struct):
    effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None


class JsonSchema(Struct):
    name: Name
    schema: Object
    strict: bool | None = None
    description: str | None = None


class TextConfig(Struct):
    format: Object | None = None
    verbosity: Literal["", "low", "medium", "high"] | None = None


class Request(Struct):
    model: Name
    input: str | list[Object]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    user: str | None = None
    tools: list[Object] | None = None
    tool_choice: Literal["auto", "none", "required"] | Object | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningConfig | None = None
    text: TextConfig | None = None
    metadata: dict[str, str] | None = None
    prompt_cache_key: str | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None


@dataclass(frozen=True, slots=True)
class Translation:
    """The chat request. `messages` is the last key of the body, so that turn n+1 starts with turn n (C8).

    `dropped`: one audit record per kind of dropped field. `json_reply`: the client asked for JSON, even if this is not
    sent to the server (C3).
    """

    body: JsonObject
    dropped: tuple[Repair, ...]
    tools: OfferedTools
    json_reply: bool = False


def translate(body: JsonObject, options: ModelOptions) -> Translation:
    """Return the chat request for a Responses request. Raises BadRequest with the place of the error."""
    return _ResponsesTranslator(body, options).translated()


def item_kind(item: Json, where: str) -> str:
    """Return the type of an item. Messages and references may omit it."""
    if not isinstance(item, dict):
        raise bad(where, "must be an object")
    if item.get("type") is None and (item.get("role") or item.get("id")) is not None:
        return "item_reference" if item.get("role") is None else "message"
    return kind_of(item, where)


class _ResponsesTranslator(Translator):
    def __init__(self, body: JsonObject, options: ModelOptions) -> None:
        # OpenAI's own tools are dropped by default, because Codex offers `web_search` in each request.
        super().__init__(options, Lost(drops=options.server_tools != "refuse", owner="OpenAI"))
        self.request = self.lost.read(body, Request, ignored=_IGNORED)
        self.tools = OfferedTools()
        self.system: list[str] = [self.request.instructions or ""]
        # The number of calls without an output, by turn and id.
        self.open_calls = Counter[tuple[int, str]]()

    def translated(self) -> Translation:
        request, lost = self.request, self.lost
        for name, words in _NO_STATE.items():
            if getattr(request, name) not in (None, "", False):
                raise bad(name, words)
        if request.store:
            lost.add("store", "nothing is kept, and the response says so")
        items = self.items()
        lists = [(request.tools or [], "tools")]
        for item, where in items:
            if isinstance(item, SearchOutput | AdditionalTools):
                lists.append((item.tools, f"{where}.tools"))
        self.tools.offer_all(lists, lost)
        for item, where in items:
            self.add(item, where)
        if self.empty and not any(self.system):
            raise bad("input", "it has no content")
        body = self.begun(
            request.max_output_tokens,
            request.stream,
            temperature=request.temperature,
            top_p=request.top_p,
            user=request.user or None,
        )
        body |= self.effort() | self.form()
        wants_json = "response_format" in body
        body |= self.tools.choice_fields(request.tool_choice, request.parallel_tool_calls, lost)
        self.let_call(body, "text.format")
        body["messages"] = self.messages(*self.system)
        return Translation(body, lost.records(), self.tools, wants_json)

    # The conversation. A turn is all consecutive items of one side.

    def items(self) -> list[tuple[Any, str]]:
        """Return the items with their places, without dropped ones."""
        if isinstance(self.request.input, str):
            return [(Message("user", self.request.input), "input")]
        items: list[tuple[Any, str]] = []
        for at, value in enumerate(self.request.input):
            where = f"input.{at}"
            kind = item_kind(value, where)
            if kind in _REFUSED_ITEMS:
                raise bad(where, f"an item of type {kind}: {_REFUSED_ITEMS[kind]}")
            if kind in _HOSTED_ITEMS:
                self.lost.server_only(where, f"an item of type {kind}", kind)
            elif kind in _DROPPED_ITEMS:
                self.lost.add(f"{where} of type {kind}", _DROPPED_ITEMS[kind])
            elif kind in _ITEMS:
                items.append((self.lost.read(value, _ITEMS[kind], where), where))
            else:
                raise bad(f"{where}.type", f"{shown(kind)} is not an item that this server knows")
        return items

    def add(self, item: Any, where: str) -> None:
        """Add an item to its turn."""
        match item:
            case Message():
                self.message(item, f"{where}.content")
            case Reasoning():
                self.reasoning(item)
            case FunctionCall():
                name = self.tools.name_of(item.name, item.namespace)
                self.call(item.call_id, name, _object_text(item.arguments or ""))
            case CustomCall():
                name = self.tools.name_of(item.name, item.namespace)
                self.call(item.call_id, name, inner_json({INPUT: item.input}, where))
            case SearchCall(arguments=given):
                given = {} if given is None else given
                text = given if isinstance(given, str) else inner_json(given, f"{where}.arguments")
                self.call(item.call_id or "", SEARCH, _object_text(text))
            case LocalShellCall():
                self.call(item.call_id, "local_shell", inner_json(item.action, f"{where}.action"))
            case Output():
                self.output(item.call_id, self.parts(item.output, f"{where}.output"))
            case SearchOutput():
                names = tool_names(item.tools)
                text = f"These tools can be called now: {names}" if names else "No tools were found."
                self.output(item.call_id or "", [text])
            case AgentMessage():
                head = f"Message from {item.author or ''} to {item.recipient or ''}:"
                self.user.parts.append("\n".join((head, *self.texts(item.content, f"{where}.content"))))

    def message(self, item: Message, where: str) -> None:
        """Add a message. Leading instructions form the system message; later ones stay in their place (F82)."""
        if item.role == "user":
            self.user.parts += self.parts(item.content, where)
        elif item.role == "assistant":
            turn, texts = self.assistant, self.texts(item.content, where)
            turn.texts += [texts] if texts else []
        elif self.turns:
            self.remind("\n\n".join(self.texts(item.content, where)))
        else:
            self.system.append("\n\n".join(self.texts(item.content, where)))

    def reasoning(self, item: Reasoning) -> None:
        """Add reasoning, or its summary, if the rules name a field for it."""
        if self.options.reasoning_history not in ("", "drop"):
            self.assistant.thoughts += [each.text for each in item.content or item.summary or () if each.text]
            return
        self.lost.add("input[] of type reasoning", "the rules name no field for it")
        if self.turns:  # the user's next item starts a new turn in any case (C8)
            self.turn(AssistantTurn)

    def call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a call. Healing gives each call its own id."""
        self.assistant.add_call(call_id, name, arguments)
        self.open_calls[len(self.turns), call_id] += 1

    def output(self, call_id: str, parts: list[Part]) -> None:
        """Add an output. If the newest turn has no such call, add it as text: templates reject orphan outputs."""
        turn, call = self.user, (len(self.turns) - 1, call_id)
        if self.open_calls[call]:
            self.open_calls[call] -= 1
            turn.add_result(call_id, parts)
        else:
            turn.parts += [ORPHAN, *parts]

    def parts(self, content: str | list[Object], where: str) -> list[Part]:
        """Return content as the parts of a chat message, without empty texts."""
        if isinstance(content, str):
            return [content] if content else []
        parts: list[Part] = []
        for at, value in enumerate(content):
            here = f"{where}.{at}"
            kind = kind_of(value, here)
            if kind == "encrypted_content":
                self.lost.add(f"{here} of type {kind}", "only OpenAI's own servers can read it")
                continue
            if kind not in _PARTS:
                raise bad(f"{here}.type", f"{shown(kind)} is not allowed here; use {', '.join(_PARTS)}")
            match self.lost.read(value, _PARTS[kind], here):
                case Text(text=text) | Refusal(refusal=text):
                    parts += [text] if text else []
                case Image(image_url=url, detail=detail):
                    if not url.lower().startswith(_URLS):
                        raise bad(f"{here}.image_url", f"must begin with {', '.join(_URLS)}")
                    image: JsonObject = {"url": url}
                    if detail in ("low", "high", "auto"):
                        image["detail"] = detail
                    elif detail:
                        self.lost.add(f"{here}.detail", "chat completions does not support this detail")
                    parts.append({"type": "image_url", "image_url": image})
                case File(file_data=file_data, filename=name):
                    data: JsonObject = {"filename": name or "file", "file_data": file_data}
                    parts.append({"type": "file", "file": data})
        return parts

    def texts(self, content: str | list[Object], where: str) -> list[str]:
        """Return the texts of content that may only be text."""
        parts = self.parts(content, where)
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise bad(where, "takes text only")
        return texts

    # The other fields.

    def effort(self) -> JsonObject:
        """Return the fields that switch the model's reasoning, as the rules configure it."""
        effort, switch = self.request.reasoning and self.request.reasoning.effort, self.options.thinking
        if effort and switch in ("", "none"):
            self.lost.add("reasoning.effort", "the rules name no switch for the model's reasoning")
        elif effort:
            return self.in_words_of_rules({"reasoning_effort": effort})
        return {}

    def form(self) -> JsonObject:
        """Return the fields for the answer's format and verbosity."""
        text = self.request.text or TextConfig()
        fields: JsonObject = {"verbosity": text.verbosity} if text.verbosity else {}
        kind = "text" if text.format is None else kind_of(text.format, "text.format")
        if kind == "json_object":
            fields["response_format"] = {"type": kind}
        elif kind == "json_schema":
            form = self.lost.read(text.format, JsonSchema, "text.format")
            given = {"name": form.name, "schema": form.schema, "strict": form.strict, "description": form.description}
            fields["response_format"] = {"type": kind, kind: present(given)}
        elif kind != "text":
            raise bad("text.format.type", f"{shown(kind)} is not supported; use json_schema, json_object or text")
        return fields


def _object_text(text: str) -> str:
    """Return a call's arguments from the history as an object, as chat templates require (F79, F80)."""
    if not text.strip():
        return "{}"
    return text if is_object_text(text) else dump_inner({"arguments": text})
