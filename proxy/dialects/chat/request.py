"""A chat-completions request, read once: what the proxy needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.codec.json_text import Json, JsonObject
from proxy.tools.toolset import ToolSet, read_tools


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat-completions request as the client sent it, and what the proxy needs to know of it.

    `tools` is None where the reply must never be parsed (F86): none offered, or `tool_choice: "none"`.
    `forced`: the client named a tool or said `required`; then the server's guided decoding makes the call.
    `one_call`: the client wants no calls in parallel (F52).
    """

    raw: bytes
    body: JsonObject
    model: str
    stream: bool
    usage: bool
    tools: ToolSet | None
    forced: bool
    json_reply: bool
    results: tuple[str, ...]
    ids: frozenset[str]
    one_call: bool = False


def read_chat(raw: bytes, body: JsonObject) -> ChatRequest:
    """Read what matters of a request body."""
    choice = body.get("tool_choice")
    tools = read_tools(body.get("tools"))
    options = body.get("stream_options")
    model = body.get("model")
    format_ = body.get("response_format")
    format_ = format_.get("type") if isinstance(format_, dict) else None
    return ChatRequest(
        raw=raw,
        body=body,
        model=model if isinstance(model, str) else "",
        stream=is_true(body.get("stream")),
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        tools=tools if tools and choice != "none" else None,
        forced=choice == "required" or isinstance(choice, dict),
        json_reply=format_ in ("json_object", "json_schema"),
        results=tool_results(body.get("messages")),
        ids=call_ids(body.get("messages")),
        one_call=body.get("parallel_tool_calls") is False,
    )


def is_true(value: Json) -> bool:
    """What the servers' validation takes for true (pydantic's lax mode)."""
    word = value.lower() if isinstance(value, str) else value
    return word in (True, "true", "t", "yes", "y", "on", "1")


def tool_results(messages: Json) -> tuple[str, ...]:
    """The texts of the tool results since the last user message (contract C3, F89)."""
    texts: list[str] = []
    for message in reversed(messages if isinstance(messages, list) else []):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            break
        if isinstance(message, dict) and role in ("tool", "function"):
            texts.append(content_text(message.get("content")))
    return tuple(texts)


def call_ids(messages: Json) -> frozenset[str]:
    """The ids of the calls in the history."""
    ids: set[str] = set()
    for message in messages if isinstance(messages, list) else []:
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else []:
            call_id = call.get("id") if isinstance(call, dict) else None
            ids |= {call_id} if isinstance(call_id, str) else set()
    return frozenset(ids)


def content_text(content: Json) -> str:
    """The text of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def count_tool_results(messages: Json) -> int:
    """The tool results in the whole history, counted as the OpenClaw proxy counted them: by role or by call id."""
    entries = [entry for entry in messages if isinstance(entry, dict)] if isinstance(messages, list) else []
    return sum(entry.get("role") == "tool" or bool(entry.get("tool_call_id")) for entry in entries)
