"""The outcome of a request: the one record of it, for its log line, the metrics and the answer's headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from proxy.audit_record import Repair
from proxy.errors import ProxyError
from proxy.exchange.plan import Plan, Why
from proxy.upstream.event_times import EventTimes


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """The facts of one try's reply: `healed` is what was healed in its request, `audit` what was changed in it."""

    healed: tuple[Repair, ...]
    audit: tuple[Repair, ...]
    calls: int
    refusals: Mapping[str, int]
    empty_calls: int
    swallowed: bool


@dataclass(slots=True)
class Outcome:
    """The outcome of a request. Whoever learns how it ended says so here, by a method, and nowhere else.

    `request_audit` is what a translation changed in the request, `healed` what was healed in it, `audit` all that was
    changed. `error` are the words of the log line, `failure` the exception behind them, and `gone` that the client
    did not wait for its end. `later` is what is done once the client has its answer, `again` why a reply that said
    nothing was asked for once more. `times` says how long its events took.
    """

    tries: int = 0
    plan: Plan = field(default_factory=Plan)
    headers: tuple[tuple[str, str], ...] = ()
    request_audit: tuple[Repair, ...] = ()
    healed: tuple[Repair, ...] = ()
    audit: tuple[Repair, ...] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)
    empty_calls: int = 0
    calls: int = 0
    swallowed: bool = False
    error: str = ""
    failure: BaseException | None = None
    gone: bool = False
    heartbeats: int = 0
    again: Why | None = None
    later: list[Callable[[], None]] = field(default_factory=list)
    times: EventTimes = field(default_factory=EventTimes)

    def begin_try(self, plan: Plan) -> None:
        """The request goes up by this plan, for the first time or once more."""
        self.tries += 1
        self.plan = plan

    def ask_again(self, why: Why) -> None:
        """Record that the request is retried, and why."""
        self.again = why

    def translate_request(self, audit: tuple[Repair, ...]) -> None:
        """The request was translated, which made these changes in it."""
        self.request_audit = audit

    def receive_head(self, headers: tuple[tuple[str, str], ...]) -> None:
        """Record the headers of the server's answer."""
        self.headers = headers

    def count_heartbeat(self) -> None:
        """The client got a heartbeat."""
        self.heartbeats += 1

    def end_try(self, reply: ReplyFacts) -> None:
        """A try has ended, and this is known of its reply; what was known of an earlier try's is forgotten."""
        self.healed = reply.healed
        self.audit = (*self.request_audit, *reply.healed, *reply.audit)
        self.calls = reply.calls
        self.refusals = reply.refusals
        self.empty_calls = reply.empty_calls
        self.swallowed = reply.swallowed

    def do_later(self, step: Callable[[], None]) -> None:
        """This is to be done once the client has its answer."""
        self.later.append(step)

    def stop_loop(self) -> None:
        """The loop guard answered; the model was not asked."""
        self.error = "loop guard"

    def fail(self, error: ProxyError) -> None:
        """The request ends with this error, whose secrets were taken out."""
        self.error, self.failure = error.logged, error

    def leave(self) -> None:
        """The client did not wait for the end."""
        self.error, self.gone = "client gone", True

    def lose_client(self, error: ProxyError) -> None:
        """The client went before its answer had begun."""
        self.fail(error)
        self.gone = True

    def break_off(self, error: Exception) -> None:
        """The body cannot be finished."""
        self.error, self.failure = str(error), error

    def release_failure(self) -> None:
        """The request was told of: let go of the exception, whose traceback refers to all of the request's way."""
        self.failure = None
