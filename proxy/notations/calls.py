"""What the reader finds: calls, and what opened them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from proxy.codec.json_text import JsonObject
from proxy.notations.source import NoCall
from proxy.notations.strings import NOT_ODD, Oddity
from proxy.tools.toolset import Tool


@dataclass(slots=True, eq=False)
class Call:
    """A call that was read from text[start:end]. `tool` is None if no tool of the name `written` is offered.

    `loose`: it counts as the whole reply only. `completed`: closing brackets were missing. `told`: the end of a
    string was inferred from what follows it. `json`: it is an object that says its name. `tagged`: its name is in a
    tag. `closed_itself`: its own end tag was found. `bare`: it is a name and arguments. `in_list`: it is an item of a
    list. `unclosed`: its notation closes nothing. `odd`: how its JSON differs from JSON.
    """

    tool: Tool | None
    written: str
    arguments: JsonObject
    start: int
    end: int
    loose: bool = False
    id: str = ""
    completed: bool = False
    told: bool = False
    json: bool = False
    tagged: bool = False
    closed_itself: bool = False
    bare: bool = False
    in_list: bool = False
    unclosed: bool = False
    odd: frozenset[Oddity] = NOT_ODD

    @property
    def spoils_row(self) -> bool:
        """True for a call of no offered tool beside which no weak call counts: it may be code."""
        return self.tool is None and (self.in_list or not self.json or self.loose)

    @property
    def name(self) -> str:
        """The name of the offered tool, or the name that was written."""
        return self.tool.name if self.tool else self.written


@dataclass(frozen=True, slots=True)
class Opener:
    """What opened a wrapper, up to `end`, written as `text`.

    `tag`: it is a tag. `name` is a tool's name in it. `no_closer`: the call alone is enough. `weak`: it proves nothing.
    """

    end: int
    closers: tuple[str, ...] = ()
    tag: bool = False
    name: str = ""
    no_closer: bool = False
    weak: bool = False
    text: str = ""


class JsonArguments(NamedTuple):
    """Arguments in JSON, their end, whether the end of a string was inferred, whether brackets were missing, and how
    they differ from JSON.
    """

    value: JsonObject
    end: int
    told: bool
    completed: bool
    odd: frozenset[Oddity] = NOT_ODD


NO_OPENER = Opener(0, weak=True)
# Calls, and the position after them.
ReadCalls: TypeAlias = tuple[list[Call], int]


def closed_calls(calls: list[Call], refusal: NoCall) -> list[Call]:
    """Return the calls that their own end tags close; raise the refusal if there is none, or one is not offered."""
    closed = [call for call in calls if call.closed_itself]
    if not closed or any(call.tool is None for call in closed):
        raise refusal
    return closed
