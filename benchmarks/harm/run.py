"""Run of the cases: counts the verdicts and prints the tables."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.harm.cases import BREAKS, FAMILIES, SEED, Case, make, pairs
from benchmarks.harm.drive import Left, answered
from benchmarks.harm.judge import Judged, Verdict, judge

CASES = 10_000
LEAST_RIGHT = 0.9
# Maximum share of refused calls among each family's intact calls with one reading.
MOST_REFUSED = 0.04


@dataclass(slots=True)
class Count:
    """Counts of the verdicts. `one` counts the cases with one reading, `one_right` the right ones among them."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    one: int = 0
    one_right: int = 0

    def add(self, judged: Judged) -> None:
        """Count one more."""
        self.verdicts[judged.verdict] += 1
        self.one += judged.one
        self.one_right += judged.one and judged.verdict is Verdict.RIGHT

    @property
    def share(self) -> float | None:
        """The share of right cases among those with one reading, or None without such cases."""
        return self.one_right / self.one if self.one else None


@dataclass(slots=True)
class Results:
    """Counts of a run: in total, by break, by family, and of intact calls by family; and the examples to print."""

    total: Count = field(default_factory=Count)
    breaks: dict[str, Count] = field(default_factory=dict)
    families: dict[str, Count] = field(default_factory=dict)
    whole: dict[str, Count] = field(default_factory=dict)
    reasons: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    shown: list[tuple[Case, Left, Judged]] = field(default_factory=list)

    def add(self, case: Case, left: Left, judged: Judged, show: int) -> None:
        """Count a case, and keep it if it is one of the first `show` of its kind that are not right."""
        for count in (
            self.total,
            self.breaks.setdefault(case.kind.name, Count()),
            self.families.setdefault(case.family.name, Count()),
        ):
            count.add(judged)
        if case.kind.whole:
            self.whole.setdefault(case.family.name, Count()).add(judged)
        if judged.verdict is Verdict.WRONG:
            self.reasons[case.kind.name, case.family.name, judged.why] += 1
        missed = judged.one and judged.verdict is Verdict.REFUSED
        notable = missed or judged.verdict in (Verdict.WRONG, Verdict.LEGAL)
        if notable and self._kept(case, judged) < show:
            self.shown.append((case, left, judged))

    def _kept(self, case: Case, judged: Judged) -> int:
        return sum((case.kind.name, judged) == (kept.kind.name, verdict) for kept, _, verdict in self.shown)


def run(
    cases: int,
    seed: int,
    families: Sequence[str] = (),
    breaks: Sequence[str] = (),
    *,
    show: int = 0,
) -> Results:
    """Judge `cases` cases, cycling through all compatible families and breaks."""
    results = Results()
    waiting = deque(pairs(families, breaks))
    made = Counter[tuple[str, str]]()
    while waiting and made.total() < cases:
        family, kind = waiting.popleft()
        case = make(family, kind, made[family.name, kind.name], seed)
        if case is None:
            waiting = deque(pair for pair in waiting if pair != (family, kind))
            continue
        waiting.append((family, kind))
        made[family.name, kind.name] += 1
        results.add(case, *_judged(case), show)
    return results


def _judged(case: Case) -> tuple[Left, Judged]:
    left = answered(case.draft.offers, case.reply)
    return left, judge(case, left)


def replay(family: str, kind: str, number: int, seed: int) -> Results:
    """Judge one case again."""
    results = Results()
    case = make(FAMILIES[family], BREAKS[kind], number, seed)
    if case is not None:
        left, judged = _judged(case)
        results.add(case, left, judged, 0)
        results.shown.append((case, left, judged))
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print; return 1 if a verdict is `wrong`."""
    given = _parser().parse_args(argv)
    began = time.process_time()
    if given.case is not None:
        results = replay(given.family[0], given.kind[0], given.case, given.seed)
    else:
        results = run(given.cases, given.seed, given.family or (), given.kind or (), show=given.show)
    seconds = time.process_time() - began
    if given.json:
        print(json.dumps(as_json(results, given.seed, seconds), ensure_ascii=False, indent=1))
    else:
        print("\n".join(report(results, given.seed, seconds)))
    return 1 if results.total.verdicts[Verdict.WRONG] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harm", description="what becomes of broken calls")
    parser.add_argument("--cases", type=int, default=CASES, help=f"how many replies are made ({CASES})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"another seed makes other calls ({SEED})")
    parser.add_argument(
        "--family", action="append", choices=list(FAMILIES), help="of this family only; may be repeated"
    )
    parser.add_argument("--break", action="append", dest="kind", choices=list(BREAKS), help="broken in this way only")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="show N wrong and N missed ones of each kind")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="replay this case of one family and one break")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


_COLUMNS = ("right", "refused", "wrong", "legal", "one", "of one right")


def report(results: Results, seed: int, seconds: float) -> Iterator[str]:
    """Yield the lines of the report."""
    for case, left, judged in results.shown:
        yield from shown(case, left, judged, seed)
    order = [name for name in BREAKS if name in results.breaks]
    yield from _table("break", [(name, results.breaks[name]) for name in order], results.total)
    yield ""
    order = [name for name in FAMILIES if name in results.families]
    yield from _table("family", [(name, results.families[name]) for name in order], results.total)
    yield ""
    yield from _reasons(results)
    yield from _demands(results)
    yield f"{results.total.verdicts.total()} cases, seed {seed}, {seconds:.0f} s of CPU"


def _reasons(results: Results) -> Iterator[str]:
    """Yield the kinds of errors and their counts."""
    if not results.reasons:
        return
    yield "What is wrong, by break, family and kind:"
    for (kind, family, why), times in results.reasons.most_common():
        yield f"{times:6} {kind}, {family}: {why}"
    yield ""


def _demands(results: Results) -> Iterator[str]:
    """Yield the requirements of the proxy, and whether they are met."""
    wrong = results.total.verdicts[Verdict.WRONG]
    share = results.total.share or 0.0
    shares = {name: count.share for name, count in results.whole.items() if count.share is not None}
    family = min(shares, key=lambda name: shares[name], default="")
    refused = 1 - shares.get(family, 1.0)
    yield f"wrong                                       = 0 {wrong:10}  {'met' if not wrong else 'NOT MET'}"
    yield (
        f"right, of those with exactly one reading >= {LEAST_RIGHT:.0%} {share:10.1%}  "
        f"{'met' if share >= LEAST_RIGHT else 'NOT MET'}"
    )
    yield (
        f"refused, of a family's whole calls with one <= {MOST_REFUSED:.0%} {refused:10.1%}  "
        f"{'met' if refused <= MOST_REFUSED else f'NOT MET: {family}'}"
    )


def _table(what: str, rows: Sequence[tuple[str, Count]], total: Count) -> Iterator[str]:
    yield f"| {what:<20} |" + "".join(f" {name:>12} |" for name in _COLUMNS)
    yield f"| {'-' * 20} |" + f" {'-' * 11}: |" * len(_COLUMNS)
    for name, count in (*rows, ("all", total)):
        cells = [str(count.verdicts[verdict]) for verdict in Verdict]
        cells += [str(count.one), "-" if count.share is None else f"{count.share:.1%}"]
        yield f"| {name:<20} |" + "".join(f" {cell:>12} |" for cell in cells)


def shown(case: Case, left: Left, judged: Judged, seed: int) -> Iterator[str]:
    """Yield the lines of a case in full."""
    how = "whole" if case.reply.cuts is None else "streamed"
    yield f"== {judged.verdict.value}: {judged.why} ({'one reading' if judged.one else 'no certain reading'}, {how})"
    yield f"   --seed {seed} --family {case.family.name} --break {case.kind.name} --case {case.number}"
    yield f"   schema  {json.dumps(case.draft.offer.schema, ensure_ascii=False)}"
    yield from (f"   meant   {name} {json.dumps(values, ensure_ascii=False)}" for name, values in case.meant)
    yield from (f"   written {name} {text!r}" for name, text in case.reply.calls)
    yield f"   text    {case.reply.text!r}, {case.reply.finish}"
    yield from (f"   left    {name} {text}" for name, text in left.calls)
    yield f"   left    {left.text!r}, {left.finish or left.failed or left.crashed}; repairs {', '.join(left.repairs)}"
    yield ""


def as_json(results: Results, seed: int, seconds: float) -> dict[str, object]:
    """Return the results as JSON."""
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "total": _count_as_json(results.total),
        "breaks": {name: _count_as_json(count) for name, count in results.breaks.items()},
        "families": {name: _count_as_json(count) for name, count in results.families.items()},
        "wrong": [
            {"break": kind, "family": family, "why": why, "times": times}
            for (kind, family, why), times in results.reasons.most_common()
        ],
        "shown": ["\n".join(shown(case, left, judged, seed)) for case, left, judged in results.shown],
    }


def _count_as_json(count: Count) -> dict[str, object]:
    verdicts = {verdict.value: count.verdicts[verdict] for verdict in Verdict}
    return {**verdicts, "one reading": count.one, "one reading, right": count.one_right}
