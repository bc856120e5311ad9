"""What a break works on, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.harm.families import Body, Call, Family
from benchmarks.harm.offers import Offer, Shape
from benchmarks.harm.writing import CLEAN, Path, Style

Values = dict[str, Any]
# Stands where a text is cut; no value holds it, and no way of writing escapes it.
CUT = "␄"


class Inapplicable(Exception):
    """The break can do nothing to this call; another one is generated."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply before it is broken, and which of its calls will be."""

    rng: Random
    family: Family
    offers: list[Offer]
    calls: list[Call]
    target: int

    @property
    def offer(self) -> Offer:
        """The tool of the call that is broken."""
        return next(offer for offer in self.offers if offer.name == self.name)

    @property
    def name(self) -> str:
        """Its name."""
        return self.calls[self.target][0]

    @property
    def values(self) -> Values:
        """Its arguments."""
        return self.calls[self.target][1]

    def strings(self) -> list[tuple[Path, str]]:
        """All strings in the arguments, with the paths to them."""
        return strings(self.values)


def strings(values: Values) -> list[tuple[Path, str]]:
    """All strings in arguments, with the paths to them."""
    return list(_strings(values, ()))


def _strings(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield from _strings(inner, (*path, key))


@dataclass(frozen=True, slots=True)
class Broken:
    """How the call is written, and what must come of it.

    `written` are the arguments that are written, if they are others than those that are meant, `meant` those that are
    meant, if they are others than the draft's. `one`: by the rules there is exactly one reading. `also` are further
    readings that the rules allow, of which any is what was written; `says` are what each of
    two breaks writes alone. `texts` are the keys where the JSON text of the
    value that was written is as good as the string. `cut`: the reply ends at the mark; then no call may come of it.
    `last`: nothing may stand behind the call. `family` is the format as it is written, if the template is broken.
    `lead` and `tail` are the prose around the calls where it is not chosen at random. `by_tool`: the chunk with a
    call's name is numbered by the tool. `no_call`: no call may come of it. `shown` is how the result of a tool shows
    the calls that the reply writes, so that these are copies, or, with `shown_values`, similar ones.
    """

    style: Style = CLEAN
    written: Values | None = None
    meant: Values | None = None
    one: bool = True
    also: list[Values] = field(default_factory=list)
    says: list[Values] = field(default_factory=list)
    texts: frozenset[str] = frozenset()
    cut: bool = False
    finish: str = ""
    last: bool = False
    family: Family | None = None
    no_call: bool = False
    lead: str | None = None
    tail: str | None = None
    by_tool: bool = False
    shown: Callable[[str], str] | None = None
    shown_values: Values | None = None

    @property
    def is_copy(self) -> bool:
        """True if all calls of the reply are copies."""
        return self.shown is not None and self.shown_values is None


@dataclass(frozen=True, slots=True)
class Break:
    """One way to break a call. `takes` says for which families; `markup` how often values show the family's own,
    or that of others; `foreign`: that of others only. `shape` is that of the offered tools, `at_edge` says that markup
    begins or ends its value, and `whole` that nothing is broken.
    """

    name: str
    about: str
    make: Callable[[Draft], Broken]
    takes: Callable[[Family], bool] = lambda family: True
    markup: float = 0.0
    foreign: bool = False
    shape: Shape = Shape.USUAL
    at_edge: bool = False
    whole: bool = False

    @property
    def shows_markup(self) -> bool:
        """True if nothing is broken, but a value shows markup."""
        return self.name in ("own_markup", "edge_markup", "other_markup")


def in_json(family: Family) -> bool:
    """The arguments are a JSON text."""
    return family.body is Body.JSON


def bare_arguments(family: Family) -> bool:
    """The arguments are a JSON text, and the call's name stands outside of it."""
    return family.body is Body.JSON and "{" not in family.head.replace("{name}", "").replace("{n}", "")


def in_tags(family: Family) -> bool:
    """The arguments stand in tags, as raw text."""
    return family.body is Body.TAGS


def in_text(family: Family) -> bool:
    """The call stands in the text."""
    return not family.structured


def structured(family: Family) -> bool:
    """The call is a structured one."""
    return family.structured


def nested(path: Path) -> bool:
    """Whether a path leads deeper than to an argument."""
    return len(path) > 1
