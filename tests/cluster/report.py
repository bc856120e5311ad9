"""The table: a line for each statement, as it is found out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """What was checked; `failed` are the statements that do not hold."""

    failed: list[str] = field(default_factory=list)
    checked: int = 0

    @property
    def holds(self) -> bool:
        """True if everything that was checked holds, and something was."""
        return self.checked > 0 and not self.failed

    def title(self, words: str) -> None:
        """What comes next."""
        print(f"\n{words}", flush=True)

    def note(self, words: str, value: object) -> None:
        """A figure that nothing is asked of."""
        print(f"          {words:<72} {value}", flush=True)

    def check(self, words: str, value: object, expected: object = True) -> None:
        """A statement: it holds if the value is as expected."""
        holds = value == expected
        self.checked += 1
        if not holds:
            self.failed.append(words)
        shown = "" if expected is True or value in ([], "") else value
        verdict = "holds" if holds else "DOES NOT"
        print(f"  {verdict:<8} {words:<72} {shown if holds else f'{value!r}, not {expected!r}'}".rstrip(), flush=True)

    def summary(self) -> str:
        """One line."""
        failed = "".join(f"\n  not: {words}" for words in self.failed)
        return f"{self.checked - len(self.failed)} of {self.checked} hold{failed}"
