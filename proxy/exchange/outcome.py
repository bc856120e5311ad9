"""The outcome of a request: the record behind its log line, the metrics and the response headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from proxy.engine.events import Call, CallClosed, Event, Finished, Unchanged
from proxy.errors import ProxyError
from proxy.exchange.plan import Plan, Why
from proxy.json import JsonObject, as_object, read_json
from proxy.notations.toolset import ToolSet
from proxy.notations.validator import violations
from proxy.repair.record import Repair

# Refusals that mean a call was cut off, if the token limit ended the reply.
_CUT = ("cut_off", "broken", "unreadable_arguments", "half_call")
# A larger count is a server's defect. Sums of such counts would exceed SQLite's integers and Python's floats.
_MAX_TOKENS = 10**12


class CallTally:
    """Counts the calls in one reply for the log line and the metrics.

    `notations` counts the calls found in text by notation, `called` counts all calls by tool. `is_cut`: the token limit
    ended the reply.
    """

    def __init__(self, tools: ToolSet | None) -> None:
        self._tools = tools
        self._refused = 0
        self._unreadable = 0
        self.is_cut = False
        self.notations: Counter[str] = Counter()
        self.called: Counter[str] = Counter()

    @property
    def invalid(self) -> int:
        """The number of complete calls that do not match their schema."""
        return self._refused + (0 if self.is_cut else self._unreadable)

    def cut(self, refusals: Mapping[str, int]) -> int:
        """Return the number of calls cut off by the token limit. A cut call in text is one of the `refusals`."""
        if not self.is_cut:
            return 0
        return self._unreadable or int(any(reason in refusals for reason in _CUT))

    def observe(self, events: Iterable[Event]) -> None:
        """Count the calls in the next events of the reply."""
        for event in events:
            if isinstance(event, Unchanged):
                self.observe(event.events)
            elif isinstance(event, Finished):
                self.is_cut |= event.reason == "length"
            elif isinstance(event, CallClosed):
                self.called[event.call.name] += 1
                self.notations.update(fix.notation for fix in event.fixes if fix.notation)
                self._validate(event.call)

    def _validate(self, call: Call) -> None:
        tool = None if self._tools is None else self._tools.resolve(call.name)
        if tool is None:
            return
        try:
            values = read_json(call.arguments)
        except (ValueError, RecursionError):
            self._unreadable += 1
        else:
            self._refused += violations(values, tool.compiled) > 0


def tokens_of(usage: JsonObject) -> dict[str, int]:
    """Return the plausible token counts of a usage by kind. Cached tokens are also counted as prompt tokens."""
    counts = {
        "prompt": usage.get("prompt_tokens"),
        "completion": usage.get("completion_tokens"),
        "cached": as_object(usage.get("prompt_tokens_details")).get("cached_tokens"),
    }
    return {kind: count for kind, count in counts.items() if type(count) is int and 0 < count <= _MAX_TOKENS}


@dataclass(slots=True)
class Outcome:
    """The outcome of a request: the changes made in its tries, and how it ended.

    `request_audit` records the changes made by translating the request, `healed` those made by healing, `audit` all of
    them. `refusals`, `empty_calls`, `calls`, `swallowed`, `notations`, `invalid`, `cut`, `tokens` and `called` describe
    the last try; see `CallTally`. `error` is the text for the log line and `failure` the exception behind it. `gone`:
    the client disconnected early. `again` is the reason for repeating an answered request. `first_event` is the time
    (s) from sending the request to the first stream event.
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
    first_event: float | None = None
    notations: Mapping[str, int] = field(default_factory=dict)
    invalid: int = 0
    cut: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    called: Mapping[str, int] = field(default_factory=dict)

    def fail(self, error: ProxyError) -> None:
        """Record that the request failed. Secrets must already be masked in the error."""
        self.error, self.failure = error.logged, error
