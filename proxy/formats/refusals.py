"""Why what could have been calls was none: counted by the reason, and told to who asks for that."""

from __future__ import annotations

from collections import Counter

from proxy.formats.spans import Candidate, RejectedSpan
from proxy.parsing.cursor import NotACall


class Refusals:
    """The refusals of one reply: `counts` by the reason; `spans` takes what was no call, if it is given."""

    def __init__(self, spans: list[RejectedSpan] | None) -> None:
        self.counts: Counter[str] = Counter()
        self.spans = spans

    @property
    def are_told(self) -> bool:
        """True if each one is told."""
        return self.spans is not None

    def note(self, candidate: Candidate, refusal: NotACall) -> None:
        """A candidate was refused."""
        evidence = candidate.evidence
        if evidence.why:
            refusal = evidence.rejected()
        if evidence.named or refusal.rejection.telling:
            self.counts[refusal.rejection.label] += 1
        if self.spans is not None and candidate.looks_like_a_call:
            self.spans.append(RejectedSpan(candidate.start, candidate.cursor.pos, candidate.item.name, str(refusal)))
