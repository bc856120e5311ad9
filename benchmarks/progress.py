"""Progress of a long command: one line per step on standard error."""

from __future__ import annotations

import sys

from proxy.codec.display import printable


class Progress:
    """Prints `doctor: 3/16 streams` as each step begins. Standard output is never touched."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._begun = 0

    def step(self, text: str) -> None:
        """Print the line of the next step; control characters of `text` become blanks."""
        self._begun += 1
        print(f"{self._title}: {self._begun}/{self._total} {printable(text, ' ')}", file=sys.stderr, flush=True)
