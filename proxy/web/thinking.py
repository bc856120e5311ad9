"""Reasoning settings from requests and rules. Does not import Flask, because the command `parse` uses it."""

from __future__ import annotations

from proxy.config.rules import Parse, Profile, Rules
from proxy.dialects.translation import OWN_WORDS
from proxy.healing.families import Family
from proxy.healing.reasoning import SHOWN_BY_REPLY, ThinkingRequest, effort_words, think
from proxy.json import JsonObject
from proxy.notations.thoughts import Thoughts


def with_thinking(
    body: JsonObject, rules: Rules, profile: Profile, family: Family | None, *, requested: str
) -> ThinkingRequest:
    """Return a request with reasoning settings in its family's form. `requested` is the client's name for the model."""
    return think(body, family, profile.thinking, rules.thinking_suffix(requested))


def switch_of(rules: Rules, profile: Profile, model: str, family: Family | None) -> str:
    """Return the switch that carries the thinking settings of a translated request to the model.

    The rules name it; the default is the family's switch. A family with words for the effort needs OWN_WORDS instead.
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
    """Return the words that set the model's effort; empty if it cannot be set, or a rule forbids it."""
    return () if rules.entry(model).thinking == "none" else effort_words(family)


def thoughts_in_text(own: Thoughts, profile: Profile, parse: Parse, *, blocks: bool) -> Thoughts | None:
    """Return how to separate reasoning from the text of a reply, or None to leave it in the text.

    `own` is the family's format, and `parse` is who parses. If the proxy parses and the family is unknown, only marks
    in the reply show its reasoning. `blocks`: the dialect has blocks for reasoning, so marked reasoning is always
    separated.
    """
    if profile.telling == "split":
        return own
    if profile.telling == "auto" and parse == "proxy":
        return own if own.family else SHOWN_BY_REPLY
    return Thoughts() if blocks else None
