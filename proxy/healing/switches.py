"""Translation of the clients' words for reasoning effort to the model's own.

Clients send `reasoning_effort`, `enable_thinking`, `thinking` or OpenRouter's `reasoning`. A chat template reads only
one variable, and some raise on an unknown word. The client's value for the template's own variable takes precedence.

    {"reasoning_effort": "none"}         {"chat_template_kwargs": {"enable_thinking": false}}        Qwen3
    {"reasoning_effort": "xhigh"}        {"chat_template_kwargs": {"thinking_effort": "max"}}        Kimi K3
"""

from __future__ import annotations

from proxy.healing.conversation import without
from proxy.healing.families import Efforts, Family, Switch
from proxy.json import Json, JsonObject, as_object, dump_json
from proxy.repair.record import Repair

_KWARGS = "chat_template_kwargs"
_EFFORT = "reasoning_effort"
_SWITCHES = ("enable_thinking", "thinking")
# The fields in which clients set thinking, besides the template's own variable.
_FIELDS = (*_SWITCHES, "reasoning", _EFFORT)
_OFF = ("none", "minimal")
_WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# The suffixes of a model name that set thinking: `qwen3:nothink`.
SUFFIXES = ("think", "nothink", *_WORDS)
# The words offered to users, from the least to the most effort.
_OFFERED = ("none", "low", "medium", "high", "xhigh")
_TYPES = {"enabled": True, "adaptive": True, "disabled": False}


def of_rules(switch: str) -> Family | None:
    """Return a family with the switch that the rules name, for a model of unknown family; None if they name none."""
    if switch == _EFFORT:
        words = {**{word: word for word in _WORDS}, "none": "low", "minimal": "low", "xhigh": "high", "max": "high"}
        return Family("", "", efforts=Efforts(_EFFORT, words, top=True))
    return Family("", "", switch=Switch(switch)) if switch in _SWITCHES else None


def switched(body: JsonObject, family: Family | None, suffix: str = "") -> tuple[JsonObject, tuple[Repair, ...]]:
    """Return the request in the words of the family; the same object if nothing changes.

    `suffix` is the suffix of the model's name; it takes precedence over everything else.
    """
    if family is None or not (family.switch or family.efforts):
        return body, ()
    switch, efforts = family.switch, family.efforts
    switches = (switch.name, *switch.also) if switch else ()
    own = (*switches, efforts.name) if efforts and not efforts.top else switches
    foreign = tuple(name for name in _SWITCHES if name not in own)
    on, effort = _of_suffix(suffix) if suffix else _wish(body, foreign)
    if on is None and not effort:
        return body, ()
    variables = without(as_object(body.get(_KWARGS)), *foreign, *(own if suffix else ()))
    made = without(body, *_FIELDS, _KWARGS)
    if switch:
        wanted = effort not in _OFF if on is None and efforts is None else on
        if wanted is not None and variables.keys().isdisjoint(switches):
            variables[switch.name] = switch.on if wanted else switch.off
    word = efforts.words.get(effort or "on") if efforts else None
    if efforts and word is not None:
        if efforts.top:
            made[efforts.name] = word
        else:
            variables.setdefault(efforts.name, word)
    if variables:
        made[_KWARGS] = variables
    if made == body:
        return body, ()
    record = Repair("thinking", _shown(body), _shown(made), "thinking is switched in the model's own words")
    # Keep the client's order. New fields precede the messages, which stay last (contract C8).
    first = {name: value for name, value in made.items() if name not in body}
    return {**first, **{name: made[name] for name in body if name in made}}, (record,)


def effort_words(family: Family | None) -> tuple[str, ...]:
    """Return the effort words with distinct meanings for the family; none if it has no effort."""
    if family is None or family.efforts is None:
        return ("none", "medium") if family and family.switch else ()
    words: dict[str, str] = {}
    for word in _OFFERED:
        meant = family.efforts.words.get(word, "")
        if meant not in words or word == meant:
            words[meant] = word
    return tuple(words.values())


def _of_suffix(suffix: str) -> tuple[bool | None, str]:
    return (suffix == "think", "") if suffix in ("think", "nothink") else _of_effort(suffix)


def _of_effort(word: Json) -> tuple[bool | None, str]:
    """Return whether thinking is wanted, and its effort; (None, "") for an unknown word."""
    if word not in _WORDS:
        return None, ""
    return False if word == "none" else None, str(word)


def _wish(body: JsonObject, foreign: tuple[str, ...]) -> tuple[bool | None, str]:
    """Return the client's wish from fields that the template does not read."""
    variables, reasoning = as_object(body.get(_KWARGS)), as_object(body.get("reasoning"))
    thinking = body.get("thinking")
    if not isinstance(thinking, bool):  # other APIs send {"type": "disabled"}
        thinking = _TYPES.get(str(as_object(thinking).get("type")))
    switches = [*map(variables.get, foreign), body.get("enable_thinking"), thinking, reasoning.get("enabled")]
    on = next((value for value in switches if isinstance(value, bool)), None)
    wanted, effort = _of_effort(body.get(_EFFORT) or reasoning.get("effort"))
    if on is None:
        return wanted, effort
    return on, effort if on else "none"


def _shown(body: JsonObject) -> str:
    return dump_json({name: body[name] for name in (*_FIELDS, _KWARGS) if name in body}).decode()
