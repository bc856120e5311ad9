"""The entry of `models` that what was found asks for, as a line for the rules file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from msgspec.structs import replace

from proxy.config.rules import Model, Parse, Rules, ServerKind, Telling, Transport, entry_with
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Finding
from proxy.exchange.plan import KEEPS_TOOLS

_PARSES: tuple[Parse, ...] = get_args(Parse)
_TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
_TELLINGS: tuple[Telling, ...] = get_args(Telling)
_SERVERS: tuple[ServerKind, ...] = get_args(ServerKind)


def entry_for(examination: Examination, findings: Sequence[Finding], rules: Rules) -> str:
    """The line for the model that was examined, what its entry says now included; "" if the rules need none."""
    now = rules.entry(examination.model)
    wanted = replace(now, match=examination.model)
    rules_of = [finding.rule for finding in findings if finding.rule is not None]
    # Where the server takes the calls out of the text in any case, the proxy has nothing to read: that is said last.
    for key, word in sorted(rules_of, key=lambda rule: rule == ("parse", "server")):
        wanted = _ruled(wanted, key, word, kind=examination.kind)
    healings = [finding.heal for finding in findings if finding.heal]
    # What the model's family, or every model, is healed by anyway needs no word.
    plan = rules.heal_plan(examination.model, examination.family)
    own = now.heal
    missing = [name for name in healings if name not in plan.ids and name not in own.off]
    if replace(wanted, match=now.match) == now and not missing:
        return ""
    return entry_with(wanted, examination.model, missing)


def _ruled(model: Model, key: str, word: str, *, kind: str) -> Model:
    """The entry with one more word."""
    if key == "parse":
        return _parsed(model, word, kind)
    if key == "upstream":
        return replace(model, transport=next(each for each in _TRANSPORTS if each == word))
    if key == "reasoning":
        # One key says who tells thoughts from the text, or which field of answers holds them.
        is_field = model.reasoning is not None and model.reasoning not in _TELLINGS
        return model if is_field else replace(model, reasoning=next(each for each in _TELLINGS if each == word))
    assert key == "server", key
    return replace(model, server_kind=next(each for each in _SERVERS if each == word))


def _parsed(model: Model, word: str, kind: str) -> Model:
    """`parse: proxy` is for servers that keep the tools in the prompt under `tool_choice: none` alone."""
    if word == "proxy" and kind not in KEEPS_TOOLS:
        return model
    return replace(model, parse=next(each for each in _PARSES if each == word))
