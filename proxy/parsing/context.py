"""What is known of the surroundings of the place where a parser reads: values that are replaced, never changed.

Behind `<tool_calls><tool_call>` that is

    Context(tools, depth=2, wrapped=True, enclosures=(Enclosure(b"<tool_calls>", …), Enclosure(b"<tool_call>", …)))

A parser that opens something gives the cursor a new context, and gives it the one from before where that is closed.
Where it breaks off instead, the context stays, and tells what is open there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proxy.tools.toolset import ToolSet


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A wrapper, or a fence, that is open: its opener as it was written, what closes it, and whether it began on a line
    of its own.
    """

    opener: bytes
    closers: tuple[bytes, ...]
    lined: bool


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Context:
    """Where a cursor stands.

    `tools` are the offered ones. `first`: the candidate is the first thing of the reply. `depth`: so many wrappers and
    fences are open, the outermost of `enclosures` first; `wrapped`: a format's own wrapper is among them. An opener
    that stands there twice counts for `depth` only, and a marker without a closer is no enclosure.

    `holds_several`: the wrapper may hold calls beside a body that names no offered tool, and that body stays text;
    `calls_before`: so many calls of the wrapper stand before the body that is read.

    `strict`: no line ends in a string. `may_go_back`: what comes to nothing may be read again from a later place.
    `in_quotation` says, once it is asked, whether a quotation is open before the candidate.
    """

    tools: ToolSet
    first: bool = False
    wrapped: bool = False
    depth: int = 0
    enclosures: tuple[Enclosure, ...] = ()
    holds_several: bool = False
    calls_before: int = 0
    strict: bool = False
    may_go_back: bool = True
    in_quotation: Callable[[], bool] = _never

    def enclosed(self, enclosure: Enclosure) -> Context:
        """The same in one enclosure more.

        An opener that stands there twice may be closed once: `<tool_call>⏎<tool_call>⏎{…}⏎</tool_call>`.
        """
        if self.enclosures and self.enclosures[-1].opener == enclosure.opener:
            return self
        return self._with(self.depth, (*self.enclosures, enclosure), wrapped=self.wrapped, several=self.holds_several)

    def within_wrapper(self, *, holds_several: bool) -> Context:
        """The same in one wrapper more."""
        return self._with(self.depth + 1, self.enclosures, wrapped=True, several=holds_several)

    def _with(self, depth: int, enclosures: tuple[Enclosure, ...], *, wrapped: bool, several: bool) -> Context:
        """The same but for these. `dataclasses.replace` takes five times as long, and each opener needs it twice."""
        return Context(
            self.tools,
            first=self.first,
            wrapped=wrapped,
            depth=depth,
            enclosures=enclosures,
            holds_several=several,
            calls_before=self.calls_before,
            strict=self.strict,
            may_go_back=self.may_go_back,
            in_quotation=self.in_quotation,
        )
