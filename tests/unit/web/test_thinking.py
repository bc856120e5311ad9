"""The thinking settings of requests and rules are translated for the model's family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxy.config.rules import Rules, parse_rules
from proxy.dialects.messages.request import translate as of_messages
from proxy.dialects.responses.request import translate as of_responses
from proxy.dialects.translation import ModelOptions
from proxy.healing.families import family_of
from proxy.healing.reasoning import think
from proxy.json import JsonObject
from proxy.web.prepare import switch_of
from tests.support.rows import rows

BUILT_IN = parse_rules((Path(__file__).parents[3] / "rules.yaml").read_bytes(), "built-in")
ASKED: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
HY3, KIMI, SOLAR = "tencent/Hy3", "moonshotai/Kimi-K3", "upstage/solar-open-100b"
GPT, QWEN = "gpt-oss-20b", "Qwen3.5-9B"


def sent_upstream(
    translate: Callable[..., Any], model: str, given: Rules = BUILT_IN, server: str = "", **body: Any
) -> JsonObject:
    """Return the fields that are sent upstream, except the model, the messages and their limit."""
    profile = given.profile(model, "")
    family = family_of(model, profile.family)
    options = ModelOptions(model=model, thinking=switch_of(given.entry(model).thinking, family), server_kind=server)
    made = translate({"model": model, **body}, options).body
    up = think(made, family, profile.thinking, given.thinking_suffix(model)).body
    return {name: value for name, value in up.items() if name not in ("model", "messages", "max_tokens")}


def responses(effort: str, model: str, given: Rules = BUILT_IN) -> JsonObject:
    """Return the fields sent upstream for an effort of a Responses client."""
    return sent_upstream(of_responses, model, given, input="Hi", reasoning={"effort": effort})


def messages(model: str, given: Rules = BUILT_IN, **body: Any) -> JsonObject:
    """Return the fields sent upstream for the body of a Messages client."""
    return sent_upstream(of_messages, model, given, **{**ASKED, **body})


def kwargs(**said: Any) -> JsonObject:
    return {"chat_template_kwargs": said}


@rows(__file__, "model,effort,up")
def test_the_effort_of_responses_and_chat_is_translated(model: str, effort: str, up: JsonObject) -> None:
    assert responses(effort, model) == up
    assert sent_upstream(lambda body, _: _Chat(body), model, reasoning_effort=effort) == up


class _Chat:
    """A chat request, which is translated to itself."""

    def __init__(self, body: JsonObject) -> None:
        self.body = body


@rows(__file__, "model,said,up")
def test_the_effort_of_messages_is_translated(model: str, said: dict[str, Any], up: JsonObject | None) -> None:
    assert messages(model, **said) == (kwargs(thinking=True, thinking_effort="max") if up is None else up)


def test_a_prefilled_answer_for_llama_cpp_switches_thinking_off() -> None:
    begun = [*ASKED["messages"], {"role": "assistant", "content": "So"}]
    said: dict[str, Any] = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}
    up = sent_upstream(of_messages, KIMI, server="llamacpp", max_tokens=9, messages=begun, **said)
    assert up == kwargs(thinking=False)


def rules(text: str) -> Rules:
    return parse_rules(text.encode(), "r.yaml", Rules())
