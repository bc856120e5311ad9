"""Clients' words for how much a model is to think, in the model's own.

Clients send `reasoning_effort`, `enable_thinking`, `thinking` or OpenRouter's `reasoning`; chat templates read one
variable each, and some raise on a word that they do not know. What the client says in the template's own variable wins.

    {"reasoning_effort": "none"}         {"chat_template_kwargs": {"enable_thinking": false}}        Qwen3
    {"reasoning_effort": "xhigh"}        {"chat_template_kwargs": {"thinking_effort": "max"}}        Kimi K3
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_access import as_object
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.healing.families import Efforts, Family, Switch

_KWARGS = "chat_template_kwargs"
_EFFORT = "reasoning_effort"
# The fields in which clients say it, beside the template's own variable.
_FIELDS = ("enable_thinking", "thinking", "reasoning", _EFFORT)
_OFF = ("none", "minimal")
_WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# The suffixes of a model's name that say it: `qwen3:nothink`.
SUFFIXES = ("think", "nothink", *_WORDS)
# Those that are offered to a person, from the least to the most.
_OFFERED = ("none", "low", "medium", "high", "xhigh")
_TYPES = {"enabled": True, "adaptive": True, "disabled": False}


@dataclass(frozen=True, slots=True)
class _Wish:
    """A client's wish: thinking on or off, None if it does not say; how much of it, "" if it does not say."""

    on: bool | None = None
    effort: str = ""

    @property
    def says_something(self) -> bool:
        return self.on is not None or self.effort != ""


def of_rules(switch: str) -> Family | None:
    """The switch that the rules name for a model of no known family: the name of its switch; None if it has none."""
    if switch == _EFFORT:
        words = {**{word: word for word in _WORDS}, "none": "low", "minimal": "low", "xhigh": "high", "max": "high"}
        return Family("", (), efforts=Efforts(_EFFORT, words, top=True))
    if switch in ("enable_thinking", "thinking"):
        return Family("", (), switch=Switch(switch))
    return None


def switched(body: JsonObject, family: Family | None, suffix: str = "") -> tuple[JsonObject, tuple[Repair, ...]]:
    """The request in the words of the family, the very same if nothing changes; `suffix` is what the model's name says,
    over all else.
    """
    if family is None:
        return body, ()
    own = _own_names(family)
    foreign = tuple(name for name in ("enable_thinking", "thinking") if name not in own)
    wish = _of_suffix(suffix) if suffix else _wish(body, foreign)
    if not wish.says_something or not _listens(family):
        return body, ()
    silenced = (*own, *foreign) if suffix else foreign
    variables = _without(as_object(body.get(_KWARGS)), silenced)
    made = _without(body, (*_FIELDS, _KWARGS)) | _say(variables, family, wish)
    if variables:
        made[_KWARGS] = variables
    if made == body:
        return body, ()
    before, after = _shown(body), _shown(made)
    return _in_order(made, body), (Repair("thinking", before, after, "thinking is switched in the model's own words"),)


def effort_words(family: Family | None) -> tuple[str, ...]:
    """The words for the effort of which each means something else to the family; none where it cannot be told."""
    if family is None or not _listens(family):
        return ()
    if family.efforts is None:
        return ("none", "medium")
    words: dict[str, str] = {}
    for word in _OFFERED:
        meant = family.efforts.words.get(word, "")
        if meant not in words or word == meant:
            words[meant] = word
    return tuple(words.values())


def _listens(family: Family) -> bool:
    """True if the family's thinking can be switched at all."""
    return family.switch is not None or family.efforts is not None


def _without(fields: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {name: value for name, value in fields.items() if name not in names}


def _own_names(family: Family) -> tuple[str, ...]:
    """The variables that the family's template reads."""
    names: list[str] = []
    if family.switch is not None:
        names += (family.switch.name, *family.switch.also)
    if family.efforts is not None and not family.efforts.top:
        names.append(family.efforts.name)
    return tuple(names)


def _of_suffix(suffix: str) -> _Wish:
    if suffix in ("think", "nothink"):
        return _Wish(on=suffix == "think")
    return _of_effort(suffix)


def _of_effort(word: Json) -> _Wish:
    """A word for the effort; one that nobody knows says nothing."""
    if word not in _WORDS:
        return _Wish()
    effort = str(word)
    return _Wish(on=False if effort == "none" else None, effort=effort)


def _wish(body: JsonObject, foreign: tuple[str, ...]) -> _Wish:
    """The client's wish in fields that the template does not read."""
    variables = as_object(body.get(_KWARGS))
    reasoning = as_object(body.get("reasoning"))
    switches = [variables.get(name) for name in foreign]
    switches += [body.get("enable_thinking"), _of_type(body.get("thinking")), reasoning.get("enabled")]
    on = next((value for value in switches if isinstance(value, bool)), None)
    wish = _of_effort(body.get(_EFFORT) or reasoning.get("effort"))
    if on is None:
        return wish
    return _Wish(on, wish.effort if on else "none")


def _of_type(thinking: Json) -> bool | None:
    """`thinking` as a truth, or as other APIs have it: `{"type": "disabled"}`."""
    if isinstance(thinking, bool):
        return thinking
    return _TYPES.get(str(as_object(thinking).get("type")))


def _say(variables: JsonObject, family: Family, wish: _Wish) -> JsonObject:
    """Say it in the template's variables, where the client has not done so itself; gives what is said at the top."""
    if family.switch is not None:
        _say_switch(variables, family.switch, wish, by_effort=family.efforts is None)
    if family.efforts is None:
        return {}
    return _say_effort(variables, family.efforts, wish)


def _say_switch(variables: JsonObject, switch: Switch, wish: _Wish, *, by_effort: bool) -> None:
    on = wish.on
    if on is None and by_effort:
        on = wish.effort not in _OFF
    if on is None or any(name in variables for name in (switch.name, *switch.also)):
        return
    variables[switch.name] = switch.on if on else switch.off


def _say_effort(variables: JsonObject, efforts: Efforts, wish: _Wish) -> JsonObject:
    word = efforts.words.get(wish.effort or "on")
    if word is None:
        return {}
    if efforts.top:
        return {efforts.name: word}
    variables.setdefault(efforts.name, word)
    return {}


def _shown(body: JsonObject) -> str:
    fields = {name: body[name] for name in (*_FIELDS, _KWARGS) if name in body}
    return dump_json(fields).decode()


def _in_order(made: JsonObject, body: JsonObject) -> JsonObject:
    """With the fields in the order of the client's, new ones before the messages, so that these stay the end (C8)."""
    first = {name: value for name, value in made.items() if name not in body}
    return {**first, **{name: made[name] for name in body if name in made}}
