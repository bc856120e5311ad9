"""Chat requests, and the facts that the proxy reads from them once.

A conversation's key is a digest of its start, so all of its requests have the same key, in any dialect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from proxy.json import Json, JsonObject, as_object, as_text, objects_in
from proxy.notations.toolset import ToolSet, read_tools

# A line of Claude Code's that changes in each turn.
_CHANGING = "x-anthropic-billing-header:"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request as the client sent it, and the facts that the proxy needs.

    `tools`: None if the reply must never be parsed (F86), because no tools are offered or `tool_choice` is `none`.
    `forced`: the client named a tool or sent `required`, so the server's guided decoding makes the call. `forced_tool`:
    the only tool that can be called then. `one_call`: the client wants no parallel calls (F52). `sources`: texts that
    the model may copy calls from (C3). `made`: the names and arguments of earlier calls.
    """

    raw: bytes
    body: JsonObject
    model: str
    stream: bool
    usage: bool
    tools: ToolSet | None
    forced: bool
    json_reply: bool
    sources: tuple[str, ...]
    made: tuple[tuple[str, Json], ...]
    ids: frozenset[str]
    one_call: bool = False
    forced_tool: str = ""


def read_chat(raw: bytes, body: JsonObject) -> ChatRequest:
    """Read a request body. Requests share equal tools, which use most of the memory of a waiting stream."""
    choice = body.get("tool_choice")
    tools = read_tools(body.get("tools"))
    if tools:
        body["tools"] = tools.listed
    offered = choice != "none" and bool(tools)
    form = as_object(body.get("response_format")).get("type")
    named = as_text(as_object(as_object(choice).get("function")).get("name"))
    if choice == "required" and len(tools.names) == 1:
        named = tools.names[0]
    return ChatRequest(
        raw=raw,
        body=body,
        model=as_text(body.get("model")),
        stream=is_true(body.get("stream")),
        usage=as_object(body.get("stream_options")).get("include_usage") is True,
        tools=tools if offered else None,
        forced=choice == "required" or isinstance(choice, dict),
        forced_tool=named if named in tools.names else "",
        json_reply=form in ("json_object", "json_schema"),
        sources=copy_sources(body.get("messages")),
        made=made_calls(body.get("messages")),
        ids=call_ids(body.get("messages")),
        one_call=body.get("parallel_tool_calls") is False,
    )


def is_true(value: Json) -> bool:
    """Return whether servers read a value as true (pydantic's lax mode)."""
    return value.lower() in ("true", "t", "yes", "y", "on", "1") if isinstance(value, str) else value == 1


def copy_sources(messages: Json) -> tuple[str, ...]:
    """Return the texts of tool results and user messages, which the model may copy calls from (C3, F89)."""
    roles = ("user", "tool", "function")
    return tuple(
        content_text(message.get("content")) for message in objects_in(messages) if message.get("role") in roles
    )


def made_calls(messages: Json) -> tuple[tuple[str, Json], ...]:
    """Return the names and arguments of the calls in the history."""
    functions = (as_object(call.get("function")) for call in _calls(messages))
    return tuple((as_text(function.get("name")), function.get("arguments")) for function in functions)


def call_ids(messages: Json) -> frozenset[str]:
    """Return the ids of the calls in the history."""
    ids = (call.get("id") for call in _calls(messages))
    return frozenset(call_id for call_id in ids if isinstance(call_id, str))


def _calls(messages: Json) -> Iterator[JsonObject]:
    return (call for message in objects_in(messages) for call in objects_in(message.get("tool_calls")))


def content_text(content: Json) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in objects_in(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def count_tool_results(messages: Json) -> int:
    """Return the number of tool results in the history, identified by role or call id."""
    return sum(message.get("role") == "tool" or bool(message.get("tool_call_id")) for message in objects_in(messages))


def conversation_key(body: JsonObject) -> str:
    """Return the key of a conversation in any dialect: a digest of its model, first system and first user message.

    A Responses client's own key replaces the messages. Return "" if there is neither text nor key.
    """
    named = as_text(body.get("prompt_cache_key"))
    system, user = _beginning(body)
    lines = [line for line in system.split("\n") if not line.startswith(_CHANGING)]
    texts = (named,) if named and "input" in body else ("\n".join(lines), user)
    if not any(texts):
        return ""
    text = "\0".join((as_text(body.get("model")), *texts))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _beginning(body: JsonObject) -> tuple[str, str]:
    """Return the first system message and the first user message; "" for a missing one."""
    system = content_text(body.get("system")) or content_text(body.get("instructions"))
    input_value = body.get("input")
    if isinstance(input_value, str):
        return system, input_value
    for message in objects_in(body.get("messages")) or objects_in(input_value):
        role = message.get("role")
        if role == "user":
            return system, content_text(message.get("content"))
        if role in ("system", "developer"):
            system = system or content_text(message.get("content"))
    return system, ""
