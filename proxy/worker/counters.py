"""What a worker counts of its repairs, for /health."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.codec.json_text import JsonObject

# Names come from the code, but a reason may quote what a model wrote.
MAX_NAMES = 256
MAX_NAME = 100
OTHERS = "others"


@dataclass(slots=True)
class Counters:
    """Repairs by fix id, refusals by reason, and the calls that left without the arguments that their tool requires."""

    _fixes: Counter[str] = field(default_factory=Counter)
    _refusals: Counter[str] = field(default_factory=Counter)
    _empty_calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, fixes: Mapping[str, int], refusals: Mapping[str, int], empty_calls: int) -> None:
        """Add what became of one reply."""
        with self._lock:
            _add(self._fixes, fixes)
            _add(self._refusals, refusals)
            self._empty_calls += empty_calls

    def shown(self) -> JsonObject:
        """The counters by the names that /health gives them."""
        with self._lock:
            return {
                "fixes": dict(sorted(self._fixes.items())),
                "refusals": dict(sorted(self._refusals.items())),
                "calls_with_empty_arguments": self._empty_calls,
            }


def _add(total: Counter[str], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        short = name[:MAX_NAME]
        total[short if short in total or len(total) < MAX_NAMES else OTHERS] += count
