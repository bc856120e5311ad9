"""Findings of probes: the words, the harm, the proxy's answer to it, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.doctor.examination import Examination


# The id of what is said in the place of a probe that came behind the end of the time.
NOT_EXAMINED = "not_examined"


class Level(Enum):
    """The weight of a finding."""

    GOOD = "good"
    NOTE = "note"
    HARM = "harm"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that a probe can find. `what`, `harm` and `remedy` may hold the values of the `Found`: `{words}`.

    `rule` is the key and the word of the model's entry in the rules that mends it, `heal` the healing; for `server` the
    word is the kind that was found.
    """

    id: str
    level: Level
    what: str
    harm: str = ""
    proxy: str = ""
    remedy: str = ""
    rule: tuple[str, str] | None = None
    heal: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """One result of a probe: the id of its words, and the values in them."""

    id: str
    values: Mapping[str, str] = field(default_factory=dict)


def found(name: str, **values: object) -> Found:
    """A `Found` with these values."""
    return Found(name, {key: str(value) for key, value in values.items()})


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: what it looks at, how, and all that it can find."""

    id: str
    title: str
    look: Callable[[Examination], Iterator[Found]]
    tells: tuple[Told, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding on this server, in words."""

    id: str
    probe: str
    level: Level
    what: str
    harm: str = ""
    proxy: str = ""
    remedy: str = ""
    rule: tuple[str, str] | None = None
    heal: str = ""


def findings_of(probe: Probe, examination: Examination) -> Iterator[Finding]:
    """The findings of a probe, in words."""
    tells = {told.id: told for told in probe.tells}
    for item in probe.look(examination):
        yield _in_words(probe, tells[item.id], item.values)


def _in_words(probe: Probe, told: Told, values: Mapping[str, str]) -> Finding:
    what, harm, proxy, remedy = (text.format_map(values) for text in (told.what, told.harm, told.proxy, told.remedy))
    rule = None
    if told.rule is not None:
        rule = (told.rule[0], told.rule[1].format_map(values))
    return Finding(told.id, probe.id, told.level, what, harm, proxy, remedy, rule, told.heal)
