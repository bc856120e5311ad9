"""Why text that looked like a call is none, and what is known of a candidate while it is read (contract C3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from proxy.transitions import next_state


class Rejection(Enum):
    """Why a candidate is no call.

    `label` is what metrics count it by (`refused="not_offered"`); `sentence` is what people read of it, if the place
    that rejects says nothing more precise. Several reasons may share a label.
    """

    NOT_OFFERED = "not_offered", "no such tool is offered"
    QUOTED = "quoted", "it is quoted"
    COPIED = "copied", "it was copied from a tool result"
    OVER_LIMIT = "limit", "it is over a limit"
    RELEASED = "waited", "it waited too long, or something else came"
    FORMAT_OFF = "format_off", "its format is off for this model"
    JSON_REPLY = "json_reply", "the client asked for JSON"
    CUT_OFF = "cut_off", "the text ends in the middle of it"
    DEFINITION = "broken", "it is the definition of a tool"
    BROKEN = "broken", "it is of another kind"

    def __init__(self, label: str, sentence: str) -> None:
        self.label = label
        self.sentence = sentence

    @property
    def telling(self) -> bool:
        """True if it is worth counting even where no offered tool was named.

        Prose is full of brackets that come to nothing, and whatever is undecided when something else comes is let go.
        """
        return self.label not in (Rejection.BROKEN.label, Rejection.RELEASED.label)


class NotACall(Exception):
    """The text cannot become a call any more; it is the model's prose after all.

    `rejection` says why, the text of the exception says it in words: `NotACall(Rejection.QUOTED)`,
    `NotACall(Rejection.NOT_OFFERED, "no tool 'read' is offered")`. With words alone it is BROKEN:
    `NotACall("a key was expected")`.
    """

    def __init__(self, rejection: Rejection | str = Rejection.BROKEN, detail: str = "") -> None:
        if isinstance(rejection, str):
            super().__init__(rejection)
            self.rejection = Rejection.BROKEN
        else:
            super().__init__(detail or rejection.sentence)
            self.rejection = rejection


class Truncated(NotACall):
    """The text ended in the middle of what was read."""

    def __init__(self, detail: str) -> None:
        super().__init__(Rejection.CUT_OFF, detail)


class Unreadable(NotACall):
    """What stands there is a call as far as it was read, but cannot be read on: what it shows is no call either."""


def unreadable(refusal: NotACall) -> NotACall:
    """The same reason as one of those that say that what was read may show calls; what ended shows none."""
    if isinstance(refusal, Unreadable | Truncated):
        return refusal
    return Unreadable(refusal.rejection, str(refusal))


class OpenString(Unreadable):
    """A string does not end where it should, so that all that follows may be in it: `{"name": "read", "argu⏎`."""


class StringGoesOn(OpenString):
    """Something stands behind the mark that was to end a string: `{"command": "echo "hi" <tool_call>…`.

    It ended all the same if the end of the call stands there: `{"command": "ls"</tool_call>`.
    """


class Verdict(Enum):
    """Whether a candidate may become a call while it is read.

                   reject
        OPEN ─────────────────> VOID <──┐
        ^  └── skip ─> SKIPPING ────────┘ abandon
        └──── resume ─────┘

    In a wrapper that may hold other calls a body that names no offered tool is SKIPPING, and what stands behind it is
    OPEN again: of

        <tool_call>{"name": "unknown", "arguments": {…}}{"name": "read", "arguments": {…}}</tool_call>

    the first object stays text, and the second is a call.
    """

    # It may become a call.
    OPEN = auto()
    # Of this body nothing will come, but of what stands beside it.
    SKIPPING = auto()
    # Nothing will come of it. It is read on to its end, because markup inside a string of it is no call either.
    VOID = auto()


class VerdictStep(Enum):
    """What is learned of a candidate."""

    # It is no call.
    REJECT = auto()
    # This body of it is none.
    SKIP = auto()
    # That body is over.
    RESUME = auto()
    # It was let go before its end.
    ABANDON = auto()


VERDICTS: dict[Verdict, dict[VerdictStep, Verdict]] = {
    Verdict.OPEN: {
        VerdictStep.REJECT: Verdict.VOID,
        VerdictStep.SKIP: Verdict.SKIPPING,
    },
    Verdict.SKIPPING: {
        VerdictStep.RESUME: Verdict.OPEN,
        VerdictStep.ABANDON: Verdict.VOID,
    },
    Verdict.VOID: {},
}


class ValueGoesOn(OpenString):
    """Behind a raw value stands what is no part of a call, so that it may not have ended where it seemed to:

    `<parameter name="new">see</parameter>⏎</invoke>⏎<invoke name="edit">"a": …`
    """


@dataclass(frozen=True, slots=True)
class KeptText:
    """A body within a wrapper that stays text, by its positions; so many calls of the wrapper stand before it."""

    start: int
    end: int
    calls_before: int


@dataclass(slots=True)
class Evidence:
    """What a parser saw of a candidate, for who decides whether its calls count.

    `named`: an offered name was read; `tool` is that, empty if several were. `weak`: it counts only if the reply ends
    with it (contract C3). `cut_off`: it broke off behind calls that are closed. `spans` are the positions of what would
    be a call by itself, `kept_text` the bodies within a wrapper that stay text. `format` is what it is, where only the
    parser can tell; else empty.

    `raw_values`: a raw value of it ended.

    `verdict` says whether it may still become a call, `since` from which position on that is not OPEN, and `why` in
    words, empty until there is a reason; `rejection` is the reason as it is counted.
    """

    named: bool = False
    tool: str = ""
    weak: bool = False
    cut_off: bool = False
    spans: list[tuple[int, int]] = field(default_factory=list)
    kept_text: list[KeptText] = field(default_factory=list)
    format: str = ""
    raw_values: bool = False
    verdict: Verdict = Verdict.OPEN
    since: int = -1
    why: str = ""
    rejection: Rejection = Rejection.BROKEN

    def name_tool(self, name: str) -> None:
        """An offered tool was named: of several ones it is not said which."""
        if not self.named:
            self.tool = name
        elif self.tool != name:
            self.tool = ""
        self.named = True

    def weaken(self) -> None:
        """It counts only if the reply ends with it."""
        self.weak = True

    def break_off(self, *, behind_calls: bool) -> None:
        """It broke off: `behind_calls` that are closed, or behind nothing but wrappers."""
        self.cut_off = behind_calls

    def add_span(self, start: int, end: int) -> None:
        """What stands between these positions would be a call by itself."""
        self.spans.append((start, end))

    def add_spans_of(self, other: Evidence) -> None:
        """A candidate that goes on behind this one's end is a part of it."""
        self.spans += other.spans

    def keep_text(self, kept: KeptText) -> None:
        """A body within the wrapper stays text."""
        self.kept_text.append(kept)

    def end_raw_value(self) -> None:
        """A raw value of it ended."""
        self.raw_values = True

    def tell_format(self, name: str) -> None:
        """It is of this format, which only the parser can tell."""
        self.format = name

    def move(self, step: VerdictStep, position: int = -1) -> None:
        """Take a step, which is known since a position."""
        self.verdict, self.since = next_state(VERDICTS, self.verdict, step), position

    def explain(self, refusal: NotACall) -> None:
        """Say why nothing came of it, whatever was said before."""
        self.why, self.rejection = str(refusal), refusal.rejection

    def rejected(self, otherwise: str = "") -> NotACall:
        """What to raise where the end of it was read: why it was rejected, or `otherwise` if it was not."""
        if self.why:
            return NotACall(self.rejection, self.why)
        return NotACall(otherwise)
