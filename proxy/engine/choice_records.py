"""What is told of a choice's text and of its end (contract C6)."""

from __future__ import annotations

from proxy.audit_record import Repair
from proxy.engine.choice_delta import USUAL_ENDS, was_cut
from proxy.notations.stream import Piece

# Why text is dropped (F18).
_DROPPED = {
    "end_of_turn": "the model's own end-of-turn token is no text",
    "leftover": "a closer or a token directly after a call is no text",
    "lone_opener": "a wrapper without a call is no text",
    "cut_call": "a further call that was cut off is no text",
    "made_up_turn": "what the model makes up behind its call, a result or the client's turn, is no answer",
    "leaked_token": "a token at the very beginning of a reply is no text",
}
# `"tool_calls": []`
EMPTY_LIST = Repair("empty_calls", "[]", "", "a list of no calls says nothing")
UNOPENED = Repair("unopened_thought", "", "", "the text before the end of a thought has been one")
UNCLOSED = Repair("unclosed_thought", "", "", "a reply that ends in a thought is its own answer")


def note_once(audit: list[Repair], repair: Repair) -> None:
    """Take a record that is not there yet: vLLM says a list of no calls in each chunk."""
    if repair not in audit:
        audit.append(repair)


def of_dropped(piece: Piece) -> list[Repair]:
    """Return the audit record of a part of the text, if that is dropped; else none."""
    if piece.calls or piece.row not in _DROPPED:
        return []
    return [Repair(piece.row, "", "", _DROPPED[piece.row])]


def of_echo(text: str) -> Repair:
    """The audit record of content that only repeats a call (F28)."""
    return Repair("echo", text, "", "the content only repeats a call")


def of_finish(original: str | None, reason: str) -> list[Repair]:
    """The audit record of a finish that is not the one that the server gave, or that says that the reply was cut."""
    if reason != original:
        return [Repair("finish", str(original), reason, "the finish says what left the proxy")]
    if was_cut(reason) and reason not in USUAL_ENDS:
        # Dialects may have no word for it: vLLM's `repetition` is `max_tokens` to a Messages client.
        return [Repair("cut", reason, reason, "the model did not stop by itself: nothing is completed")]
    return []
