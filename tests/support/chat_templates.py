"""Chat templates of real models, rendered as a model server does: preprocessing, then transformers' sandbox.

`render` parses only the arguments of calls. `ChatTemplate.render` works like vLLM: it parses the arguments of calls
(text that is not JSON is a 400), drops an empty `tool_calls`, replaces null content by "", and passes content as text
or as parts, whichever the template reads.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from tests.support.shared import SHARED

FOLDER = SHARED / "templates"
# A fixed time for templates that print the date.
NOW = datetime(2026, 1, 2, 3, 4, 5)
# Matches templates that iterate over the parts of a content (vLLM: `_detect_content_format`).
_OVER_PARTS = re.compile(
    r"for\s+\w+\s+in\s+(?:message|msg|m|messages\[0\]|last_message|system_message|loop_messages\[0\])"
    r"(?:\.content|\[['\"]content['\"]\])|for\s+\w+\s+in\s+content\b"
)


class Refused(Exception):
    """The server's 400, with its message."""


class _Generation(Extension):
    """The transformers tag that marks an assistant's text. Here it has no effect."""

    tags = {"generation"}  # noqa: RUF012 (as in jinja2)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body of the tag unchanged."""
        next(parser.stream)
        return [*parser.parse_statements(("name:endgeneration",), drop_needle=True)]


@dataclass(frozen=True)
class ChatTemplate:
    """A model's template. `parts`: it reads contents as lists of parts."""

    name: str
    template: Template
    parts: bool

    def render(self, body: dict[str, Any]) -> str:
        """Return the prompt for a request. Raises Refused, with the server's message."""
        return _rendered(self.template, body, _parsed(body["messages"], self.parts))


def render(name: str, body: dict[str, Any]) -> str:
    """Return the prompt for a request from the template of this name. Only the arguments of calls are parsed."""
    messages = deepcopy(body["messages"])
    for message in messages:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return _rendered(_named(name).template, body, messages)


def _rendered(template: Template, body: dict[str, Any], messages: list[dict[str, Any]]) -> str:
    variables = dict(body.get("chat_template_kwargs", {}))
    if "reasoning_effort" in body:
        variables.setdefault("reasoning_effort", body["reasoning_effort"])
    try:
        return template.render(
            messages=messages,
            tools=body.get("tools"),
            documents=None,
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
            **variables,
        )
    except TemplateError as error:
        raise Refused(str(error)) from error
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def _parsed(messages: list[dict[str, Any]], parts: bool) -> list[dict[str, Any]]:
    """Return the conversation as vLLM passes it to the template."""
    return [_message(message, parts) for message in deepcopy(messages)]


def _message(message: dict[str, Any], parts: bool) -> dict[str, Any]:
    message["content"] = _content(message.get("content"), parts)
    if "reasoning" in message or "reasoning_content" in message:
        said = message.get("reasoning") or message.get("reasoning_content")
        message["reasoning"] = message["reasoning_content"] = said
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        message.pop("tool_calls", None)
        return message
    for call in calls:
        function = call["function"]
        arguments = function.get("arguments")
        if isinstance(arguments, str) and arguments:
            try:
                function["arguments"] = json.loads(arguments)
            except ValueError as error:
                raise Refused(f"{error} (arguments of a tool call)") from error
        elif not arguments:
            function["arguments"] = {}
    return message


_KINDS = ("text", "image_url", "input_text", "refusal", "thinking")


def _content(content: Any, parts: bool) -> Any:
    if content is None:
        content = []
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if parts else content
    if not isinstance(content, list):
        raise Refused("messages.content: Input should be a valid string or a valid list")
    texts: list[str] = []
    for part in content:
        kind = part.get("type") or ("text" if "text" in part else None)
        if kind is None or kind not in _KINDS:
            raise Refused(f"Unknown part type: {kind}")
        if kind == "image_url":
            raise Refused("this model does not support image input; At most 0 image(s) may be provided in one prompt.")
        texts.append(part.get("text") or part.get("refusal") or part.get("thinking") or "")
    if parts:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(texts)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    # llama.cpp's own engine makes lists where jinja2 makes generators.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=list, **more)


@cache
def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = NOW.strftime
    return environment


@cache
def templates() -> tuple[ChatTemplate, ...]:
    """Return the compiled templates of the shared folder; () if it is missing."""
    return tuple(_named(path.stem) for path in sorted(FOLDER.glob("*.jinja")))


def sources() -> dict[str, str]:
    """Return the text of each template in the shared folder, by name."""
    return {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.jinja"))}


@cache
def _named(name: str) -> ChatTemplate:
    return compiled(name, (FOLDER / f"{name}.jinja").read_text("utf-8"))


def compiled(name: str, source: str) -> ChatTemplate:
    """Return the compiled template with this name."""
    return ChatTemplate(name, _environment().from_string(source), bool(_OVER_PARTS.search(source)))
