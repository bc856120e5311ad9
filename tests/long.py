"""The tests that `make quick` and `make check` leave out: `python -m tests.long LOG` writes their list anew.

LOG is what `pytest --durations=0 --durations-min=0.02` printed for all tests. A test is long if all its cases together
take so many seconds; `make test` runs each of them.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
SECONDS = 5.0
# 0.02s call     tests/unit/test_harm.py::test_what_is_written[pythonic]
_DURATION = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(tests/\S+?::[^\[\s]+)", re.MULTILINE)


@cache
def names() -> frozenset[str]:
    """The long tests, as pytest names them without their cases."""
    return frozenset(LIST.read_text("utf-8").split())


def long_ones(log: str) -> list[str]:
    """The tests that take long by what pytest printed."""
    took: defaultdict[str, float] = defaultdict(float)
    for seconds, name in _DURATION.findall(log):
        took[name] += float(seconds)
    return sorted(name for name, seconds in took.items() if seconds >= SECONDS)


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in long_ones(Path(sys.argv[1]).read_text("utf-8"))), "utf-8")
