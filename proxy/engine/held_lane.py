"""The lane of a call that is written as text: events whose text only waits with the rest of it.

    {"name": "write", "arguments": {"content": "def say(
                                                |------ each event says some of this, and nothing else

A call is read at an end tag, and when the text that waits has grown by an eighth. Until then all that comes of it only
waits, so events that differ from one that was parsed by such a text alone are taken without a look at each, and told
to the engine together (`Engine.hold`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from proxy.codec.json_access import objects_in
from proxy.engine.choice_delta import read_choice
from proxy.engine.events import Chunk, says_more
from proxy.engine.fast_path import learn
from proxy.engine.lane import WAITING, Lane, lane_of, unescaped

# Bytes of events that are taken before the engine is told.
MAX_TAKEN = 16 * 1024


@dataclass(frozen=True, slots=True)
class HeldShape:
    """The shape of events that say nothing but a text: the lane for them, and the chunk of which it was learned."""

    lane: Lane
    chunk: Chunk

    def fits(self, raw: bytes) -> bool:
        """True for an event of this shape, whatever its text is."""
        template = self.lane.template
        return raw.startswith(template.before) and raw.endswith(template.after)


def held_shape(chunk: Chunk, choice: int) -> HeldShape | None:
    """The shape of a chunk of one choice; None if it says more than a text, or it cannot be told where that stands."""
    if says_more(chunk):
        return None
    [entry, *_] = objects_in(chunk.body.get("choices"))
    delta = read_choice(entry)
    if delta.reasoning or not delta.has_only_content:
        return None
    template = learn(chunk, choice, delta.text, reasoning=False)
    lane = None if template is None else lane_of(template, WAITING)
    return None if lane is None else HeldShape(lane, chunk)


@dataclass(slots=True)
class HeldLane:
    """Takes events of one shape whose texts have at most `room` bytes in all; `text_size` have come in `size` bytes."""

    shape: HeldShape
    room: int
    size: int = 0
    text_size: int = 0
    texts: list[bytes] = field(default_factory=list)

    def take(self, body: bytes) -> bool:
        """Take the next bytes of the body, if they are nothing but such events, and there is room for them."""
        if self.size + len(body) > MAX_TAKEN:
            return False
        texts = self.shape.lane.texts(body)
        if texts is None:
            return False
        more = sum(map(len, texts))
        if self.text_size + more > self.room:
            return False
        self.texts += texts
        self.size += len(body)
        self.text_size += more
        return True

    def chunks(self, number: Callable[[bytes], int]) -> Iterator[tuple[Chunk, str]]:
        """The events that were taken, each as a chunk and its text; `number` is asked for those of the chunks.

        Of the body that they share only the text is another one, which nobody reads there: they say nothing else.
        """
        template, body = self.shape.lane.template, self.shape.chunk.body
        for text in self.texts:
            raw = template.before + text + template.after
            yield Chunk(body, raw, number(raw)), unescaped(text)
