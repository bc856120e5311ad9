"""A model's reasoning, as the request and the rules configure it; free of Flask, as the command `parse` uses it."""

from __future__ import annotations

from proxy.codec.json_text import JsonObject
from proxy.config.rules import Parse, Profile, Rules
from proxy.dialects.translation import OWN_WORDS
from proxy.healing.families import Family
from proxy.healing.reasoning import SHOWN_BY_REPLY, ThinkingRequest, ThinkingRules, think
from proxy.healing.switches import effort_words
from proxy.notations.thoughts import Thoughts


def with_thinking(
    body: JsonObject, rules: Rules, profile: Profile, family: Family | None, *, requested: str
) -> ThinkingRequest:
    """Return a request in the words of its model's family. `requested` is the client's name for the model."""
    return think(body, ThinkingRules(family, profile.thinking, rules.thinking_suffix(requested)))


def switch_of(rules: Rules, profile: Profile, model: str, family: Family | None) -> str:
    """Return the switch by which a translated client's thinking settings reach the model.

    The rules name it; by default it is the family's. A family with words for the effort takes more than a switch says.
    """
    named = rules.entry(model).thinking
    if family is None or named == "none":
        return profile.thinking
    if family.efforts is not None and not (family.efforts.top and named):
        return OWN_WORDS
    if named is not None or family.switch is None:
        return profile.thinking
    return "enable_thinking"


def efforts_of(rules: Rules, model: str, family: Family | None) -> tuple[str, ...]:
    """Return the words that set the model's effort; none if it cannot be set, or a rule forbids it."""
    return () if rules.entry(model).thinking == "none" else effort_words(family)


def thoughts_in_text(own: Thoughts, profile: Profile, parse: Parse, *, blocks: bool) -> Thoughts | None:
    """Return how reasoning is separated from the text of a reply, or None if it is not.

    `own` is the family's way; `parse` says who looks for calls in the text. If the proxy does and the family is
    unknown, the reply itself must show its reasoning. A client with `blocks` of reasoning always gets marked reasoning.
    """
    if profile.telling == "split":
        return own
    if profile.telling == "auto" and parse == "proxy":
        return own if own.family else SHOWN_BY_REPLY
    return Thoughts() if blocks else None
