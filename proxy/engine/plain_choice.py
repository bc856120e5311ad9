"""A choice of a reply to a request without tools: thoughts are told from its text, and nothing in it is a call."""

from __future__ import annotations

from dataclasses import dataclass, replace

from proxy.engine.call_delta import call_events
from proxy.engine.choice import Choice
from proxy.engine.choice_delta import ChoiceDelta
from proxy.engine.events import Chunk, Event, with_rest


@dataclass(slots=True, kw_only=True)
class PlainChoice(Choice):
    """As `Choice`, but that what the server says of calls passes, and that its finish stays."""

    def _feed_calls(self, chunk: Chunk, delta: ChoiceDelta, alone: bool) -> tuple[Event, ...]:
        """Calls of which no tool was offered."""
        events: list[Event] = [event for call in delta.calls for event in call_events(self.number, call)]
        before = self._take_pieces(self.reader.release())
        rest = replace(delta, calls=())
        if rest.has_content or rest.finish:
            return (*before, *self._feed_text(chunk, rest, False), *self._release_text(), *self._held.split(), *events)
        return (*before, *with_rest(self.number, events, chunk))

    def _true_finish(self) -> str:
        """The finish reason of the server."""
        return self.finish or "stop"
