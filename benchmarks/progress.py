"""Progress of a long command: one line per step on standard error."""

from __future__ import annotations

import sys

from proxy.display import escaped


class Progress:
    """Progress printer: prints lines such as `doctor: 3/16 streams` to standard error as each step begins."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._begun = 0

    def step(self, text: str) -> None:
        """Print the line of the next step. Control characters in `text` become spaces."""
        self._begun += 1
        print(f"{self._title}: {self._begun}/{self._total} {escaped(text)}", file=sys.stderr, flush=True)
