"""One chat request with everything that its way needs, and what its answers teach: if it goes up again, and how."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from proxy.activity.recording import Recording
from proxy.dialects.base import Dialect
from proxy.dialects.chat.request import ChatRequest
from proxy.engine.engine import Engine
from proxy.engine.events import Text
from proxy.errors import ProxyError, UpstreamError
from proxy.exchange.capture import Capture
from proxy.exchange.outcome import Outcome
from proxy.exchange.plan import GUIDES, Plan, proxy_parses
from proxy.exchange.retry import asks_for_proxy, healed_plan, second_plan
from proxy.exchange.second_try import Why
from proxy.limits import RETRY_TOKENS
from proxy.upstream.answer_wait import AnswerWait
from proxy.upstream.client import ModelServer

log = logging.getLogger("proxy")


class Upstream(Protocol):
    """The model server of one request, and what is known of it beyond this request."""

    @property
    def server(self) -> ModelServer:
        """Where the request goes; the same for all of its tries."""

    def kind(self) -> str:
        """The kind of the server (vllm, llamacpp, …), or "" where it does not say; it may have to be asked."""

    def remember_parser_failure(self) -> None:
        """The server cannot find the calls of the request's model: from now on the proxy does."""

    def remember_healings(self, ids: tuple[str, ...]) -> None:
        """The requests for this model need these healings, without which the server refused one."""


def no_count(text: str) -> int:
    """Nobody counts."""
    return 0


def log_crash(error: Exception) -> None:
    """Tell the log of a defect of the engine or of a writer: it never costs the reply."""
    log.error("the proxy failed while it read a reply", exc_info=error)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One chat request with everything it needs on its way; `secrets` are what no error may quote.

    `upstream` is the model server. `auto`: the profile lets the server show that it cannot parse. `engine` makes the
    engine of one try, for raw text if the try returns that, and for the tool that is forced, if one is. `capture` is
    where the answers are recorded, if they are, `recording` what the live page shows of them. `count` returns the
    number of tokens of a text, 0 if it is unknown. `ask_again`: for what a reply is asked for once more.
    """

    upstream: Upstream
    path: str
    headers: Mapping[str, str]
    request: ChatRequest
    plan: Plan
    auto: bool
    wait: AnswerWait
    engine: Callable[[bool, str], Engine]
    dialect: Dialect
    hold_timeout: float
    capture: Capture | None = None
    recording: Recording | None = None
    count: Callable[[str], int] = no_count
    ask_again: frozenset[Why] = frozenset()
    outcome: Outcome = field(default_factory=Outcome)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def second(self, plan: Plan, error: ProxyError) -> Generator[bytes, None, Plan | None]:
        """The plan for one more try, or None (docs/configuration.md: who parses).

        The server may have to be asked what it is, and the try begins with a connection: from here on it may block.
        """
        if not isinstance(error, UpstreamError):
            return None
        yield from self.wait.on_a_thread()
        again = None
        if self.auto:
            again = self._second_by_server(plan, error)
        if again is not None:
            return again
        return healed_plan(self.request, plan, error)

    def _second_by_server(self, plan: Plan, error: UpstreamError) -> Plan | None:
        """The plan for what the server shows that it cannot do, or take."""
        kind = plan.server_kind
        if not kind and asks_for_proxy(error):
            kind = self.upstream.kind()
        again = second_plan(self.request, plan, error, kind, RETRY_TOKENS)
        if again is not None and again.parse != plan.parse:
            self.upstream.remember_parser_failure()
        return again

    def once_more(
        self, plan: Plan, silence: Why | None, broken: Text | None, *, withheld: bool
    ) -> Generator[bytes, None, Plan | None]:
        """The plan for one more try after a reply that says nothing, or that ended with a `broken` call, or None; like
        `second`, it may block.

        A swallowed call is asked for by the other parser. If only the second reply shows that there was one, a third
        may follow: the end of the second was `withheld`.
        """
        if silence not in self.ask_again:
            return None
        yield from self.wait.on_a_thread()
        again = replace(plan, again=silence)
        if silence is Why.SWALLOWED:
            again = self._by_the_other(again)
        if plan.again is None:
            return again if broken is None else self._guided(again, broken.broken)
        if again.parse == plan.parse:
            return None
        if withheld:
            return again
        if again.parse == "proxy":
            # Part of the reply has left, so it is too late for this one.
            self.upstream.remember_parser_failure()
        return None

    def _guided(self, plan: Plan, tool: str) -> Plan | None:
        """The plan by which the server is made to call this tool, in an answer that is whole; None if the server is not
        known to guide its decoding.
        """
        kind = plan.server_kind or self.upstream.kind()
        if kind not in GUIDES:
            return None
        return replace(plan, guided=tool, server_kind=kind, transport="whole", second=True)

    def note_calls(self, plan: Plan, calls: int) -> None:
        """So many calls are in the reply that went up by this plan. Those that the server had swallowed, and the proxy
        has found, are the sign that the server cannot find them.
        """
        if calls == 0 or plan.again is not Why.SWALLOWED:
            return
        if plan.parse == "proxy" and self.plan.parse != "proxy":
            self.upstream.remember_parser_failure()

    def _by_the_other(self, plan: Plan) -> Plan:
        """The plan by which the proxy looks for the calls that the server swallowed; where it did so before, the server
        is asked: vLLM's newer parsers take the calls of their family out of the text under `none`, too.
        """
        if proxy_parses(self.request, plan):
            return replace(plan, parse="server")
        if not self.auto:
            return plan
        again = replace(plan, parse="proxy", server_kind=plan.server_kind or self.upstream.kind())
        return again if proxy_parses(self.request, again) else plan
