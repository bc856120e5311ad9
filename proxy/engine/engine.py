"""The engine: converts upstream chunks to events, for streamed and whole replies.

It has no I/O and no clock. A chunk that needs no change is returned as `Unchanged` with its own bytes. Text is held
only while it can become a call (contract C2). Finish reasons are corrected at the end (contract C4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from proxy.engine.calls import Calls
from proxy.engine.choice import Choice
from proxy.engine.events import (
    CallArguments,
    Chunk,
    ContentEvent,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
    Usage,
    choice_number,
    says_more,
    says_more_at_its_top,
)
from proxy.engine.lane import ANY_TEXT, WAITING, Lane, Template, learn
from proxy.engine.reading import CallDelta, choice_entries, finish_of, read_choice
from proxy.engine.task import Task
from proxy.engine.whole_messages import WholeMessages, events_of
from proxy.errors import UnreadableReply, UpstreamBroken, refusal
from proxy.json import Json, JsonObject, as_object, dump_json
from proxy.limits import MAX_CHOICES
from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.stream import Channel
from proxy.notations.thoughts import Thoughts
from proxy.notations.toolset import ToolSet
from proxy.repair.record import Repair
from proxy.repair.repairer import Repairer

# Stop learning after this number of chunks without a match.
_MAX_LESSONS = 16
_DETAILS, _COUNT = "completion_tokens_details", "reasoning_tokens"


class Engine:
    """Converts the chunks of one reply to events. Feed nothing after a `Failed` or after `finish`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        # Neither calls nor reasoning are looked for in the reply.
        self._passes = task.tools is None and task.thoughts is None
        self._tools = task.tools or ToolSet(())
        self._copies = Copies(self._tools, task.sources, task.made)
        self._choices: dict[int, Choice] = {}
        self._finished: dict[int, bool] = {}
        # Chunks that wait for the end of the reply, and their events.
        self._trailing: list[tuple[Chunk, tuple[ContentEvent, ...]]] = []
        self._messages = WholeMessages()
        # The number of tokens of the separated reasoning, for the usage at the end of the reply.
        self.thought_tokens = 0
        # The learned shape of chunks, the lane for them, and the number of chunks since one of this shape.
        self._template: Template | None = None
        self._lane: Lane | None = None
        self._lessons = 0

    # Facts about the reply.

    @property
    def thoughts(self) -> str:
        """The reasoning separated from the text. Servers do not count its tokens separately."""
        return "".join(choice.thoughts for choice in self._choices.values())

    @property
    def wants_count(self) -> bool:
        """True if the held usage must include the number of reasoning tokens."""
        return any(says_usage(chunk) for chunk, _ in self._trailing) and self.thoughts != ""

    @property
    def held(self) -> bool:
        """True while text is held that may become a call."""
        return any(choice.held for choice in self._choices.values())

    @property
    def size(self) -> int:
        """The number of held characters, text and arguments, that the next step may have to read again."""
        return sum(choice.size for choice in self._choices.values())

    @property
    def audit(self) -> tuple[Repair, ...]:
        """The repairs so far (contract C6)."""
        return tuple(repair for choice in self._choices.values() for repair in choice.audit)

    @property
    def refusals(self) -> Mapping[str, int]:
        """The number of rejected texts that looked like a call, by reason."""
        counts = Counter[str]()
        for choice in self._choices.values():
            counts += choice.reader.refusals + choice.calls.refused
        return counts

    @property
    def empty_calls(self) -> int:
        """The number of calls sent without the arguments that their tool requires (F25)."""
        return sum(choice.calls.empty for choice in self._choices.values())

    @property
    def calls(self) -> int:
        """The number of calls opened so far."""
        return sum(choice.calls.count for choice in self._choices.values())

    @property
    def broken_call(self) -> Text | None:
        """The unreadable call at the end of a reply that has one choice and no other calls, or None."""
        broken = [choice.broken_call for choice in self._choices.values()]
        return broken[0] if len(broken) == 1 else None

    @property
    def ends_in_thought(self) -> bool:
        """True if the text of a choice ended in separated reasoning."""
        return any(choice.reader.closer for choice in self._choices.values())

    # Chunks.

    def feed(self, chunk: Chunk) -> tuple[Event, ...]:
        """Take one upstream chunk and return the resulting events."""
        events = self._feed(chunk)
        self._learn(chunk, events)
        return events

    def _feed(self, chunk: Chunk) -> tuple[Event, ...]:
        # {"error": {"message": "out of memory", "code": 500}}, {"object": "error", "message": "out of memory"},
        # {"detail": "out of memory"}
        body = chunk.body
        flat = body if body.get("object") == "error" else None if "choices" in body else body.get("detail")
        error = body.get("error") or flat
        if error:
            quoted = dump_json({"error": error}) if isinstance(error, dict) else None
            return (*self.release(), Failed(refusal(error, body=quoted)))
        try:
            entries = choice_entries(chunk.body)
            if chunk.streamed:
                chunk, entries = self._messages.with_deltas(chunk, entries)
            if self._passes or not chunk.body.get("choices"):
                return self._unparsed(chunk, entries)
            deltas = [read_choice(entry) for entry in entries]
        except UnreadableReply as unreadable:
            return (*self.release(), Failed(unreadable))
        alone = chunk.body["choices"] == entries[:1]
        events: list[Event] = []
        for number, (entry, delta) in enumerate(zip(entries, deltas, strict=True)):
            choice = self._choice(choice_number(entry.get("index")), whole=not chunk.streamed)
            if delta.sign_of_life and alone and chunk.streamed and not says_more_at_its_top(chunk):
                # {"choices": [{"index": 0, "delta": {}, "finish_reason": null}]} ends clients' text parts (F64). Drop
                # it: the proxy sends its own heartbeats.
                return ()
            part = chunk if alone else chunk.part(entry, first=number == 0)
            events += choice.take(part, delta, alone=alone and chunk.streamed)
            self._finished[choice.number] = choice.finish is not None
        return tuple(events)

    def _unparsed(self, chunk: Chunk, choices: list[JsonObject]) -> tuple[Event, ...]:
        """Pass a chunk without reading its text.

        A chunk with a finish reason waits for the end of the body. So does one without choices (usage or unknown
        content) while a finish reason is held.
        """
        waits = not choices and (any(self._finished.values()) or not chunk.streamed)
        for entry in choices:
            number = choice_number(entry.get("index"))
            ends = finish_of(entry) is not None
            self._finished[number] = ends or self._finished.get(number, False)
            waits |= ends
        events = events_of(chunk)
        if waits:
            self._trailing.append((chunk, events))
            return ()
        return (chunk.unchanged(events),)

    def release(self) -> tuple[Event, ...]:
        """Release held text. Only a finish reason stays held."""
        return tuple(event for choice in self._choices.values() for event in choice.release())

    def finish(self, *, done: bool) -> tuple[Event, ...]:
        """Take the proper end of the upstream's body and return the rest of the events.

        The reply is complete if the upstream sent `[DONE]` (`done`) or a finish reason for every choice (contract C4,
        F57).
        """
        if not self._finished or not (done or all(self._finished.values())):
            return (*self.release(), Failed(UpstreamBroken("the model server's reply ended before it was finished")))
        events: list[Event] = []
        for choice in self._choices.values():
            events += choice.end()
            if isinstance(events[-1], Failed):
                return tuple(events)
        if self._passes:
            events += [Finished(number, "stop", None) for number, finished in self._finished.items() if not finished]
        for chunk, said in self._trailing:
            if self.thought_tokens and says_usage(chunk):
                events.append(Usage(with_thought_tokens(as_object(chunk.body.get("usage")), self.thought_tokens)))
            else:
                events.append(chunk.unchanged(said))
        return tuple(events)

    # Chunks that differ only in their text.

    def _learn(self, chunk: Chunk, events: tuple[Event, ...]) -> None:
        """Learn the shape of a chunk that was forwarded unchanged and has one text or one call fragment."""
        self._lessons += 1
        if self._lessons > _MAX_LESSONS:
            return
        match events:
            case (Unchanged(raw=raw, sequence=sequence, events=(Text() | Reasoning() | CallArguments() as content,)),):
                if raw != chunk.raw or sequence != chunk.sequence:
                    return  # an earlier chunk, or one that had a whole message
            case _:
                return
        self._shape(chunk, content)

    def _shape(self, chunk: Chunk, content: Text | Reasoning | CallArguments) -> Template | None:
        """Return the template of a chunk whose only content is this event, and remember it."""
        if self._template is None or not self._template.fits(chunk.raw):
            self._template = learn(chunk, content)
        return self._template

    def lane(self) -> Lane | None:
        """Return the lane in which events may pass unparsed now, or None."""
        template = self._template
        if template is None or self._finished[template.event.choice]:
            return None
        choice = self._choices.get(template.event.choice)
        if choice is not None:
            plain = choice.lane(template.event)
        else:  # the reply is not searched for calls
            plain = None if isinstance(template.event, CallArguments) else ANY_TEXT
        if plain is None:
            return None
        if self._lane is None or self._lane.template is not template or self._lane.plain is not plain:
            self._lane = Lane(template, plain)
        return self._lane

    def held_lane(self) -> Lane | None:
        """Return the lane for events that only continue a held call in the text, or None.

        {"name": "write", "arguments": {"content": "def say(
                                                    |------ each event says some of this, and nothing else
        """
        if len(self._choices) != 1:
            return None
        [choice] = self._choices.values()
        room, newest = choice.room, choice.newest_held
        if room <= 0 or newest is None or says_more(newest[1]):
            return None
        text, chunk = newest
        template = self._shape(chunk, Text(choice.number, text))
        # Each held event needs its own bytes, and counts are not kept.
        return None if template is None or template.counted else Lane(template, WAITING, chunk, room)

    def catch_up(self, lane: Lane, text: bytes) -> tuple[Event, ...]:
        """Take the joined texts of events that passed the lane. Returns no events because they were already sent."""
        self._lessons = 0
        [event] = lane.events(text)
        choice = self._choices.get(event.choice)
        if choice is None:
            return ()
        if isinstance(event, CallArguments):
            delta = CallDelta(event.index, fragment=event.fragment, standard=True)
            passed = choice.calls.feed((delta,)) == [event]
        else:
            passed = choice.flow(event.text, reasoning=isinstance(event, Reasoning))
        if not passed:
            raise AssertionError("what has left by the lane would not have left unchanged")
        return ()

    def hold(self, lane: Lane, chunks: Sequence[tuple[str, Chunk]]) -> tuple[Event, ...]:
        """Take the texts and chunks that the lane held for a call, and return the released events."""
        self._lessons = 0
        return tuple(self._choices[lane.template.event.choice].hold(chunks))

    # Choices.

    def _choice(self, number: int, *, whole: bool) -> Choice:
        """Return the choice with this number. `whole`: a new choice belongs to a whole answer."""
        self._finished.setdefault(number, False)
        if number in self._choices:
            return self._choices[number]
        if len(self._choices) >= MAX_CHOICES:
            raise UpstreamBroken(f"the reply has more than {MAX_CHOICES} choices")
        task = self._task
        # Weak evidence never counts if the client asked for JSON (contract C3).
        reads_reasoning = task.tools is not None and not task.json_reply
        self._choices[number] = choice = Choice(
            number,
            task,
            self._reader(Channel.CONTENT, task.thoughts),
            self._reader(Channel.REASONING) if reads_reasoning else None,
            Calls(task, number, Repairer(self._tools, task.policy), whole=whole),
        )
        return choice

    def _reader(self, channel: Channel, thoughts: Thoughts | None = None) -> Reader:
        """Return a reader for the text of a choice, or for its reasoning."""
        task = self._task
        return Reader(
            self._tools,
            self._copies,
            channel=channel,
            json_reply=task.json_reply,
            raw_text=task.raw_text,
            thoughts=thoughts,
            forced=task.forced,
            off=task.policy.disabled_formats,
            watch_broken=task.hold_broken,
            max_held=task.max_held,
            max_calls=task.max_calls,
        )


def says_usage(chunk: Chunk) -> bool:
    """Return whether a chunk has only a usage, without the number of reasoning tokens."""
    usage = as_object(chunk.body.get("usage"))
    return bool(usage) and not chunk.body.get("choices") and not as_object(usage.get(_DETAILS)).get(_COUNT)


def with_thought_tokens(usage: Mapping[str, Json], tokens: int) -> JsonObject:
    """Return the usage with the number of reasoning tokens, at most the completion tokens."""
    reported = usage.get("completion_tokens")
    if isinstance(reported, int):
        tokens = min(tokens, reported)
    return {**usage, _DETAILS: {**as_object(usage.get(_DETAILS)), _COUNT: tokens}}
