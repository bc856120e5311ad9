"""Shapes of conversations and of tools, as agents send them. Every text that must reach the model holds a marker,
`mk` and letters; thinking of earlier turns, which templates leave out by design, holds none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]
MARKER = re.compile(r"mk[a-z]+[0-9]+")

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def tool(name: str = "read_file", **function: Any) -> Message:
    """An offered tool; what is None is left out of it."""
    parameters = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where the file is."}},
        "required": ["path"],
    }
    said = {"name": name, "description": "Reads a file.", "parameters": parameters, **function}
    return {"type": "function", "function": {key: value for key, value in said.items() if value is not None}}


def system(text: Any = "mks1 rules") -> Message:
    """A system message."""
    return {"role": "system", "content": text}


def user(text: Any = "mku1 question") -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


def said(text: Any = "mka1 answer", **more: Any) -> Message:
    """An assistant's message."""
    return {"role": "assistant", "content": text, **more}


def call(number: int = 1, **more: Any) -> Message:
    """A call; `arguments` are JSON if nothing else is said. The id is one that Mistral takes."""
    arguments = more.pop("arguments", json.dumps({"path": f"mkp{number}"}))
    function = {"name": more.pop("name", "read_file"), "arguments": arguments}
    return {"id": f"abcdefgh{number}", "type": "function", "function": function, **more}


def calls(*entries: Message, content: Any = "", **more: Any) -> Message:
    """An assistant's message that calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(entries or (call(),)), **more}


def result(number: int = 1, text: Any = "", **more: Any) -> Message:
    """What a tool gave."""
    said = {"role": "tool", "tool_call_id": f"abcdefgh{number}", "content": text or f"mkr{number} found", **more}
    return {key: value for key, value in said.items() if value != "without"}


def null_result() -> Message:
    """A result of nothing."""
    return {"role": "tool", "tool_call_id": "abcdefgh1", "content": None}


def turn(first: Message, *results: Message) -> list[Message]:
    """A conversation around one turn that calls."""
    return [system(), user(), first, *(results or (result(),)), said(), user("mku2 more")]


def _broken(arguments: Any) -> list[Message]:
    return turn(calls(call(arguments=arguments)))


def _without(message: Message, *keys: str) -> Message:
    return {key: value for key, value in message.items() if key not in keys}


HEALTHY: dict[str, list[Message]] = {
    "plain": [system(), user()],
    "answered": [system(), user(), said(), user("mku2 more")],
    "no system": [user(), calls(), result()],
    "ends with a result": [system(), user(), calls(), result()],
    "one call": turn(calls()),
    "two turns of calls": [system(), user(), calls(), result(), calls(call(2)), result(2), said(), user("mku2")],
    "a call in each task": [*turn(calls()), calls(call(2)), result(2), said("mka2"), user("mku3")],
}

CALLS: dict[str, list[Message]] = {
    "arguments empty": _broken(""),
    "arguments null": _broken(None),
    "arguments missing": turn(calls({**call(), "function": {"name": "read_file"}})),
    "arguments cut off": _broken('{"path": "mkp1'),
    "arguments Python": _broken("{'path': 'mkp1', 'all': True}"),
    "arguments twice encoded": _broken(json.dumps(json.dumps({"path": "mkp1"}))),
    "arguments a list": _broken('["mkp1"]'),
    "arguments a word": _broken("mkp1"),
    "arguments a string": _broken('"mkp1"'),
    "arguments a number": _broken("5"),
    "arguments with a comma": _broken('{"path": "mkp1",}'),
    "arguments with markup behind": _broken('{"path": "mkp1"}</tool_call>'),
    "arguments an object": _broken({"path": "mkp1"}),
    "two calls": turn(calls(call(), call(2)), result(), result(2)),
    "three calls": turn(calls(call(), call(2), call(3)), result(), result(2), result(3)),
    "text beside a call": turn(calls(content="mka0 I look")),
    "text beside two calls": turn(calls(call(), call(2), content="mka0 I look"), result(), result(2)),
    "null beside a call": turn(calls(content=None)),
    "no content beside a call": turn(_without(calls(), "content")),
    "name with junk": turn(calls(call(name="functions.read_file:0"))),
    "no type": turn(calls(_without(call(), "type"))),
    "tool_calls empty": [system(), user(), said(tool_calls=[]), user("mku2")],
    "tool_calls null": [system(), user(), said(tool_calls=None), user("mku2")],
    "call as text": turn(said('mka0 <tool_call>\n{"name": "read_file", "arguments": {"path": "mkp1"}}\n</tool_call>')),
    "function_call": turn(
        said(None, function_call={"name": "read_file", "arguments": '{"path": "mkp1"}'}),
        {"role": "function", "name": "read_file", "content": "mkr1 found"},
    ),
}

RESULTS: dict[str, list[Message]] = {
    "ids of OpenAI": turn(calls(call(id="call_Ab12Cd34Ef56")), result(tool_call_id="call_Ab12Cd34Ef56")),
    "ids doubled": [
        *(system(), user(), calls(call(id="call_0")), result(tool_call_id="call_0")),
        *(calls(call(2, id="call_0")), result(2, tool_call_id="call_0"), said(), user("mku2")),
    ],
    "ids changed": turn(calls(call(id="call_abc123")), result(tool_call_id="callabc123")),
    "ids missing": turn(calls(_without(call(), "id")), result(tool_call_id="without")),
    "id of a result missing": turn(calls(), result(tool_call_id="without")),
    "orphan result": [system(), user(), result(), said(), user("mku2")],
    "orphan result first": [system(), result(), user(), said(), user("mku2")],
    "one result too many": turn(calls(), result(), result(2)),
    "call without result": [system(), user(), calls(), user("mku2"), said(), user("mku3")],
    "call without result, then text": [system(), user(), calls(), said(), user("mku2")],
    "one result of two": turn(calls(call(), call(2)), result(2)),
    "results in another order": turn(calls(call(), call(2)), result(2), result()),
    "user before the result": [system(), user(), calls(), user("mku2"), result(), said(), user("mku3")],
    "result null": turn(calls(), null_result()),
    "result an object": turn(calls(), result(text={"found": "mkr1"})),
    "result of parts": turn(calls(), result(text=[{"type": "text", "text": "mkr1"}, {"type": "text", "text": "mkr2"}])),
    "result of input_text": turn(calls(), result(text=[{"type": "input_text", "text": "mkr1"}])),
    "result a picture": turn(calls(), result(text=[{"type": "text", "text": "mkr1"}, PICTURE])),
}

ROLES: dict[str, list[Message]] = {
    "developer": [{"role": "developer", "content": "mks1 rules"}, user(), calls(), result()],
    "developer behind system": [system(), {"role": "developer", "content": "mks2 more"}, user(), calls(), result()],
    "two systems": [system(), system("mks2 more"), user(), calls(), result()],
    "three systems": [system(), system("mks2 more"), system("mks3 still"), user(), said(), user("mku2")],
    "system later": [system(), user(), said(), system("mks2 now"), user("mku2")],
    "system behind a result": [system(), user(), calls(), result(), system("mks2 now"), said(), user("mku2")],
    "system last": [system(), user(), calls(), result(), system("mks2 now")],
    "system behind a question": [system(), user(), system("mks2 now"), said(), user("mku2")],
    "developer later": [system(), user(), said(), {"role": "developer", "content": "mks2 now"}, user("mku2")],
    "user, user": [system(), user(), user("mku2"), said(), user("mku3")],
    "user, user last": [system(), user(), said(), user("mku2"), user("mku3")],
    "assistant, assistant": [system(), user(), said(), said("mka2"), user("mku2")],
    "assistant first": [system(), said(), user(), calls(), result()],
    "user behind a result": [system(), user(), calls(), result(), user("mku2"), said(), user("mku3")],
    "assistant last": [system(), user(), calls(), result(), said()],
    "only system": [system()],
    "no user": [system(), calls(), result()],
    "no user, text": [system(), said(), calls(), result()],
    "assistant empty": [system(), user(), said(""), user("mku2")],
    "assistant null": [system(), user(), said(None), user("mku2")],
    "assistant without content": [system(), user(), {"role": "assistant"}, user("mku2")],
    "assistant only thought": [system(), user(), said(None, reasoning_content="hm"), user("mku2")],
}

CONTENTS: dict[str, list[Message]] = {
    "user of parts": [system(), user([{"type": "text", "text": "mku1"}, {"type": "text", "text": "mku2"}])],
    "system of parts": [system([{"type": "text", "text": "mks1"}]), user(), calls(), result()],
    "assistant of parts": [system(), user(), said([{"type": "text", "text": "mka1"}]), user("mku2")],
    "parts beside a call": turn(calls(content=[{"type": "text", "text": "mka0"}])),
    "input_text": [system(), user([{"type": "input_text", "text": "mku1"}]), said(), user("mku2")],
    "output_text": [system(), user(), said([{"type": "output_text", "text": "mka1"}]), user("mku2")],
    "no type of a part": [system(), user([{"text": "mku1"}])],
    "picture": [system(), user([{"type": "text", "text": "mku1"}, PICTURE]), said(), user("mku2")],
    "picture alone": [system(), user([PICTURE]), said(), user("mku2")],
    "thinking, text and call": turn(calls(content="mka0", reasoning_content="hm")),
    "thinking beside a call": turn(calls(reasoning_content="hm")),
    "field thinking": turn(calls(content="mka0", thinking="hm")),
    "user null": [system(), user(None), said(), user("mku2")],
    "user empty": [system(), user(""), said(), user("mku2")],
    "system empty": [system(""), user(), said(), user("mku2")],
}

SHAPES: dict[str, list[Message]] = {**HEALTHY, **CALLS, **RESULTS, **ROLES, **CONTENTS}

_TEXT = {"type": "string", "description": "Where."}


def _schema(**properties: Any) -> Message:
    return {"type": "object", "properties": properties}


TOOLS: dict[str, Message] = {
    "tool": tool(),
    "no parameters": tool(parameters=None),
    "parameters empty": tool(parameters={}),
    "no properties": tool(parameters={"type": "object"}),
    "properties null": tool(parameters={"type": "object", "properties": None}),
    "no type of parameters": tool(parameters={"properties": {"path": _TEXT}}),
    "no description": tool(description=None),
    "no description of a property": tool(parameters=_schema(path={"type": "string"})),
    "types in a list": tool(parameters=_schema(path={"type": ["string", "null"], "description": "Where."})),
    "property true": tool(parameters=_schema(path=True)),
    "no type of a property": tool(parameters=_schema(path={"description": "Where."})),
    "$ref": tool(parameters={**_schema(path={"$ref": "#/$defs/place"}), "$defs": {"place": _TEXT}}),
    "anyOf": tool(parameters=_schema(path={"anyOf": [{"type": "string"}, {"type": "null"}]})),
    "enum without type": tool(parameters=_schema(path={"enum": ["a", "b"]})),
    "array without items": tool(parameters=_schema(path={"type": "array"})),
    "nested": tool(parameters=_schema(path=_schema(inner={"type": ["integer", "null"]}))),
    "strict": tool(strict=True, parameters={**_schema(path=_TEXT), "$schema": "x", "additionalProperties": False}),
    "a long name": tool("r" * 70),
    "no type beside function": {"function": tool()["function"]},
}


def bodies() -> Iterator[tuple[str, Message]]:
    """Every shape by its name, as a request's body."""
    for name, messages in SHAPES.items():
        yield name, {"model": "m", "messages": messages, "tools": [tool()]}
    for name in ("plain", "answered", "one call"):
        yield f"no tools: {name}", {"model": "m", "messages": SHAPES[name]}
    for name, offered in TOOLS.items():
        called = str(offered["function"]["name"])
        conversation = turn(calls(call(name=called)))
        yield f"tool: {name}", {"model": "m", "messages": conversation, "tools": [offered]}


def products() -> Iterator[tuple[str, Message]]:
    """Every shape of a conversation with every shape of a tool."""
    for name, messages in SHAPES.items():
        for offered in TOOLS.values():
            yield name, {"model": "m", "messages": messages, "tools": [offered]}
