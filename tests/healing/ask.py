"""Functions that render a conversation with a template: unchanged, or as the proxy changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from proxy.config.load import load
from proxy.config.rules import Rules
from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.errors import UpstreamRefused
from proxy.exchange.plan import Ended, Plan, Retries, next_plan, upstream_request
from proxy.json import dump_request, load_json
from tests.conftest import Inside
from tests.healing.server import rendering
from tests.support.chat_templates import ChatTemplate, Refused

Body = dict[str, Any]
# Returns the template's prompt for a body.
Ask = Callable[[ChatTemplate, Body], str]


def direct(template: ChatTemplate, body: Body) -> str:
    """Render the body unchanged."""
    return template.render(body)


def through(template: ChatTemplate, body: Body) -> str:
    """Render the body as healed by the built-in rules for the template's name, and after each refusal."""
    return _healed(template, body, template.name)


def of_unknown_family(template: ChatTemplate, body: Body) -> str:
    """Render the body as healed for a model name of no known family."""
    return _healed(template, body, "my-model")


@contextmanager
def over_http() -> Iterator[Ask]:
    """Yield a function that sends the body through the whole proxy, which remembers refusals, to a rendering server."""
    with rendering() as url:
        client = Inside()(url)

        def ask(template: ChatTemplate, body: Body) -> str:
            response = client.post("/v1/chat/completions", json={**body, "model": template.name})
            if response.status_code != 200:
                raise Refused(response.text)
            return bytes.fromhex(response.get_json()["choices"][0]["message"]["content"]).decode()

        yield ask


def _healed(template: ChatTemplate, body: Body, name: str) -> str:
    request = read_chat(dump_request(body), body)
    plan = Plan(heal=_rules().heal_plan(name))
    while True:
        try:
            return template.render(_sent(request, plan))
        except Refused as refused:
            error = UpstreamRefused(str(refused), status=400)
            again = next_plan(request, plan, Ended(error), Retries(), lambda: "").plan
            if again is None:
                raise
            plan = again


def _sent(request: ChatRequest, plan: Plan) -> Body:
    body = load_json(upstream_request(request, plan).body)
    assert isinstance(body, dict)
    return body


@cache
def _rules() -> Rules:
    return load({}, {})[1]
