"""The way of one chat request's bytes: one generator for streamed and whole replies.

The 200 is held back until the upstream has said something or the first heartbeat is due: an error before that is
raised, and becomes a real status; one after it ends the stream with the dialect's error event. Whatever ends the
generator closes the upstream, by which the model server stops.
"""

from __future__ import annotations

from collections.abc import Generator

from proxy.codec.secrets import mask_error
from proxy.errors import ClientGone, InternalError, ProxyError
from proxy.exchange.attempt import Attempt
from proxy.exchange.exchange import Exchange, log_crash


def run_exchange(exchange: Exchange) -> Generator[bytes, None, None]:
    """The bytes of the reply, `b""` where there are none now; a whole one in one piece. Raises a ProxyError only before
    it gave any.
    """
    tries = _Tries(exchange)
    while True:
        attempt = tries.begin()
        try:
            for part in attempt.run():
                tries.committed |= part != b""
                yield part
            goes_on = yield from tries.go_on(attempt)
            if not goes_on:
                return
        except ClientGone:
            raise
        except ProxyError as error:
            goes_on = yield from tries.try_again(attempt, error)
            if goes_on:
                continue
            yield from attempt.before_it_is_stored()
            ending = tries.fail(attempt, error)
            if ending is None:
                raise
            yield ending
            return
        except Exception as error:  # the outermost boundary: a stream that has begun can only end by its error event
            yield from attempt.before_it_is_stored()
            ending = tries.crash(attempt, error)
            if ending is None:
                raise
            yield ending
            return
        finally:
            tries.current.note()


class _Tries:
    """The tries of one exchange: which one comes next, and how the last one ends.

    `committed` is true once something went to the client; `current` is the try that the outcome tells of.
    """

    __slots__ = ("_earlier", "_exchange", "_plan", "committed", "current")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._plan = exchange.plan
        self._earlier: Attempt | None = None
        self.committed = False
        self.current: Attempt

    def begin(self) -> Attempt:
        """The next try."""
        self._exchange.outcome.begin_try(self._plan)
        self.current = Attempt(self._exchange, self._plan, self._earlier)
        return self.current

    def go_on(self, attempt: Attempt) -> Generator[bytes, None, bool]:
        """True if the reply that has ended says nothing, or ended with a broken call, and is asked for once more."""
        once_more = self._exchange.once_more
        plan = yield from once_more(self._plan, attempt.silence, attempt.broken, withheld=attempt.withheld)
        if plan is None:
            if attempt.withheld:
                yield from attempt.before_it_is_stored()
                yield attempt.end_after_all()
            self._exchange.note_calls(self._plan, attempt.calls)
            return False
        self._plan, self._earlier = plan, attempt
        if plan.again is not None:
            self._exchange.outcome.ask_again(plan.again)
        return True

    def try_again(self, attempt: Attempt, error: ProxyError) -> Generator[bytes, None, bool]:
        """True if the request goes up again in another way."""
        # What the server has shown is remembered also where this request cannot go up again.
        plan = yield from self._exchange.second(self._plan, error)
        if plan is None or attempt.spoke:
            return False
        self._plan = plan
        return True

    def fail(self, attempt: Attempt, error: ProxyError) -> bytes | None:
        """Return the end of a reply that cannot be finished. Return None if the error can be sent as a status: then the
        caller raises it, and the web layer masks secrets in it and records the outcome.
        """
        exchange = self._exchange
        instead = self._end_of_earlier(attempt)
        if instead is not None:
            return instead
        attempt.let_go()
        if not self.committed and not (attempt.spoke and exchange.request.stream):
            return None
        mask_error(error, exchange.secrets)
        exchange.outcome.fail(error)
        return attempt.fail(error)

    def crash(self, attempt: Attempt, error: Exception) -> bytes | None:
        """The end of a reply in which the proxy failed; None where the error can be a status."""
        instead = self._end_of_earlier(attempt)
        if instead is not None:
            log_crash(error)
            return instead
        if not self.committed:
            return None
        log_crash(error)
        return attempt.fail(InternalError("the proxy failed while it read the reply; its log says why"))

    def _end_of_earlier(self, attempt: Attempt) -> bytes | None:
        """The end of the reply before, if this one has not begun; None if there is no such one."""
        if self._earlier is None or attempt.begun:
            return None
        self.current = self._earlier
        return self._earlier.end_after_all()
