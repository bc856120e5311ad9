"""The engine: upstream chunks in, events out; one path for streamed and whole replies.

It has no I/O and no clock. What needs no change comes out as `Unchanged`, with the bytes that came; text is held only
while it can become a call (contract C2); finish reasons are made true at the end (contract C4).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from proxy.audit_record import Repair
from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.engine.call_delta import read_responses_event
from proxy.engine.choice import Choice
from proxy.engine.choice_delta import ChoiceDelta, choice_entries, finish_of, read_choice, text_alone
from proxy.engine.chunk_events import WholeMessages, events_of
from proxy.engine.events import (
    CallArguments,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Rest,
    Text,
    Unchanged,
    Usage,
    choice_number,
    says_more_at_its_top,
)
from proxy.engine.fast_path import CallTemplate, Template, learn, learn_call
from proxy.engine.held_lane import HeldLane, HeldShape, held_shape
from proxy.engine.lane import ANY_TEXT, IN_STRING, Lane, lane_of, unescaped
from proxy.engine.pending_call import CallLimits
from proxy.engine.plain_choice import PlainChoice
from proxy.engine.task import NewIds, Task
from proxy.engine.thought_tokens import says_usage, with_thought_tokens
from proxy.errors import UnreadableReply, UpstreamBroken, refusal
from proxy.limits import MAX_CHOICES
from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.reply import Channel
from proxy.notations.thoughts import Thoughts
from proxy.repair.repairer import Repairer
from proxy.tools.toolset import ToolSet

# A server whose chunks are never alike is not worth learning from.
_MAX_LESSONS = 16


class Engine:
    """Chunks of one reply to events; after a `Failed`, or after `finish`, nothing may be fed any more."""

    def __init__(self, task: Task) -> None:
        self._task = task
        # Nothing is looked for in the reply.
        self._passes = task.tools is None and task.thoughts is None
        self._tools = task.tools or ToolSet(())
        self._copies = Copies(self._tools, task.sources, task.made)
        self._choices: dict[int, Choice] = {}
        self._finished: dict[int, bool] = {}
        self._trailing: list[Chunk] = []
        self._template: Template | None = None
        self._call_template: CallTemplate | None = None
        self._lane: Lane | None = None
        self._held_shape: HeldShape | None = None
        self._lessons = 0
        self._messages = WholeMessages()
        self._thought_tokens = 0

    @property
    def thoughts(self) -> str:
        """The thoughts that were told from the text, whose tokens no server counts apart."""
        return "".join(choice.thoughts for choice in self._choices.values())

    def may_tell(self, answer: JsonObject) -> bool:
        """True if thoughts may be told from the text of a whole answer."""
        given = self._task.thoughts
        if given is None:
            return False
        if given.begun:
            return True
        messages = [as_object(entry.get("message")) for entry in objects_in(answer.get("choices"))]
        texts = [as_text(message.get("content")) for message in messages]
        return any(marker.opener in text for marker in given.markers for text in texts)

    @property
    def wants_count(self) -> bool:
        """True if the usage waits for the end of the reply, and somebody must count the tokens of the thoughts."""
        return any(says_usage(chunk) for chunk in self._trailing) and self.thoughts != ""

    def counted(self, tokens: int) -> None:
        """Take the number of tokens that the thoughts of the reply are; the usage at its end will say it."""
        self._thought_tokens = tokens

    @property
    def held(self) -> bool:
        """True while text waits that may become a call."""
        return any(choice.held for choice in self._choices.values())

    @property
    def size(self) -> int:
        """The bytes of text and of arguments that may be read once more at the end of what they are a part of."""
        return sum(choice.size for choice in self._choices.values())

    @property
    def audit(self) -> tuple[Repair, ...]:
        """The repairs so far (contract C6)."""
        return tuple(repair for choice in self._choices.values() for repair in choice.audit)

    @property
    def repairs(self) -> int:
        """How many repairs there are so far. Asked for with each part of a reply."""
        count = 0
        for choice in self._choices.values():
            count += len(choice.audit)
        return count

    @property
    def refusals(self) -> Mapping[str, int]:
        """The numbers of texts that began like a call and were none, by the reason."""
        return sum((choice.refused for choice in self._choices.values()), Counter[str]())

    @property
    def empty_calls(self) -> int:
        """The calls that left without arguments although their tool requires some (F25)."""
        return sum(choice.empty_calls for choice in self._choices.values())

    @property
    def calls(self) -> int:
        """The number of calls that the proxy opened so far."""
        return sum(choice.calls for choice in self._choices.values())

    @property
    def broken_call(self) -> Text | None:
        """The call that cannot be read, if the reply, which has one choice, ended with that and has no other."""
        broken = [choice.broken_call for choice in self._choices.values()]
        return broken[0] if len(broken) == 1 else None

    @property
    def ends_in_thought(self) -> bool:
        """Return whether a choice is in reasoning that was separated from its text."""
        return any(choice.reader.closer for choice in self._choices.values())

    def feed(self, chunk: Chunk) -> tuple[Event, ...]:
        """Take one upstream chunk; give what it decides."""
        events = self._feed(chunk)
        self._learn(chunk, events)
        return events

    def _feed(self, chunk: Chunk) -> tuple[Event, ...]:
        error = chunk.body.get("error")
        if error:
            return (*self.release(), _failed(error))
        try:
            entries = choice_entries(chunk.body)
            if not chunk.body.get("choices"):
                return self._without_choices(chunk)
            if chunk.streamed:
                chunk, entries = self._messages.with_deltas(chunk, entries)
            if self._passes or (not chunk.streamed and self._is_prose(entries)):
                return self._unparsed(chunk, entries)
            deltas = [read_choice(entry) for entry in entries]
        except UnreadableReply as unreadable:
            return (*self.release(), Failed(unreadable))
        if chunk.body["choices"] == entries[:1]:
            return self._one_choice(chunk, entries[0], deltas[0])
        return self._several_choices(chunk, entries, deltas)

    def _one_choice(self, chunk: Chunk, entry: JsonObject, delta: ChoiceDelta) -> tuple[Event, ...]:
        """Take a chunk of one choice, as nearly all are."""
        choice = self._choice_of(entry, chunk)
        if delta.sign_of_life and chunk.streamed and not says_more_at_its_top(chunk):
            # {"choices": [{"index": 0, "delta": {}, "finish_reason": null}]} ends clients' text parts (F64); the
            # proxy has signs of life of its own.
            return ()
        return self._feed_choice(choice, chunk, delta, alone=chunk.streamed)

    def _several_choices(self, chunk: Chunk, entries: list[JsonObject], deltas: list[ChoiceDelta]) -> tuple[Event, ...]:
        """Take a chunk of several choices. It passes unchanged if it says nothing but content that need not wait."""
        events: list[Event] = []
        content: list[Text | Reasoning] = []
        may_pass = True
        for number, (entry, delta) in enumerate(zip(entries, deltas, strict=True)):
            part = chunk.part(entry, first=number == 0)
            choice = self._choice_of(entry, chunk)
            given = self._feed_choice(choice, part, delta, alone=False)
            events += given
            content += delta.content(choice.number)
            if not _is_only(part, delta.content(choice.number), given):
                may_pass = False
            if choice.waits or not delta.has_only_content:
                may_pass = False
        if may_pass:
            return (chunk.unchanged(tuple(content)),)
        return tuple(events)

    def _feed_choice(self, choice: Choice, chunk: Chunk, delta: ChoiceDelta, *, alone: bool) -> tuple[Event, ...]:
        events = choice.feed(chunk, delta, alone=alone)
        self._finished[choice.number] = choice.finish is not None
        return events

    def fast_path(self, raw: bytes) -> Unchanged | None:
        """An event that can leave as it came, told without parsing it (`engine/fast_path.py`); None for any other."""
        template = self._template
        if template is None:
            return None
        text = template.text(raw)
        if text is None or self._finished[template.choice]:
            return None
        self._lessons = 0
        try:
            said = text.decode()
        except UnicodeDecodeError:
            # It is written again with U+FFFD.
            return None
        choice = self._choices.get(template.choice)
        if choice is not None and not choice.fast_path(said, reasoning=template.reasoning):
            return None
        kind = Reasoning if template.reasoning else Text
        return Unchanged(raw, (kind(template.choice, said),))

    def lane(self) -> Lane | None:
        """The lane on which events may pass now without being looked at one by one; None if none may."""
        chosen = self._text_lane() or self._call_lane()
        if chosen is None:
            return None
        template, plain = chosen
        if self._lane is None or self._lane.template is not template or self._lane.plain is not plain:
            self._lane = lane_of(template, plain)
        return self._lane

    def _text_lane(self) -> tuple[Template, re.Pattern[bytes]] | None:
        template = self._template
        if template is None or self._finished[template.choice]:
            return None
        choice = self._choices.get(template.choice)
        plain = ANY_TEXT if choice is None else choice.lane(reasoning=template.reasoning)
        return None if plain is None else (template, plain)

    def _call_lane(self) -> tuple[CallTemplate, re.Pattern[bytes]] | None:
        template = self._call_template
        if template is None or not self._choices[template.choice].has_call_lane(template.delta):
            return None
        return template, IN_STRING

    def catch_up(self, lane: Lane, text: bytes) -> tuple[Event, ...]:
        """Take the texts, joined, of events that have left by the lane; nothing is left to say of them."""
        self._lessons = 0
        template = lane.template
        choice = self._choices.get(template.choice)
        if choice is None:
            return ()
        if isinstance(template, CallTemplate):
            fits = choice.catch_up(replace(template.delta, fragment=unescaped(text)))
        else:
            fits = choice.fast_path(unescaped(text), reasoning=template.reasoning)
        if not fits:
            raise AssertionError("what has left by the lane would not have left as it came")
        return ()

    def held_lane(self) -> HeldLane | None:
        """The lane for events whose text may wait with that of a call without a look at it; None if there is none."""
        if len(self._choices) != 1:
            return None
        [choice] = self._choices.values()
        chunk = choice.held_chunk
        if chunk is None:
            return None
        if self._held_shape is None or not self._held_shape.fits(chunk.raw):
            self._held_shape = held_shape(chunk, choice.number)
        if self._held_shape is None:
            return None
        return HeldLane(self._held_shape, choice.room)

    def hold(self, lane: HeldLane, chunks: Sequence[tuple[Chunk, str]]) -> tuple[Event, ...]:
        """Take the chunks that have come by the lane, and their texts; return what leaves."""
        self._lessons = 0
        return self._choices[lane.shape.lane.template.choice].hold(chunks)

    def _learn(self, chunk: Chunk, events: tuple[Event, ...]) -> None:
        """Remember the shape of a chunk that passed and says one text; not for ever, if no other one has it."""
        self._lessons += 1
        if self._lessons > _MAX_LESSONS:
            return
        match events:
            # A chunk that leaves in other bytes had a whole message, whose shape says nothing of later chunks.
            case (Unchanged(raw=raw),) if raw != chunk.raw:
                return
            case (Unchanged(sequence=sequence, events=(Text() | Reasoning() as content,)),) if (
                sequence == chunk.sequence
            ):
                reasoning = isinstance(content, Reasoning)
                self._template = learn(chunk, content.choice, content.text, reasoning=reasoning)
            case (Unchanged(sequence=sequence, events=(CallArguments() as content,)),) if sequence == chunk.sequence:
                self._learn_call(chunk, content)

    def _learn_call(self, chunk: Chunk, content: CallArguments) -> None:
        known = self._call_template
        if known is not None and known.fits(chunk.raw):
            return
        [entry, *_] = objects_in(chunk.body.get("choices"))
        match read_choice(entry):
            case ChoiceDelta(calls=(delta,)):
                self._call_template = learn_call(chunk, content.choice, content.index, delta)

    def release(self) -> tuple[Event, ...]:
        """Let go what is held, as text; only an end that was already said still waits."""
        return tuple(event for choice in self._choices.values() for event in choice.release())

    def flush_prose(self) -> tuple[Event, ...]:
        """Let the prose go that waits only to leave in the very event that it came in."""
        return tuple(event for choice in self._choices.values() for event in choice.flush_prose())

    def finish(self, *, done: bool) -> tuple[Event, ...]:
        """Say that the upstream's body ended properly, with `[DONE]` or without; give the rest and the finish.

        The reply is complete if it was `done` or if every choice has its finish reason (contract C4, F57).
        """
        if not self._is_complete(done):
            return (*self.release(), Failed(UpstreamBroken("the model server's reply ended before it was finished")))
        events: list[Event] = []
        for choice in self._choices.values():
            events += choice.end()
            if isinstance(events[-1], Failed):
                return tuple(events)
        if self._passes:
            missing = [number for number, finished in self._finished.items() if not finished]
            events += [Finished(number, "stop", None) for number in missing]
        return (*events, *map(self._trailed, self._trailing))

    def _trailed(self, chunk: Chunk) -> Event:
        """A chunk behind the finish; its usage says how many tokens were thoughts, if they were counted."""
        if self._thought_tokens and says_usage(chunk):
            return Usage(with_thought_tokens(as_object(chunk.body.get("usage")), self._thought_tokens))
        return chunk.unchanged(events_of(chunk))

    def _is_complete(self, done: bool) -> bool:
        if not self._finished:
            return False
        return done or all(self._finished.values())

    def _without_choices(self, chunk: Chunk) -> tuple[Event, ...]:
        """A chunk of usage, or of nothing that we know: it passes, but never before a finish that waits."""
        delta = None
        if self._task.tools is not None:
            delta = read_responses_event(chunk.body)
        if delta is not None:
            self._messages.answered(0)
            return self._choice(0, at_once=False).feed_late(delta)
        if any(self._finished.values()):
            self._trailing.append(chunk)
            return ()
        return (chunk.unchanged(events_of(chunk)),)

    def _is_prose(self, choices: list[JsonObject]) -> bool:
        """Return whether the choices of a whole answer are one that is nothing but a text in which nothing begins."""
        task = self._task
        if task.tools is None or task.forced or task.begins_in_thought:
            return False
        text = text_alone(choices[0]) if len(choices) == 1 else ""
        return bool(text) and self._reader(Channel.CONTENT, task.thoughts).begins_nothing(text)

    def _unparsed(self, chunk: Chunk, choices: list[JsonObject]) -> tuple[Event, ...]:
        """Pass a chunk in which nothing is looked for; only a finish waits for the end of the body."""
        events = events_of(chunk)
        final = False
        for entry in choices:
            number = choice_number(entry.get("index"))
            self._finished.setdefault(number, False)
            if finish_of(entry) is not None:
                self._finished[number] = final = True
        if final:
            self._trailing.append(chunk)
            return ()
        return (chunk.unchanged(events),)

    def _choice_of(self, entry: JsonObject, chunk: Chunk) -> Choice:
        """The choice of an entry of a chunk's `choices`."""
        return self._choice(choice_number(entry.get("index")), at_once=not chunk.streamed)

    def _choice(self, number: int, *, at_once: bool) -> Choice:
        """The choice of this number; a new one is of a stream, or of a whole answer (`at_once`)."""
        self._finished.setdefault(number, False)
        choice = self._choices.get(number)
        if choice is None:
            if len(self._choices) >= MAX_CHOICES:
                raise UpstreamBroken(f"the reply has more than {MAX_CHOICES} choices")
            choice = self._choices[number] = self._new_choice(number, at_once=at_once)
        return choice

    def _new_choice(self, number: int, *, at_once: bool) -> Choice:
        task = self._task
        used = set(task.ids)
        kind = PlainChoice if task.tools is None else Choice
        # Weak evidence never counts where the client asked for JSON (contract C3).
        may_call_in_reasoning = task.tools is not None and not task.json_reply
        return kind(
            number=number,
            reader=self._reader(Channel.CONTENT, task.thoughts),
            reasoning_reader=self._reader(Channel.REASONING) if may_call_in_reasoning else None,
            repairer=Repairer(self._tools, task.policy),
            new_id=NewIds(task, number, used),
            limits=CallLimits(task.max_calls, task.max_held),
            used=used,
            one_call=task.one_call,
            at_once=at_once,
            ordered=task.ordered,
            thinks=task.begins_in_thought,
        )

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


def _failed(error: Json) -> Failed:
    """The end of a stream by an error in it, such as `{"error": {"message": "out of memory", "code": 500}}`."""
    body = dump_json({"error": error}) if isinstance(error, dict) else None
    return Failed(refusal(error, body=body))


def _is_only(part: Chunk, content: Sequence[Event], events: Sequence[Event]) -> bool:
    """True if the events are the content of this part of a chunk, or what else it says if it has none."""
    match events:
        case (Rest(source=source),) if source is part:
            return not content
    return [*events] == [*content]
