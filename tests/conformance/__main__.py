"""`make conformance`: canitoolcall's fixtures through the proxy, as a vLLM without parsers sends them.

The suite's own runner replays and judges each fixture whole and as seven streams, under its model's own name and under
the alias `local-model`. Prints the verdicts by family, each failure with its reason, and each stream that differs from
the whole answer.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from canitoolcall.chunking import parse_strategies
from canitoolcall.fixtures import load_families
from canitoolcall.results import CaseResult, Status
from canitoolcall.runner import RunConfig, run

ENGINE = "benchmarks.conformance:ProxyAdapter"
ALIAS = "local-model"
# Characters are the units, so `token` sends each of them alone.
STRATEGIES = ("one", "token", *(f"rand:{seed}:8" for seed in range(1, 6)))
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
    parser.add_argument(
        "--family", action="append", choices=load_families(), help="replay only this family (repeatable)"
    )
    parser.add_argument(
        "--strategy", action="append", choices=STRATEGIES, help="send only the streams of this strategy (repeatable)"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="also write the suite's results of each run here")
    options = parser.parse_args()
    began, good, total = time.monotonic(), list[int](), 0
    for name in ("", ALIAS):
        strategies = options.strategy or STRATEGIES
        cases = replay(name, families=options.family or (), strategies=strategies, out=options.out)
        total = len(cases)
        good.append(_table(name or "own name", cases))
    print(f"\npass or soft pass: {good[0]} and {good[1]} of {total} ({time.monotonic() - began:.0f} s)")
    return 1 if good[0] < options.at_least[0] or good[1] < options.at_least[-1] else 0


def replay(
    name: str,
    *,
    families: Sequence[str] = (),
    ids: Sequence[str] = (),
    strategies: Sequence[str] = STRATEGIES,
    out: Path | None = None,
) -> list[CaseResult]:
    """Run the suite with the model served under `name`, "" for its own, and return the results of the fixtures."""
    results = run(
        RunConfig(
            engine=ENGINE,
            families=families,
            ids=ids,
            strategies=parse_strategies(strategies),
            env={"SERVED_NAME": name, "PYTHONPATH": str(Path(__file__).parents[2])},
            jobs=os.cpu_count() or 1,
            validate=False,
        )
    )
    if out is not None:
        results.write(out / f"{name or 'own-name'}-{results.default_filename()}")
    return list(results.cases)


def _table(title: str, cases: list[CaseResult]) -> int:
    """Print the verdicts and return how many fixtures pass or pass softly."""
    print(f"\n{title:16}" + "".join(f"{status.value:>11}" for status in STATUSES))
    for family in [*dict.fromkeys(case.family for case in cases), "all"]:
        statuses = [case.status for case in cases if family in (case.family, "all")]
        print(f"{family:16}" + "".join(f"{statuses.count(status):>11}" for status in STATUSES))
    for case in cases:
        if case.status not in GOOD:
            print(f"{case.status.value}: {case.fixture_id}: {reason(case)}"[:WIDTH])
        apart = [row for row in case.checks if row.check == "stream_equals_nonstream" and row.status is not Status.PASS]
        if apart:
            strategies = ", ".join(row.strategy for row in apart)
            print(f"stream differs: {case.fixture_id}: {strategies}: {apart[0].detail}"[:WIDTH])
    return sum(case.status in GOOD for case in cases)


def reason(case: CaseResult) -> str:
    if case.harness_error:
        return case.harness_error.splitlines()[-1]
    row = next(row for row in case.checks if row.status in (Status.FAIL, Status.ERROR))
    return f"{row.check} ({row.strategy}): {row.detail}"


if __name__ == "__main__":
    sys.exit(main())
