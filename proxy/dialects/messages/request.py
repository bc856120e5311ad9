"""Messages requests (Anthropic) to chat completions, field by field.

Nothing is lost in silence: a field that cannot be carried goes with an audit record, and one without which the request
would mean something else is refused. docs/messages.md has a row for each.

Source: the Anthropic API reference, "Create a Message", "Count tokens in a Message"; OpenAI's, "Chat Completions".
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_text import JsonObject
from proxy.dialects.messages.tools import tool_fields
from proxy.dialects.messages.turns import Conversation, conversation
from proxy.dialects.model_options import OWN_WORDS, ModelOptions
from proxy.dialects.validation import (
    BODY,
    CACHE,
    DroppedFields,
    FieldPath,
    flag,
    listing,
    mapping,
    nonempty_string,
    number,
    optional,
    shown,
    whole_number,
)
from proxy.errors import NoThreads


@dataclass(frozen=True, slots=True)
class Translation:
    """The chat-completions request. `messages` is the body's last key, so that turn n+1 starts with turn n (C8).

    `dropped`: one audit record for each kind of field that could not be carried. `prefill`: the text that the client
    wrote as the beginning of the answer; llama.cpp repeats it in whole answers (not in streams), where a Messages
    client does not expect it. `json_reply`: the client asked for JSON; it did so also where the server is not told
    (C3). `stop_sequences` are those that it named.
    """

    body: JsonObject
    dropped: tuple[Repair, ...]
    prefill: str = ""
    json_reply: bool = False
    stop_sequences: frozenset[str] = frozenset()


# The fields of the body: "" for those that are read below, else the reason why they go.
_HERE = "there is one model server, which is your own"
_HEADER = "it is a header's name, no field of the body"
_FIELDS = {
    **dict.fromkeys(("model", "max_tokens", "messages", "system", "tools", "tool_choice", "stop_sequences"), ""),
    **dict.fromkeys(("temperature", "top_p", "top_k", "metadata", "stream", "thinking", "output_config"), ""),
    **dict.fromkeys(("output_format", "container", "mcp_servers", "thread"), ""),
    "compaction": "nothing is summarised here",
    "cache_control": CACHE,
    "context_management": "a chat server edits no context; the client gets an error when it is full",
    "diagnostics": "a chat server says nothing about its prefix cache",
    "fallbacks": _HERE,
    "fallback_credit_token": "nothing is billed here",
    "billing_policy": "nothing is billed here",
    "inference_geo": _HERE,
    "service_tier": _HERE,
    "speed": _HERE,
    **dict.fromkeys(("betas", "user_profile_id", "workspace_id"), _HEADER),
}
# Servers that can continue a message of the assistant's.
_CONTINUE = frozenset(("vllm", "sglang"))
# Of the chat request, what the prompt is made of.
_COUNTED = (
    *("model", "tools", "chat_template_kwargs"),
    *("continue_final_message", "add_generation_prompt", "messages"),
)
# reasoning_effort by output_config.effort, and by thinking.budget_tokens (up to so many).
_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
_BUDGETS = ((4096, "low"), (16384, "medium"))
_THINKING = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
_BY_EFFORT = ("reasoning_effort", OWN_WORDS)
_NO_TEMPLATE_SWITCH = ("", "none", "reasoning_effort")
# Any name of a switch becomes the family's own.
_ANY_SWITCH = "enable_thinking"
_NO_SWITCH = "the rules name no switch for the model's thinking"
_NO_EFFORT = "the rules do not say that the model takes a reasoning_effort"
_NO_BUDGET = "the model's switch takes no budget"
_THINKING_WITH_BUDGET = {"type": "", "budget_tokens": ""}
_THINKING_WITHOUT_BUDGET = {"type": "", "budget_tokens": _NO_BUDGET}


def translate(body: JsonObject, options: ModelOptions) -> Translation:
    """The chat-completions request for a Messages request; BadRequest, with the place, if it is none or not carried."""
    limit = whole_number(body, "max_tokens", BODY)
    if limit < 1:
        # The API takes 0, and only fills its cache then; chat completions cannot ask for that, and vLLM refuses 0.
        raise BODY.field("max_tokens").bad("must be greater than or equal to 1")
    if body.get("compaction"):
        raise BODY.field("compaction").bad("this server summarises no conversations; let the client do it")
    return _translated(body, options, {"max_tokens": limit})


def translate_count(body: JsonObject, options: ModelOptions) -> Translation:
    """The same for `count_tokens`: only what the prompt is made of, with the marks of a beginning that the answer is to
    continue; needs no `max_tokens`.
    """
    whole = _translated(body, options, {})
    return Translation({key: whole.body[key] for key in _COUNTED if key in whole.body}, whole.dropped)


def _translated(body: JsonObject, options: ModelOptions, first: JsonObject) -> Translation:
    losses = DroppedFields(options.server_tools)
    nonempty_string(body, "model", BODY)
    losses.leave(body, _FIELDS, BODY)
    _refusals(body, losses)
    talk = conversation(body, losses, options.reasoning_history)
    translated: JsonObject = {
        "model": options.model,
        **first,
        **_sampling(body, losses),
        **_stream(body, options.server_kind),
        **_output(body, options, losses),
        **tool_fields(body, losses),
    }
    _let_call(body, translated, options.server_kind, losses)
    translated |= _prefill(talk, body, options, losses)
    translated["messages"] = [*talk.messages]
    return Translation(translated, losses.records(), talk.prefill, _wants_json(body), _stop_sequences(body))


def _refusals(body: JsonObject, losses: DroppedFields) -> None:
    """Fields without which the answer would be another one."""
    if body.get("container"):
        losses.server_only(BODY.field("container"), "a container")
    if body.get("mcp_servers"):
        losses.server_only(BODY.field("mcp_servers"), "calling MCP servers")
    if body.get("thread"):
        raise NoThreads("thread: this server keeps no conversations; send all messages each time")


def _sampling(body: JsonObject, losses: DroppedFields) -> JsonObject:
    fields: JsonObject = {}
    for name in ("temperature", "top_p"):
        if body.get(name) is not None:
            fields[name] = number(body, name, BODY)
    if body.get("top_k") is not None:
        fields["top_k"] = whole_number(body, "top_k", BODY)
    path = BODY.field("stop_sequences")
    stops = listing(body, "stop_sequences", BODY, needed=False)
    for index, stop in enumerate(stops):
        if not isinstance(stop, str):
            raise path.at(index).bad("must be a string")
    if stops:
        fields["stop"] = stops
    return fields | _user(body, losses)


def _stop_sequences(body: JsonObject) -> frozenset[str]:
    """The stop sequences that the client names."""
    stops = body.get("stop_sequences")
    if not isinstance(stops, list):
        return frozenset()
    return frozenset(stop for stop in stops if isinstance(stop, str))


def _wants_json(body: JsonObject) -> bool:
    """True if the client asked for JSON, in either of the API's two fields."""
    if body.get("output_format"):
        return True
    config = body.get("output_config")
    return isinstance(config, dict) and bool(config.get("format"))


def _user(body: JsonObject, losses: DroppedFields) -> JsonObject:
    path = BODY.field("metadata")
    fields = mapping(body, "metadata", BODY, needed=False)
    losses.leave(fields, {"user_id": ""}, path)
    user = optional(fields, "user_id", path)
    if not user:
        return {}
    return {"user": user}


def _stream(body: JsonObject, server: str) -> JsonObject:
    """`stream`, and with it the counts of tokens, which only vLLM can give from the beginning on."""
    if body.get("stream") is None:
        return {}
    if not flag(body, "stream", BODY):
        return {"stream": False}
    usage: JsonObject = {"include_usage": True}
    if server == "vllm":
        usage["continuous_usage_stats"] = True
    return {"stream": True, "stream_options": usage}


def _output(body: JsonObject, options: ModelOptions, losses: DroppedFields) -> JsonObject:
    """`output_config` and `thinking`: the form of the answer, and how much thinking goes before it."""
    path = BODY.field("output_config")
    config = mapping(body, "output_config", BODY, needed=False)
    config_fields = {"format": "", "effort": "", "task_budget": "a chat server keeps no budget across requests"}
    losses.leave(config, config_fields, path)
    fields = _thinking(body, _effort(config, path, options.thinking, losses), options.thinking, losses)
    if config.get("format") is not None:
        if body.get("output_format") is not None:
            losses.lost("output_format", "output_config.format stands in its place")
        return fields | _format(config, "format", path, losses)
    if body.get("output_format") is None:
        return fields
    return fields | _format(body, "output_format", BODY, losses)


def _effort(config: JsonObject, path: FieldPath, switch: str, losses: DroppedFields) -> str:
    """The chat server's word for the effort, "" if there is none."""
    effort = optional(config, "effort", path)
    if not effort:
        return ""
    if effort not in _EFFORTS:
        losses.lost("output_config.effort", "no model server knows this effort")
        return ""
    if switch == OWN_WORDS:
        return effort
    if switch != "reasoning_effort":
        losses.lost("output_config.effort", _NO_EFFORT)
        return ""
    return _EFFORTS[effort]


def _thinking(body: JsonObject, effort: str, switch: str, losses: DroppedFields) -> JsonObject:
    """The switch of the model's thinking, as the rules name it; `effort` is the chat server's word for it.

    `{"type": "enabled", "budget_tokens": 4096}` is `{"chat_template_kwargs": {"enable_thinking": true}}` or
    `{"reasoning_effort": "low"}`.
    """
    path = BODY.field("thinking")
    thinking = mapping(body, "thinking", BODY, needed=False)
    if body.get("thinking") is None:
        return _reasoning_effort(effort)
    kind = nonempty_string(thinking, "type", path)
    if kind not in _THINKING:
        raise path.field("type").bad(f"{shown(kind)} is none of {', '.join(_THINKING)}")
    budget = None
    if thinking.get("budget_tokens") is not None:
        budget = whole_number(thinking, "budget_tokens", path)
    if switch in ("", "none"):
        losses.lost("thinking", _NO_SWITCH)
        return {}
    by_effort = switch in _BY_EFFORT
    by_budget = by_effort and kind == "enabled" and not effort
    losses.leave(thinking, _THINKING_WITH_BUDGET if by_budget else _THINKING_WITHOUT_BUDGET, path)
    if by_budget:
        effort = _effort_of_budget(budget)
    if kind == "disabled" and effort:
        losses.lost("output_config.effort", "thinking is disabled")
    return _switch_fields(switch, effort, on=_THINKING[kind])


def _switch_fields(switch: str, effort: str, *, on: bool) -> JsonObject:
    """Thinking on or off, and the effort where the switch takes one."""
    if switch == "reasoning_effort":
        return _reasoning_effort(effort if on else "low")
    fields: JsonObject = {"chat_template_kwargs": {_switch_name(switch): on}}
    if on and switch == OWN_WORDS:
        fields |= _reasoning_effort(effort)
    return fields


def _switch_name(switch: str) -> str:
    return _ANY_SWITCH if switch == OWN_WORDS else switch


def _reasoning_effort(effort: str) -> JsonObject:
    if not effort:
        return {}
    return {"reasoning_effort": effort}


def _effort_of_budget(tokens: int | None) -> str:
    """The effort for so many tokens of thinking; "" if the client does not say how many."""
    if tokens is None:
        return ""
    return next((level for limit, level in _BUDGETS if tokens <= limit), "high")


def _format(fields: JsonObject, name: str, path: FieldPath, losses: DroppedFields) -> JsonObject:
    """A schema that the answer must keep to."""
    form, here = mapping(fields, name, path), path.field(name)
    kind = nonempty_string(form, "type", here)
    if kind != "json_schema":
        raise here.field("type").bad(f"{shown(kind)} is not json_schema")
    losses.leave(form, {"type": "", "schema": ""}, here)
    json_schema: JsonObject = {"name": "output", "schema": mapping(form, "schema", here), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _let_call(body: JsonObject, fields: JsonObject, server: str, losses: DroppedFields) -> None:
    """vLLM keeps the whole reply to the schema of `response_format`, so that no tool is ever called beside one. In the
    API both work; the tools matter more.
    """
    if server != "vllm" or "tools" not in fields or fields.get("tool_choice") == "none":
        return
    if fields.pop("response_format", None) is not None:
        config = mapping(body, "output_config", BODY, needed=False)
        name = "output_config.format"
        if config.get("format") is None:
            name = "output_format"
        losses.lost(name, "vLLM calls no tool while the answer has to keep to a schema")


def _prefill(talk: Conversation, body: JsonObject, options: ModelOptions, losses: DroppedFields) -> JsonObject:
    """The answer begins with the last message, where the server can do it; others take it for an earlier answer.

    llama.cpp does it by itself, and refuses it while thinking is on.
    """
    if not talk.prefill:
        return {}
    if options.server_kind in _CONTINUE:
        return {"continue_final_message": True, "add_generation_prompt": False}
    if options.server_kind != "llamacpp" or options.thinking in _NO_TEMPLATE_SWITCH:
        return {}
    thinking = mapping(body, "thinking", BODY, needed=False)
    if _THINKING.get(str(thinking.get("type"))):
        losses.lost("thinking", "llama.cpp continues no answer while thinking is on")
    return {"chat_template_kwargs": {_switch_name(options.thinking): False}}
