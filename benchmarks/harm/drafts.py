"""Input and output of a break: the draft of a reply, and its broken form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.harm.families import Body, Call, Family
from benchmarks.harm.offers import Offer, Shape
from benchmarks.harm.writing import CLEAN, Path, Style

Values = dict[str, Any]
# Marks the position where a text is cut. It occurs in no value, and no notation escapes it.
CUT = "␄"


class Inapplicable(Exception):
    """The break does not apply to this call; another call is generated."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply before it is broken, and the call to break."""

    rng: Random
    family: Family
    offers: list[Offer]
    calls: list[Call]
    target: int

    @property
    def offer(self) -> Offer:
        """The tool of the call to break."""
        return next(offer for offer in self.offers if offer.name == self.name)

    @property
    def name(self) -> str:
        """The name of the call to break."""
        return self.calls[self.target][0]

    @property
    def values(self) -> Values:
        """The arguments of the call to break."""
        return self.calls[self.target][1]

    def strings(self) -> list[tuple[Path, str]]:
        """The strings in the arguments to break, with their paths."""
        return strings(self.values)


def strings(values: Values) -> list[tuple[Path, str]]:
    """Return all strings in arguments, with their paths."""
    return list(_strings(values, ()))


def _strings(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield from _strings(inner, (*path, key))


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken call and its expected result.

    `written` are the written arguments if they differ from the intended ones; `meant` are the intended arguments if
    they differ from the draft's. `one`: there is exactly one reading by the rules. `also` are other readings that the
    rules allow. `says` are the readings of each of two breaks alone. `texts` are keys that accept any JSON text of the
    same value. `cut`: the reply ends at CUT, and must not yield this call. `last`: nothing may follow the call.
    `family` is the format as written, if the template is broken. `lead` and `tail` are the prose around the calls if it
    is not random. `by_tool`: the chunk with a call's name has the tool's index. `no_call`: there must be no call.
    `shown` is the form in which a tool result contains the reply's calls, which makes them copies; with
    `shown_values`, it contains similar calls.
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
        """True if all calls in the reply are copies."""
        return self.shown is not None and self.shown_values is None


@dataclass(frozen=True, slots=True)
class Break:
    """One way to break a call. `takes` selects the families. `markup` is how often values contain markup; `foreign`:
    only that of other families. `shape` is the shape of the offered tools. `at_edge`: markup begins or ends its value.
    `whole`: nothing is broken.
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
        """True if nothing is broken, but a value contains markup."""
        return self.name in ("own_markup", "edge_markup", "other_markup")


def in_json(family: Family) -> bool:
    """Return whether the arguments are JSON text."""
    return family.body is Body.JSON


def bare_arguments(family: Family) -> bool:
    """Return whether the arguments are JSON text that does not contain the call's name."""
    return family.body is Body.JSON and "{" not in family.head.replace("{name}", "").replace("{n}", "")


def in_tags(family: Family) -> bool:
    """Return whether the arguments are raw text in tags."""
    return family.body is Body.TAGS


def in_text(family: Family) -> bool:
    """Return whether the call is in text."""
    return not family.structured


def structured(family: Family) -> bool:
    """Return whether the call is structured."""
    return family.structured


def nested(path: Path) -> bool:
    """Return whether a path leads into an argument."""
    return len(path) > 1
