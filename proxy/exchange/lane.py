"""The lane of one reply: from the upstream's socket to its client in one step, where nothing else is to be done.

It is open while the reply's generator waits for the upstream and nothing else is due; whoever drives that generator
calls it instead (`AnswerWait.lane`). What it does not take is left as it came, for the generator.
"""

from __future__ import annotations

from proxy.exchange.capture import Recorder
from proxy.exchange.reply_stream import StreamReply
from proxy.upstream.answer_wait import AnswerWait
from proxy.upstream.client import UpstreamCall


class ReplyLane:
    """What passes of one try's answer."""

    def __init__(self, call: UpstreamCall, wait: AnswerWait, reply: StreamReply, tape: Recorder) -> None:
        self._call = call
        self._wait = wait
        self._reply = reply
        self._tape = tape
        self._is_compressed = bool(call.coding)

    def open(self) -> bool:
        """Whether nothing but text is awaited now; until something else is done, that may pass."""
        if self._is_compressed or not self._wait.may_pass:
            return False
        return self._reply.open_lane()

    def __call__(self) -> bytes | None:
        """What has come and leaves as it came; b"" if nothing has come, None if the generator must look at it."""
        body = self._call.look()
        if not body:
            return body
        if not self._reply.pass_by(body):
            return None
        self._call.take()
        self._tape.note(body)
        return self._wait.leaves(body)
