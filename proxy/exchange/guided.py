"""A call that cannot be read is asked for once more, so that the server's guided decoding writes it (`broken_calls`).

Every server that guides its decoding does so where the choice of a tool is forced (`tool_choice`): vLLM by the tool's
schema, as its `structured_outputs` would, llama.cpp by the grammar that it makes of it. llama.cpp's server knows no
choice by name: it is offered that tool alone, and must call one.
"""

from __future__ import annotations

from dataclasses import replace

from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import JsonObject, dump_request
from proxy.dialects.chat.answer import as_chunk
from proxy.dialects.chat.request import ChatRequest
from proxy.engine.engine import Engine
from proxy.engine.events import Call, CallArguments, CallClosed, CallOpened, Event, Finished, Text, Usage
from proxy.engine.reading import was_cut
from proxy.errors import UpstreamBroken


def forced_request(request: ChatRequest, tool: str) -> ChatRequest:
    """The request with this tool forced, whatever choice the client left."""
    choice: JsonObject = {"type": "function", "function": {"name": tool}}
    body: JsonObject = {**request.body, "tool_choice": choice}
    return replace(request, raw=dump_request(body), body=body, forced=True, forced_tool=tool)


def with_one_tool(body: JsonObject) -> JsonObject:
    """The body with the tool that it forces as the only one, for servers that know no choice by name."""
    name = _name_of(as_object(body.get("tool_choice")))
    tools = [tool for tool in objects_in(body.get("tools")) if _name_of(tool) == name]
    return {**body, "tools": [*tools], "tool_choice": "required", "parallel_tool_calls": False}


def _name_of(entry: JsonObject) -> str:
    return as_text(as_object(entry.get("function")).get("name"))


def guided_call(answer: JsonObject, engine: Engine, tool: str) -> Call:
    """The call of the second answer, of which the engine takes one; UpstreamBroken if it has another one, or none, or
    was cut off: half a call is not what the model meant (contract C4).
    """
    if any(was_cut(as_text(entry.get("finish_reason")) or None) for entry in objects_in(answer.get("choices"))):
        raise UpstreamBroken("the model server was made to call a tool, and was cut off")
    events = (*engine.feed(as_chunk(answer)), *engine.finish(done=True))
    calls = [event.call for event in events if isinstance(event, CallClosed)]
    if [call.name for call in calls] != [tool] or engine.empty_calls:
        raise UpstreamBroken("the model server was made to call a tool, and did not")
    return calls[0]


def events_instead(broken: Text, call: Call, usage: JsonObject) -> tuple[Event, ...]:
    """The end of a stream with the call in the place of the broken one."""
    choice = broken.choice
    events = (
        CallOpened(choice, 0, call.id, call.name),
        CallArguments(choice, 0, call.arguments),
        CallClosed(choice, 0, call, ()),
        Finished(choice, "tool_calls", None),
    )
    return (*events, Usage(usage)) if usage else events


def answer_instead(answer: JsonObject, broken: Text, call: Call, usage: JsonObject) -> JsonObject:
    """A whole answer with the call in the place of the broken one."""
    [entry, *_] = objects_in(answer.get("choices"))
    message = as_object(entry.get("message"))
    content = message.get("content")
    if isinstance(content, str) and broken.text in content:
        content = content[: content.rindex(broken.text)].rstrip() or None
    called: JsonObject = {"id": call.id, "type": "function"}
    called["function"] = {"name": call.name, "arguments": call.arguments}
    message = {**message, "content": content, "tool_calls": [called]}
    message.pop("function_call", None)
    changed: JsonObject = {**answer, "choices": [{**entry, "message": message, "finish_reason": "tool_calls"}]}
    if usage:
        changed["usage"] = usage
    return changed
