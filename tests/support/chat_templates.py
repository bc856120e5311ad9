"""Chat templates of real models, rendered as model servers do it: nothing but arguments is read for them."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from tests.support.shared import SHARED

FOLDER = SHARED / "templates"
# A day that is always the same.
NOW = datetime(2026, 1, 2, 3, 4, 5)


class Refused(Exception):
    """The template takes no such request, in its own words."""


class _Generation(Extension):
    """The tag of transformers that marks what an assistant said; here it marks nothing."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 wants it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Its body, as it stands."""
        next(parser.stream)
        return [*parser.parse_statements(("name:endgeneration",), drop_needle=True)]


def _raise(message: str) -> None:
    raise TemplateError(message)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=list, **more)


@cache
def _template(name: str) -> Template:
    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = NOW.strftime
    return environment.from_string((FOLDER / f"{name}.jinja").read_text("utf-8"))


def render(name: str, body: dict[str, Any]) -> str:
    """The prompt for a chat request by the template of this name."""
    messages = deepcopy(body["messages"])
    for message in messages:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    variables = dict(body.get("chat_template_kwargs", {}))
    if "reasoning_effort" in body:
        variables.setdefault("reasoning_effort", body["reasoning_effort"])
    try:
        return _template(name).render(
            messages=messages,
            tools=body.get("tools") or None,
            documents=None,
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
            **variables,
        )
    except TemplateError as error:
        raise Refused(str(error)) from error
