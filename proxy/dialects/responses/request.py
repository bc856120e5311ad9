"""Responses requests (OpenAI) to chat completions, field by field.

Nothing is lost in silence: a field that cannot be carried goes with an audit record, and one without which the request
would mean something else is refused. docs/responses.md has a row for each (`fields.py`).

Source: OpenAI's API reference, "Create a model response", "Get input token counts", "Chat Completions".
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_access import as_object, as_text
from proxy.codec.json_text import JsonObject
from proxy.dialects.model_options import OWN_WORDS, ModelOptions
from proxy.dialects.responses.fields import BODY_FIELDS, REASONING_FIELDS
from proxy.dialects.responses.items import History, input_items
from proxy.dialects.responses.tools import OfferedTools, choice_fields, offered_tools
from proxy.dialects.validation import (
    BODY,
    DroppedFields,
    FieldPath,
    flag,
    mapping,
    nonempty_string,
    number,
    optional,
    shown,
    string,
    whole_number,
)


@dataclass(frozen=True, slots=True)
class Translation:
    """The chat-completions request. `messages` is the body's last key, so that turn n+1 starts with turn n (C8).

    `dropped`: one audit record for each kind of field that could not be carried. `tools`: those that are offered, by
    the names under which the server knows them. `json_reply`: the client asked for JSON; it did so also where the
    server is not told (C3).
    """

    body: JsonObject
    dropped: tuple[Repair, ...]
    tools: OfferedTools
    json_reply: bool = False


# What a client does without a store.
NO_RESPONSES = (
    "this server keeps no responses; configure the client to send the whole conversation as `input` each time "
    "(`store: false`)"
)
# Fields that need a state at the server, and what to do instead.
_NO_STORE = {
    "previous_response_id": NO_RESPONSES,
    "conversation": "this server keeps no conversations; send the whole conversation as `input` each time",
    "prompt": "this server keeps no prompts; send `instructions` and `input`",
}
_NO_BACKGROUND = (
    "this server makes no responses in the background; send the request without it, "
    "with `stream: true` if the answer takes long"
)
# What the prompt is made of.
_COUNTED = ("model", "tools", "chat_template_kwargs", "messages")
# reasoning_effort by reasoning.effort; models that have it cannot be switched off.
_EFFORTS = {
    **{"none": "low", "minimal": "low", "low": "low", "medium": "medium"},
    **{"high": "high", "xhigh": "high", "max": "high"},
}
_NO_SWITCH = "the rules name no switch for the model's thinking"
_TRUNCATIONS = ("", "auto", "disabled")
_VERBOSITIES = ("low", "medium", "high")


def translate(body: JsonObject, options: ModelOptions) -> Translation:
    """The chat-completions request for a Responses request; BadRequest, with the place, for what is not carried."""
    # OpenAI's own tools go by default: Codex offers `web_search` in each request.
    losses = DroppedFields(options.server_tools or "drop", "OpenAI")
    nonempty_string(body, "model", BODY)
    losses.leave(body, BODY_FIELDS, BODY)
    _check_state(body, losses)
    _check_echoed(body)
    json_reply = _wants_json(body)
    items = input_items(body)
    tools = offered_tools(body, items, losses)
    history = History(tools, losses, options.reasoning_history)
    history.instruct(optional(body, "instructions", BODY))
    for item, path in items:
        history.add(item, path)
    conversation = history.conversation()
    translated: JsonObject = {
        "model": options.model,
        **_limits(body),
        **_stream(body),
        **_reasoning(body, options.thinking, losses),
        **_text(body, losses),
        **choice_fields(body, tools, losses),
    }
    _let_call(translated, options.server_kind, losses)
    translated["messages"] = [*conversation.messages]
    return Translation(translated, losses.records(), tools, json_reply=json_reply)


def translate_count(body: JsonObject, options: ModelOptions) -> Translation:
    """The same for `input_tokens`: only what the prompt is made of."""
    whole = translate({**body, "stream": None}, options)
    counted = {key: whole.body[key] for key in _COUNTED if key in whole.body}
    return Translation(counted, whole.dropped, whole.tools)


def _wants_json(body: JsonObject) -> bool:
    """True if the client asked for JSON."""
    form = as_object(as_object(body.get("text")).get("format"))
    return as_text(form.get("type")) in ("json_object", "json_schema")


def _check_state(body: JsonObject, losses: DroppedFields) -> None:
    """Check the fields that need a state at the server, without which the answer would be another one."""
    for name, words in _NO_STORE.items():
        if body.get(name) not in (None, ""):
            raise BODY.field(name).bad(words)
    if flag(body, "background", BODY):
        raise BODY.field("background").bad(_NO_BACKGROUND)
    if flag(body, "store", BODY):
        losses.lost("store", "nothing is kept, and the response says so")
    truncation = optional(body, "truncation", BODY)
    if truncation not in _TRUNCATIONS:
        raise BODY.field("truncation").bad(f"{shown(truncation)} is none of auto, disabled")
    if truncation == "auto":
        losses.lost("truncation", "nothing is truncated; the client gets the error that tells it to compact")


def _check_echoed(body: JsonObject) -> None:
    """Fields that only come back in the response: clients read them there by their type."""
    metadata = mapping(body, "metadata", BODY, needed=False)
    for name in metadata:
        string(metadata, name, BODY.field("metadata"))
    for name in ("prompt_cache_key", "safety_identifier"):
        optional(body, name, BODY)
    if body.get("max_tool_calls") is not None:
        whole_number(body, "max_tool_calls", BODY)
    flag(body, "parallel_tool_calls", BODY)


def _limits(body: JsonObject) -> JsonObject:
    fields: JsonObject = {}
    if body.get("max_output_tokens") is not None:
        limit = whole_number(body, "max_output_tokens", BODY)
        if limit < 1:
            raise BODY.field("max_output_tokens").bad("must be greater than or equal to 1")
        fields["max_tokens"] = limit
    for name in ("temperature", "top_p"):
        if body.get(name) is not None:
            fields[name] = number(body, name, BODY)
    user = optional(body, "user", BODY)
    if user:
        fields["user"] = user
    return fields


def _stream(body: JsonObject) -> JsonObject:
    if body.get("stream") is None:
        return {}
    if not flag(body, "stream", BODY):
        return {"stream": False}
    return {"stream": True, "stream_options": {"include_usage": True}}


def _reasoning(body: JsonObject, switch: str, losses: DroppedFields) -> JsonObject:
    """The switch of the model's thinking, as the rules name it."""
    path = BODY.field("reasoning")
    reasoning = mapping(body, "reasoning", BODY, needed=False)
    losses.leave(reasoning, REASONING_FIELDS, path)
    effort = optional(reasoning, "effort", path)
    if not effort:
        return {}
    if effort not in _EFFORTS:
        raise path.field("effort").bad(f"{shown(effort)} is none of {', '.join(_EFFORTS)}")
    if switch in ("", "none"):
        losses.lost("reasoning.effort", _NO_SWITCH)
        return {}
    if switch == OWN_WORDS:
        return {"reasoning_effort": effort}
    if switch == "reasoning_effort":
        return {"reasoning_effort": _EFFORTS[effort]}
    return {"chat_template_kwargs": {switch: effort != "none"}}


def _text(body: JsonObject, losses: DroppedFields) -> JsonObject:
    """The form of the answer, and how long it is to be."""
    path = BODY.field("text")
    text = mapping(body, "text", BODY, needed=False)
    losses.leave(text, {"format": "", "verbosity": ""}, path)
    fields: JsonObject = {}
    verbosity = optional(text, "verbosity", path)
    if verbosity:
        if verbosity not in _VERBOSITIES:
            raise path.field("verbosity").bad(f"{shown(verbosity)} is none of {', '.join(_VERBOSITIES)}")
        fields["verbosity"] = verbosity
    if text.get("format") is None:
        return fields
    return fields | _format(mapping(text, "format", path), path.field("format"), losses)


def _format(form: JsonObject, path: FieldPath, losses: DroppedFields) -> JsonObject:
    kind = nonempty_string(form, "type", path)
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    if kind in ("grammar", "python"):
        raise path.field("type").bad(
            f"{shown(kind)} is not supported; use json_schema, or describe the form of the answer in `instructions`"
        )
    if kind != "json_schema":
        raise path.field("type").bad(f"{shown(kind)} is none of text, json_object, json_schema")
    losses.leave(form, dict.fromkeys(("type", "name", "schema", "strict", "description"), ""), path)
    json_schema: JsonObject = {"name": nonempty_string(form, "name", path), "schema": mapping(form, "schema", path)}
    if form.get("strict") is not None:
        json_schema["strict"] = flag(form, "strict", path)
    if form.get("description") is not None:
        json_schema["description"] = optional(form, "description", path)
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _let_call(fields: JsonObject, server: str, losses: DroppedFields) -> None:
    """vLLM keeps the whole reply to the schema of `response_format`, so that no tool is ever called beside one. In the
    API both work; the tools matter more.
    """
    if server != "vllm" or "tools" not in fields or fields.get("tool_choice") == "none":
        return
    if fields.pop("response_format", None) is not None:
        losses.lost("text.format", "vLLM calls no tool while the answer has to keep to a schema")
