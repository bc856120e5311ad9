"""What became of a request: the one record of it, for its log line, the metrics and the answer's headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from proxy.audit_record import Repair
from proxy.errors import ProxyError
from proxy.exchange.plan import Plan
from proxy.exchange.second_try import Why
from proxy.upstream.event_times import EventTimes


@dataclass(slots=True)
class Outcome:
    """What became of a request. Whoever learns how it ended says so here, and nowhere else.

    `request_audit` is what a translation changed in the request, `healed` what was healed in it, `audit` all that was
    changed. `observe`: nothing was changed, `audit` and `calls` are what would have been; then `content_type` is the
    upstream's. `error` are the words of the log line, `failure` the exception behind them, and `gone` that the client
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
    observe: bool = False
    content_type: str = ""
    later: list[Callable[[], None]] = field(default_factory=list)
    times: EventTimes = field(default_factory=EventTimes)

    @property
    def repaired(self) -> bool:
        """True if something of the answer was changed."""
        return len(self.audit) > len(self.request_audit) + len(self.healed)

    def fail(self, error: ProxyError) -> None:
        """The request ends with this error, whose secrets were taken out."""
        self.error, self.failure = error.logged, error

    def leave(self) -> None:
        """The client did not wait for the end."""
        self.error, self.gone = "client gone", True

    def break_off(self, error: Exception) -> None:
        """The body cannot be finished."""
        self.error, self.failure = str(error), error

    def would_fail(self, error: ProxyError) -> None:
        """Under `observe` the client sees the server's own answer; the log says what would have become of it."""
        if not self.error:
            self.error = f"would fail: {error.logged}"
