"""The tries of one chat request.

The status 200 is delayed until the model server has sent content or the first heartbeat is due. An error before that is
raised and becomes an HTTP error status. A later error ends the stream with the dialect's error event. The generator
always closes the upstream connection, so that the model server stops generating.
"""

from __future__ import annotations

from collections.abc import Generator

from proxy.errors import ClientGone, InternalError, ProxyError, UpstreamError
from proxy.exchange.attempt import Attempt, Exchange, Said, log_crash
from proxy.exchange.plan import PROXY_PARSES, Ended, Plan, next_plan
from proxy.secrets import mask_error


def run_exchange(exchange: Exchange) -> Generator[bytes, None, None]:
    """Yield the bytes of the reply. Yield b"" if there are none yet. A whole reply is one piece.

    Raises a ProxyError only before the first bytes.
    """
    plan, earlier, said = exchange.plan, None, Said.NOTHING
    while True:
        exchange.outcome.tries += 1
        exchange.outcome.plan = plan
        attempt = Attempt(exchange, plan, earlier)
        told = attempt
        failure: ProxyError | None = None
        try:
            try:
                for part in attempt.run():
                    if part:
                        said = max(said, attempt.said, Said.HEARTBEAT)
                    yield part
            except ClientGone:
                raise
            except ProxyError as error:
                failure = error
            except Exception as error:  # the outermost boundary: only an error event can end a stream
                log_crash(error)
                failure = InternalError("the proxy failed while it read the reply; its log says why")
            again = yield from _next_try(exchange, plan, attempt, failure)
            if again is not None:
                if failure is None:
                    earlier = attempt
                plan = again
                continue
            if failure is None:
                if attempt.reply.withheld:
                    yield from attempt.before_it_is_stored()
                    yield attempt.end_after_all()
                return
            yield from attempt.before_it_is_stored()
            if earlier is not None and not attempt.begun:
                # Nothing from this try has been sent, so the earlier reply is the answer.
                told = earlier
                yield earlier.end_after_all()
                return
            yield _error_event(exchange, attempt, failure, said)
            return
        finally:
            told.note()
            # Break the reference cycle: the error's traceback refers to this frame.
            failure = None


def _next_try(
    exchange: Exchange, plan: Plan, attempt: Attempt, failure: ProxyError | None
) -> Generator[bytes, None, Plan | None]:
    """Return the plan of another try, or None. Yields to move to a thread if the decision may block."""
    if failure is None:
        reply, engine = attempt.reply, attempt.engine
        why, broken = reply.silence, engine.broken_call
        ended = Ended(None, why, "" if broken is None else broken.broken, engine.calls, reply.withheld)
        may_block = why in exchange.retries.again
    else:
        ended = Ended(failure)
        may_block = isinstance(failure, UpstreamError)
    if may_block:
        yield from exchange.wait.on_a_thread()
    following = next_plan(exchange.request, plan, ended, exchange.retries, exchange.kind)
    if following.parser_failed:
        # Another worker may hold the lock of the shared state.
        yield from exchange.wait.on_a_thread()
        exchange.learn((PROXY_PARSES,))
    again = following.plan
    if again is None or (failure is not None and attempt.said is Said.CONTENT):
        return None
    if failure is None and again.again is not None:
        exchange.outcome.again = again.again
    return again


def _error_event(exchange: Exchange, attempt: Attempt, failure: ProxyError, said: Said) -> bytes:
    """Return the end of a failed reply, or raise the error if it can still become an HTTP status.

    The web layer then masks its secrets and records the outcome.
    """
    attempt.let_go()
    if said is Said.NOTHING and not (attempt.begun and exchange.request.stream):
        raise failure
    mask_error(failure, exchange.secrets)
    exchange.outcome.fail(failure)
    return attempt.fail(failure)
