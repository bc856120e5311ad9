"""The lane of one reply: from the upstream's socket to its client in one step, where nothing else is to be done.

It is open while the reply's generator waits for the upstream and nothing else is due; whoever drives that generator
calls it instead (`AnswerWait.lane`). What it does not take is left as it came, for the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proxy.activity.recording import TryRecording
from proxy.exchange.capture import Recorder
from proxy.exchange.reply_stream import StreamReply
from proxy.upstream.answer_wait import AnswerWait
from proxy.upstream.client import UpstreamCall


def notes_of(tape: Recorder, recording: TryRecording | None) -> list[Callable[[bytes], None]]:
    """The functions that are called with all that passes: only those that listen, for each event comes by here."""
    notes: list[Callable[[bytes], None]] = []
    if tape.listens:
        notes.append(tape.note)
    if recording is not None:
        notes.append(recording.note)
    return notes


class ReplyLane:
    """Passes one try's answer on; each of `notes` is called with it."""

    __slots__ = ("_call", "_is_compressed", "_notes", "_reply", "_wait")

    def __init__(
        self, call: UpstreamCall, wait: AnswerWait, reply: StreamReply, notes: Sequence[Callable[[bytes], None]]
    ) -> None:
        self._call = call
        self._wait = wait
        self._reply = reply
        self._notes = notes
        self._is_compressed = bool(call.coding)

    def open(self) -> bool:
        """True if nothing but text is awaited now; until something else is done, that may pass, or wait with a call."""
        if self._is_compressed or not self._wait.may_pass:
            return False
        return self._reply.open_lane()

    def __call__(self) -> bytes | None:
        """The bytes that have come, as they leave; b"" if none did, None if the generator must look at them."""
        body = self._call.look()
        if not body:
            return body
        leaving = self._reply.pass_by(body)
        if leaving is None:
            return None
        self._call.take()
        for note in self._notes:
            note(body)
        if not leaving:
            return self._wait.keeps_back()
        return self._wait.leaves(leaving)
