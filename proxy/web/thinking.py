"""What of a request, and of the rules, says how its model thinks."""

from __future__ import annotations

from proxy.audit_record import Repair
from proxy.codec.json_text import JsonObject
from proxy.config.rules import Parse, Profile, Rules
from proxy.formats.reasoning import Thoughts
from proxy.thinking.families import family_of
from proxy.thinking.request import ThinkingRules, think
from proxy.thinking.splitting import thoughts_of


def with_thinking(
    body: JsonObject, rules: Rules, profile: Profile, *, model: str, asked: str
) -> tuple[JsonObject, tuple[Repair, ...]]:
    """A request in the words of its model's family, the very same if nothing changes; `asked` is the client's name for
    the model.
    """
    family = family_of(model, profile.family)
    suffix = rules.thinking_suffix(asked)
    return think(body, ThinkingRules(family, profile.thinking, profile.reasoning_history, suffix))


def thoughts_in(body: JsonObject, model: str, profile: Profile, parse: Parse, *, blocks: bool) -> Thoughts | None:
    """The thoughts that are told from the text of the reply to a request, None if none are; `parse` says who looks for
    calls in it. A client that has thoughts in `blocks` of their own gets those that the reply itself marks in any case.
    """
    family = family_of(model, profile.family)
    told = profile.telling == "split"
    if profile.telling == "auto":
        told = parse == "proxy" and family is not None
    if told:
        return thoughts_of(body, family)
    return Thoughts() if blocks else None
