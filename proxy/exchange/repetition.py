"""A model that says the same over and over, told by an exact period at the end of its text. Off unless a rule asks.

`{longest: 100, times: 20}`: the last 2,000 characters repeat a piece of at most 100. Nothing is told of what words
mean, and a line of dashes is not long enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.engine.events import CallArguments, Event, Reasoning, Text, Unchanged


@dataclass(frozen=True, slots=True)
class Period:
    """The bounds of a repetition: a piece of at most `longest` characters, over as many as `times` of the longest would
    take.
    """

    longest: int
    times: int

    @property
    def stretch(self) -> int:
        """The characters that are looked at."""
        return self.longest * self.times


class RepetitionWatch:
    """Looks at the end of a text that is being written; its work is linear in it."""

    def __init__(self, period: Period) -> None:
        self._period = period
        self._recent = ""
        self._new = 0
        self.repeated = ""

    def observe(self, event: Event) -> None:
        """Take what an event says."""
        match event:
            case Unchanged():
                for inner in event.events:
                    self.observe(inner)
            case Text() | Reasoning():
                self.feed(event.text)
            case CallArguments():
                self.feed(event.fragment)

    def feed(self, text: str) -> None:
        """Take the next text; `repeated` is the piece that repeats, once one does."""
        period = self._period
        self._recent = (self._recent + text)[-period.stretch :]
        self._new += len(text)
        if self._new >= period.longest and len(self._recent) == period.stretch:
            self._new = 0
            self.repeated = self._repeated()

    def _repeated(self) -> str:
        recent = self._recent
        for size in range(1, self._period.longest + 1):
            # The two characters tell nearly always that it is none; only then the whole is compared.
            if recent[-1] == recent[-1 - size] and recent.startswith(recent[size:]):
                return recent[-size:]
        return ""

    @property
    def record(self) -> tuple[Repair, ...]:
        """The audit record of the repetition, if there was one."""
        if not self.repeated:
            return ()
        why = "the model repeated itself; the model server was told to stop"
        return (Repair("repetition", self.repeated, "", why),)
