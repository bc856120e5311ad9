"""Performance targets of the proxy, measured in one run: `python -m benchmarks.held [--quick] [--only idle]`.

nginx, this proxy, its bare stack (`bare_stack.py`), an aiohttp program that parses each event, and LiteLLM run in front
of the same upstream. Each round measures them in turn, and the medians of the rounds are printed. `--against COMMIT`
adds the proxy of an older commit; figures that it does not support stay empty. Programs that cannot be installed are
reported and skipped. The exit code is 1 if a measurement failed, but not if a target is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import against, measure, others, report, run, targets
from benchmarks.against import SPREAD
from benchmarks.measure import Asking, Figures, Sizes
from benchmarks.progress import Progress
from benchmarks.report import Bound, Row
from benchmarks.targets import Starter, Target, Unavailable

# Maximum time of a round, and of the memory measurements at the end; normal ones take a third of it.
ROUND_SECONDS = 600
PROXY, NGINX, BARE = "proxy", "nginx", "bare"
# More streams than the proxy accepts by default.
MANY = 5_000
_ROOM = ("--max-streams", str(MANY + 100))
_HELP_SECONDS = 60
FULL = replace(measure.FULL, paced_seconds=4.0, over_seconds=20.0, whole=300)
QUICK = replace(measure.QUICK, paced_streams=40, over_streams=60, whole=40, first=15, idle=200)

# Requests to each target, by the name of the figure.
PACED: dict[str, Asking] = {
    "text": Asking(),
    "call": Asking("call"),
    "printed": Asking("printed"),
    "messages": measure.MESSAGES,
    "responses": Asking("responses"),
}
# The calls to request from the upstream, and what to expect from a proxy that finds calls in text.
_CALLS = {"call": "right", "printed": "printed"}
_FINDS = {"printed": Asking("found")}
_UNESCAPED, _REPAIRED = Asking("unescaped"), Asking("repaired")
ROWS: tuple[Row, ...] = (
    ("text.cpu_us", "100 streams x 50/s, text, tools offered: CPU us per event", 1),
    ("text.ratio", "... times nginx", 2),
    ("call.cpu_us", "... a live structured write: CPU us per event", 1),
    ("call.ratio", "... times nginx", 2),
    ("printed.cpu_us", "... a call printed as text: CPU us per event", 1),
    ("printed.ratio", "... times nginx", 2),
    ("messages.cpu_us", "... Messages, counts in each chunk: CPU us per event", 1),
    ("messages.beside", "... times chat", 2),
    ("responses.cpu_us", "... Responses: CPU us per event", 1),
    ("responses.beside", "... times chat", 2),
    ("text.litellm", "CPU per event, text: times less than LiteLLM", 1),
    ("over.events_per_s", "400 x 50/s begun over 2 s: events/s", 0),
    ("over.gap_p99_ms", "400 x 50/s begun over 2 s: gap p99 ms", 1),
    ("over.first_p99_ms", "400 x 50/s begun over 2 s: first event, p99 ms", 1),
    ("whole.cpu_ms", "whole answers: CPU ms per request", 2),
    ("whole.ratio", "... times nginx", 1),
    ("whole.bare", "... times Flask, gunicorn and requests alone", 2),
    ("burst.p99_ms", "50 whole answers at once: p99 ms", 1),
    ("burst.times", "... times 50 one after another", 2),
    ("burst.medians", "... times 50 times the median of one alone", 2),
    ("burst.more_ms", "50 streams x 50/s beside 50 that begin at once: longest gap, ms more", 1),
    ("repair.more_ms", "... beside the repair of 100 kB: longest gap, ms more", 1),
    ("first.ms", "time to first event, alone: median ms", 2),
    ("first.ratio", "... what is added, times nginx's own answer time", 1),
    ("idle.during_mb", "1,000 idle streams: worker's RSS, MB", 1),
    ("many.during_mb", "5,000 idle streams: worker's RSS, MB", 1),
)
# Targets: bounds, not goals.
BOUNDS = (
    Bound("CPU per event, text, over nginx", "text.ratio", most=2.6, unit="x"),
    Bound("CPU per event, live write, over nginx", "call.ratio", most=3.3, unit="x"),
    Bound("CPU per event, printed call, over nginx", "printed.ratio", most=4.0, unit="x"),
    Bound("CPU per event, Messages over chat", "messages.beside", most=1.3, unit="x"),
    Bound("CPU per event, Responses over chat", "responses.beside", most=1.3, unit="x"),
    Bound("CPU per event, less than LiteLLM", "text.litellm", least=12.0, unit="x"),
    Bound("400 x 50/s over 2 s: events/s", "over.events_per_s", least=15_000, unit="/s"),
    Bound("400 x 50/s over 2 s: gap p99", "over.gap_p99_ms", most=100.0, unit="ms"),
    Bound("400 x 50/s over 2 s: first event p99", "over.first_p99_ms", most=1_000.0, unit="ms"),
    Bound("CPU per whole request, over the bare stack", "whole.bare", most=1.2, unit="x"),
    Bound("50 at once: p99 over 50 one by one", "burst.times", most=1.0, unit="x"),
    Bound("longest gap beside 50 at once, more", "burst.more_ms", most=30.0, unit="ms"),
    Bound("longest gap beside a repair, more", "repair.more_ms", most=50.0, unit="ms"),
    Bound("added to first event, over nginx's time", "first.ratio", most=10.0, unit="x"),
    Bound("1,000 idle streams: memory", "idle.during_mb", most=100.0, unit="MB"),
    Bound("5,000 idle streams: memory", "many.during_mb", most=250.0, unit="MB"),
)
# Values of `--only`: the first words of the figures.
_ROW_NAMES = tuple(dict.fromkeys(figure.partition(".")[0] for figure, _, _ in ROWS))
_ONLY_HELP = f"measure the rows of one kind alone, and of another if given again: {', '.join(_ROW_NAMES)}"
# Rows measured in fresh processes after all rounds.
_MEMORY_ROWS = frozenset(("idle", "many"))


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of one target in each round, in addition to the first event. LiteLLM and aiohttp are excluded from
    bursts and memory.

    `finds`: the target finds printed calls and repairs broken ones.
    """

    paced: tuple[str, ...]
    whole: bool = False
    bursts: bool = False
    finds: bool = False


@dataclass(slots=True)
class Column:
    """A target of the table. `lenient`: a failed measurement is added to `lacking` and its figures stay empty."""

    name: str
    start: Starter
    plan: Measured
    lenient: bool = False
    lacking: set[str] = field(default_factory=set)


_CHAT = ("text", "call", "printed")
_FRONTS = {"messages", "responses"}
_OURS = Measured(tuple(PACED), whole=True, bursts=True, finds=True)
_PLAIN = Measured(("text",), whole=True)
_FRAME = Measured((), whole=True)
Measurement = Callable[[Target, Sizes], Figures]


def main() -> int:
    """Measure, print the table and the verdicts; return 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description="what the proxy is held to, beside nginx, aiohttp and LiteLLM")
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument("--without", default="", help="targets to leave out, with commas between: LiteLLM,aiohttp")
    parser.add_argument("--against", metavar="COMMIT", default="", help="run the proxy of an older commit beside this")
    parser.add_argument("--rounds", type=against.rounds, help=f"how many; {against.ROUNDS}, or 1 with --quick")
    parser.add_argument("--only", metavar="ROW", action="append", choices=_ROW_NAMES, default=[], help=_ONLY_HELP)
    options = parser.parse_args()
    sizes, rounds = (QUICK, 1) if options.quick else (FULL, against.ROUNDS)
    rounds = options.rounds or rounds
    only = frozenset(options.only)
    limit = (1 + rounds) * ROUND_SECONDS
    run.bounded(limit)
    began = time.monotonic()
    try:
        with targets.upstream(limit) as port, ExitStack() as stack:
            tree = stack.enter_context(against.tree_of(options.against)) if options.against else None
            columns = _columns(options.against, tree, options.without.split(","))
            measured = _measured(columns, port, sizes, rounds, only)
    except (measure.Failed, Unavailable) as error:
        print(f"a measurement failed: {error}", file=sys.stderr)
        return 1
    results = against.show(measured, [row for row in ROWS if _is_asked(row[0], only)], options.against)
    print("\nNumbers to hold")
    bounds = [bound for bound in BOUNDS if _is_asked(bound.figure, only)]
    print("\n".join(report.held(bounds, results.get(PROXY, {}))))
    print(f"\n{rounds} x, {time.monotonic() - began:.0f} s{', quick: the figures are coarse' if options.quick else ''}")
    return 0


def _columns(commit: str, tree: Path | None, without: list[str]) -> list[Column]:
    """Return the targets to measure; `tree` is the folder of the older commit."""
    columns = [Column(NGINX, targets.nginx, Measured(_CHAT, whole=True, bursts=True))]
    columns.append(Column(BARE, others.bare, _FRAME))
    if tree is not None:
        python = against.python_of(tree)
        older = targets.proxy(_room(tree, python), root=tree, python=python)
        columns.append(Column(commit, older, _OURS, lenient=True))
    columns.append(Column(PROXY, targets.proxy(_ROOM), _OURS))
    columns.append(Column("aiohttp", others.parsing, _PLAIN))
    columns.append(Column("LiteLLM", others.litellm, _PLAIN))
    return [column for column in columns if column.name not in without]


def _room(tree: Path, python: str) -> tuple[str, ...]:
    """Return the option for many streams, if the tree has it. Older trees use a thread per stream and allow 1,100."""
    command = [python, "-m", "proxy", "serve", "--help"]
    said = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=_HELP_SECONDS, check=False)
    return _ROOM if _ROOM[0] in said.stdout else ()


def _measured(
    columns: Sequence[Column], port: int, sizes: Sizes, rounds: int, only: frozenset[str]
) -> list[report.Results]:
    """Return the figures of each target in each round. Memory, measured in fresh processes, is in the first round."""
    ours = [column for column in columns if column.plan.finds]
    in_rounds = not only or bool(only - _MEMORY_ROWS)
    with ExitStack() as running_stack:
        running = [*_started(running_stack, columns, port)] if in_rounds else []
        steps = rounds * len(asked(running, only)) + len(ours)
        progress = Progress("benchmarks", steps)
        rows = [_row(number, running, sizes, progress, only) for number in range(1, rounds + 1)]
        running_stack.close()
        for column in ours:
            progress.step(f"memory, {column.name}")
            rows[0].setdefault(column.name, {}).update(_memory(column, port, sizes, only))
    return rows


def _is_asked(figure: str, only: frozenset[str]) -> bool:
    return not only or figure.partition(".")[0] in only


def _started(stack: ExitStack, columns: Sequence[Column], port: int) -> Iterator[tuple[Column, Target]]:
    """Start and warm up every target that is available here."""
    for column in columns:
        try:
            target = stack.enter_context(column.start(port))
        except Unavailable as error:
            if column.plan.finds:
                raise
            print(f"{column.name} is left out: {error}", file=sys.stderr)
            continue
        measure.warm(target)
        for front in _FRONTS.intersection(column.plan.paced):
            _figures(column, front, target, QUICK, _warmth(PACED[front]))
        yield column, target


def _warmth(asking: Asking) -> Measurement:
    """Return the measurement that warms up a target for one front."""

    def warm(target: Target, sizes: Sizes) -> Figures:
        measure.warm(target, asking)
        return {}

    return warm


def _row(
    number: int, running: Sequence[tuple[Column, Target]], sizes: Sizes, progress: Progress, only: frozenset[str]
) -> report.Results:
    """Measure each target once, and compare them.

    Each kind of figure is measured on all targets before the next kind, so that both figures of a ratio are taken
    within seconds. The speed of a shared machine changes within a minute.
    """
    row: report.Results = {column.name: {} for column, _ in running}
    for what in asked(running, only):
        progress.step(f"round {number}, {what}")
        for column, target in running:
            row[column.name] |= one_figure(column, target, sizes, what)
    compare(row)
    return row


def asked(running: Sequence[tuple[Column, Target]], only: frozenset[str]) -> list[str]:
    """Return the names of the measurements, limited to the rows in `only` if it is not empty."""
    names = max((_measurements(column) for column, _ in running), key=len, default={})
    return [what for what in names if _is_asked(what.rpartition(" ")[2], only)]


def one_figure(column: Column, target: Target, sizes: Sizes, what: str) -> Figures:
    """Return the figures of one measurement of a target; none if the target does not take part."""
    measurement = _measurements(column).get(what)
    return {} if measurement is None else _figures(column, what, target, sizes, measurement)


def _figures(column: Column, what: str, target: Target, sizes: Sizes, measurement: Measurement) -> Figures:
    """Return the figures of a measurement; none if a lenient target does not support it."""
    if what in column.lacking:
        return {}
    try:
        return measurement(target, sizes)
    except measure.Failed as error:
        if not column.lenient:
            raise measure.Failed(f"{column.name}, {what}: {error}") from error
        column.lacking.add(what)
        print(f"{column.name}, {what}: left out: {error}", file=sys.stderr)
        return {}


def _measurements(column: Column) -> dict[str, Measurement]:
    """Return the measurements of a target by name."""
    plan = column.plan
    found: dict[str, Measurement] = {what: _cpu_of(what, plan) for what in plan.paced}
    found["first"] = lambda target, sizes: {"first.ms": measure.first_event(target, sizes)["first.ms"]}
    if plan.whole:
        # CPU time has a resolution of 10 ms, and nginx needs a tenth of that for a request.
        times = 10 if column.name == NGINX else 1
        found["whole"] = lambda target, sizes: measure.whole(target, replace(sizes, whole=sizes.whole * times))
    if plan.bursts:
        repair = _REPAIRED if plan.finds else _UNESCAPED
        found["over"] = lambda target, sizes: measure.over(target, sizes, spread=SPREAD)
        found["burst"] = measure.burst
        found["beside burst"] = measure.gap_beside_burst
        found["beside repair"] = lambda target, sizes: measure.gap_beside_repair(target, sizes, repair)
    return found


def _cpu_of(what: str, plan: Measured) -> Measurement:
    """Return the measurement of CPU per event for one kind of streams."""
    asking = _FINDS.get(what, PACED[what]) if plan.finds else PACED[what]
    call = _CALLS.get(what, "")
    return lambda target, sizes: {f"{what}.cpu_us": measure.cpu_per_event(target, sizes, asking, call=call)}


def _memory(column: Column, port: int, sizes: Sizes, only: frozenset[str]) -> Figures:
    """Return the memory of idle streams, with a fresh proxy for each row."""
    figures: Figures = {}
    # The quick run opens fewer, only to check that the measurement works.
    many = MANY if sizes.idle == FULL.idle else 2 * sizes.idle
    for what, streams in (("idle", sizes.idle), ("many", many)):
        if not _is_asked(what, only):
            continue
        with column.start(port) as target:
            measure.warm(target)
            figures |= _figures(column, what, target, replace(sizes, idle=streams), _memory_of(what))
    return figures


def _memory_of(what: str) -> Measurement:
    """Return the measurement of the memory of idle streams, under a name."""
    return lambda target, sizes: {f"{what}.during_mb": measure.memory(target, sizes)["idle.during_mb"]}


def compare(results: report.Results) -> None:
    """Add the figures that compare targets or fronts."""
    least, slow, frame = results.get(NGINX, {}), results.get("LiteLLM", {}), results.get(BARE, {})
    for figures in results.values():
        for name in _CHAT:
            figures[f"{name}.ratio"] = _ratio(figures.get(f"{name}.cpu_us"), least.get(f"{name}.cpu_us"))
        figures["whole.ratio"] = _ratio(figures.get("whole.cpu_ms"), least.get("whole.cpu_ms"))
        figures["whole.bare"] = _ratio(figures.get("whole.cpu_ms"), frame.get("whole.cpu_ms"))
        for name in ("messages", "responses"):
            figures[f"{name}.beside"] = _ratio(figures.get(f"{name}.cpu_us"), figures.get("text.cpu_us"))
        figures["text.litellm"] = _ratio(slow.get("text.cpu_us"), figures.get("text.cpu_us"))
        first, bare = figures.get("first.ms"), least.get("first.ms")
        if first is not None and bare:
            figures["first.ratio"] = (first - bare) / bare


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


if __name__ == "__main__":
    sys.exit(main())
