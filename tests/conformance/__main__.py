"""`make conformance`: canitoolcall's fixtures through the proxy, as a vLLM without parsers sends them.

Each fixture is replayed whole and as several streams, under its model's own name and under the alias `local-model`,
and judged by the suite's own checks. Prints the verdicts by family, each failure with its reason, and each stream
that differs from the whole answer.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from canitoolcall.fixtures import Fixture, load_families, load_fixtures
from canitoolcall.results import Status

from tests.conformance.replay import ALIAS, Verdict, judge

GOOD = (Status.PASS, Status.SOFT_PASS)
STATUSES = (*GOOD, Status.FAIL, Status.ERROR)
WIDTH = 240


def main() -> int:
    """Print both tables; return 1 if fewer fixtures than `--at-least` pass or pass softly."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--at-least",
        type=int,
        nargs="+",
        default=[0],
        metavar="N",
        help="exit with 1 if fewer fixtures pass or pass softly: one number for both names, or one for each",
    )
    parser.add_argument("--family", action="append", help="replay only this family (repeatable)")
    options = parser.parse_args()
    began, fixtures = time.monotonic(), load_fixtures(families=options.family)
    if not fixtures:
        parser.error(f"no such family; choose from {', '.join(load_families())}")
    good = [_table(name, fixtures) for name in (None, ALIAS)]
    print(f"\npass or soft pass: {good[0]} and {good[1]} of {len(fixtures)} ({time.monotonic() - began:.0f} s)")
    return 1 if good[0] < options.at_least[0] or good[1] < options.at_least[-1] else 0


def _table(name: str | None, fixtures: list[Fixture]) -> int:
    """Replay all fixtures under `name` (None: each under its own) and return how many pass or pass softly."""
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=logging.disable) as pool:
        verdicts = [*pool.map(judge, fixtures, [name] * len(fixtures), chunksize=16)]
    print(f"\n{name or 'own name':16}" + "".join(f"{status.value:>11}" for status in STATUSES))
    families = dict.fromkeys(verdict.family for verdict in verdicts)
    for family in families:
        print(_row(family, [verdict for verdict in verdicts if verdict.family == family]))
    print(_row("all", verdicts))
    for verdict in verdicts:
        if verdict.reason:
            print(f"{verdict.status.value}: {verdict.id}: {verdict.reason}"[:WIDTH])
        if verdict.unstable:
            print(f"stream differs: {verdict.id}: {verdict.unstable}"[:WIDTH])
    return sum(verdict.status in GOOD for verdict in verdicts)


def _row(name: str, verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.status for verdict in verdicts)
    return f"{name:16}" + "".join(f"{counts[status]:>11}" for status in STATUSES)


if __name__ == "__main__":
    sys.exit(main())
