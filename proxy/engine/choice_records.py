"""What is told of a choice beside its calls: tokens that were dropped, text that repeats a call, and its finish."""

from __future__ import annotations

from proxy.audit_record import Repair
from proxy.engine.choice_delta import was_cut
from proxy.formats.spans import CallSpan

# What is dropped as no text, by the format that found it (F18).
_DROPPED = {
    "end_of_turn": ("end_of_turn", "the model's own end-of-turn token is no text"),
    "leftover": ("leftover", "a closer or a token directly behind a call is no text"),
    "start": ("leaked_token", "a token at the very beginning of a reply is no text"),
}
# The words of the API reference for a reply that was cut; every client knows them.
_USUAL_CUTS = frozenset(("length", "content_filter"))
EMPTY_LIST = Repair("empty_calls", "[]", "", "a list of no calls says nothing")


def dropped(span: CallSpan) -> tuple[Repair, ...]:
    """A token that is no text."""
    if span.calls or span.format not in _DROPPED:
        return ()
    fix, why = _DROPPED[span.format]
    return (Repair(fix, "", "", why),)


def ended(said: str | None, reason: str) -> tuple[Repair, ...]:
    """What the server said of the end, and what is true."""
    if reason != said:
        return (Repair("finish", str(said), reason, "the finish says what left the proxy"),)
    if was_cut(reason) and reason not in _USUAL_CUTS:
        # Dialects may have no word for it: vLLM's `repetition` is `max_tokens` to a Messages client.
        return (Repair("cut", reason, reason, "the model did not stop by itself: nothing is completed"),)
    return ()
