"""The rules for the requests of a model: healings, parameters, tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, get_args

from yaml.nodes import Node

from proxy.codec.json_text import Json
from proxy.config.yaml_nodes import choice, mapping, node_error, sequence, shown, text_of, value
from proxy.healing.heal import ALL, IDS
from proxy.healing.parameters import KEPT, OfferedTools, Sampling

_MOST = 100_000

BrokenCallsAs = Literal["auto", "retry", "text"]
_BROKEN_CALLS: tuple[BrokenCallsAs, ...] = get_args(BrokenCallsAs)


@dataclass(frozen=True, slots=True)
class HealRules:
    """One entry's words: the healings that are `on` beside those that always are, and those that are `off`."""

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestRules:
    """The rules of one entry of `models` for its requests; `retry` times a reply that says nothing is asked for again,
    and one that repeats itself so (`repetition`) is ended. `broken_calls`: one that ends with a call that cannot be
    read is asked for again (`auto`: where the server is known to guide its decoding), or is text.
    """

    retry: int = 1
    broken_calls: BrokenCallsAs = "auto"
    repetition: tuple[int, int] | None = None
    heal: HealRules = field(default_factory=HealRules)
    sampling: Sampling = field(default_factory=Sampling)
    tools: OfferedTools = field(default_factory=OfferedTools)


def parse_request_rules(keys: Mapping[str, Node], what: str) -> RequestRules:
    """The keys `heal`, `sampling`, `tools`, `retry` and so on of an entry of `models`, as rules for requests."""
    heal, sampling, tools = HealRules(), Sampling(), OfferedTools()
    if "heal" in keys:
        heal = _heal(keys["heal"], f"heal of {what}")
    if "sampling" in keys:
        sampling = _sampling(keys["sampling"], f"sampling of {what}")
    if "tools" in keys:
        tools = _tools(keys["tools"], f"tools of {what}")
    retry = 1
    if "retry" in keys:
        retry = _times(keys["retry"], f"retry of {what}")
    repetition = None
    if "repetition" in keys:
        repetition = _repetition(keys["repetition"], f"repetition of {what}")
    broken_calls: BrokenCallsAs = "auto"
    if "broken_calls" in keys:
        broken_calls = choice(keys["broken_calls"], f"broken_calls of {what}", _BROKEN_CALLS)
    return RequestRules(retry, broken_calls, repetition, heal, sampling, tools)


def _repetition(node: Node, what: str) -> tuple[int, int]:
    keys = mapping(node, what, ("longest", "times"))
    longest, times = (_count(keys, key, what, 2, 1000) for key in ("longest", "times"))
    if not (longest and times):
        raise node_error(node, f"{what} needs longest and times; write both")
    return longest, times


def _times(node: Node, what: str) -> int:
    times = value(node, what)
    if type(times) is not int or times not in (0, 1):
        raise node_error(node, f"{what} must be 0 or 1; write one of them")
    return times


def _healing(node: Node, what: str, allowed: tuple[str, ...]) -> str:
    name = text_of(node, what)
    if name not in allowed:
        near = ", ".join(map(shown, get_close_matches(name, allowed))) or "one of docs/healing.md"
        raise node_error(node, f"there is no healing {shown(name)}; use {near}")
    return name


def _heal(node: Node, what: str) -> HealRules:
    keys = mapping(node, what, ("on", "off"))
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    if "on" in keys:
        on = sequence(keys["on"], f"on of {what}", lambda item, words: _healing(item, words, IDS))
    if "off" in keys:
        off = sequence(keys["off"], f"off of {what}", lambda item, words: _healing(item, words, (*IDS, ALL)))
    return HealRules(on, off)


def _sampling(node: Node, what: str) -> Sampling:
    keys = mapping(node, what, ("set", "default", "strip", "at_most"))
    strip: tuple[str, ...] = ()
    if "strip" in keys:
        strip = sequence(keys["strip"], f"strip of {what}", _field)
    return Sampling(
        set=_fields(keys, "set", what),
        default=_fields(keys, "default", what),
        strip=strip,
        at_most={name: _number(inner, f"{name} of {what}") for name, inner in _nodes(keys, "at_most", what).items()},
    )


def _nodes(keys: Mapping[str, Node], key: str, what: str) -> dict[str, Node]:
    if key not in keys:
        return {}
    nodes = mapping(keys[key], f"{key} of {what}")
    for name, inner in nodes.items():
        _check_field(inner, name, what)
    return nodes


def _fields(keys: Mapping[str, Node], key: str, what: str) -> dict[str, Json]:
    return {name: value(inner, f"{name} of {what}") for name, inner in _nodes(keys, key, what).items()}


def _field(node: Node, what: str) -> str:
    name = text_of(node, what)
    _check_field(node, name, what)
    return name


def _check_field(node: Node, name: str, what: str) -> None:
    if name in KEPT:
        raise node_error(node, f"{shown(name)} cannot be changed by a rule; take it out of {what}")


def _number(node: Node, what: str) -> float:
    number = value(node, what)
    if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
        raise node_error(node, f"{what} must be a number above 0; write one")
    return number


def _tools(node: Node, what: str) -> OfferedTools:
    keys = mapping(node, what, ("drop", "describe", "polls", "most_repeats"))
    drop: tuple[str, ...] = ()
    if "drop" in keys:
        drop = sequence(keys["drop"], f"drop of {what}", text_of)
    polls: tuple[str, ...] = ()
    if "polls" in keys:
        polls = sequence(keys["polls"], f"polls of {what}", text_of)
    return OfferedTools(
        drop, _count(keys, "describe", what, 1), polls, most_repeats=_count(keys, "most_repeats", what, 2)
    )


def _count(keys: Mapping[str, Node], key: str, what: str, least: int, most: int = _MOST) -> int:
    """A whole number from `least` to `most`; 0 where nothing is said."""
    if key not in keys:
        return 0
    number = value(keys[key], f"{key} of {what}")
    if type(number) is not int or not least <= number <= most:
        raise node_error(keys[key], f"{key} of {what} must be a number from {least} to {most}; write one")
    return number
