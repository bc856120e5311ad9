"""The thinking of a model, as a request and the rules say it."""

from __future__ import annotations

from proxy.codec.json_text import JsonObject
from proxy.config.rules import Parse, Profile, Rules
from proxy.dialects.model_options import OWN_WORDS
from proxy.formats.reasoning import Thoughts
from proxy.thinking.families import family_of
from proxy.thinking.request import ThinkingRequest, ThinkingRules, think
from proxy.thinking.switches import effort_words


def with_thinking(body: JsonObject, rules: Rules, profile: Profile, *, model: str, requested: str) -> ThinkingRequest:
    """A request in the words of its model's family; `requested` is the client's name for the model."""
    family = family_of(model, profile.family)
    suffix = rules.thinking_suffix(requested)
    return think(body, ThinkingRules(family, profile.thinking, profile.reasoning_history, suffix))


def switch_of(rules: Rules, profile: Profile, model: str) -> str:
    """The switch by which what a translated client says of thinking reaches the model: what the rules name, or, where
    they say nothing, one that becomes the family's own. A family with words for the effort has more than a switch says.
    """
    family, named = family_of(model, profile.family), rules.entry(model).thinking
    if family is None or named == "none":
        return profile.thinking
    if family.efforts is not None and not (family.efforts.top and named):
        return OWN_WORDS
    if named is not None or family.switch is None:
        return profile.thinking
    return "enable_thinking"


def efforts_of(rules: Rules, profile: Profile, model: str) -> tuple[str, ...]:
    """The words by which a model can be told how much to think; none where it cannot be told, or a rule forbids it."""
    if rules.entry(model).thinking == "none":
        return ()
    return effort_words(family_of(model, profile.family))


def thoughts_in_text(own: Thoughts, model: str, profile: Profile, parse: Parse, *, blocks: bool) -> Thoughts | None:
    """The thoughts that are told from the text of a reply, `own` as the family has them; None if none are. `parse`
    says who looks for calls in it. A client that has thoughts in `blocks` of their own gets those that the reply itself
    marks in any case.
    """
    split = profile.telling == "split"
    if profile.telling == "auto":
        split = parse == "proxy" and family_of(model, profile.family) is not None
    if split:
        return own
    return Thoughts() if blocks else None
