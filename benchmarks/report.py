"""Tables of figures, and verdicts on targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure import Figures

Results = dict[str, Figures]

# Maximum ratio of this tree's CPU to an older tree's, and the figures it applies to.
MOST_OF_OLDER = 1.10
_CPU = (".cpu_us", ".cpu_ms")

# (figure, description, decimal places)
Row = tuple[str, str, int]

_ROWS: tuple[Row, ...] = (
    ("first.ms", "(a) time to first event, median ms", 2),
    ("first.added_ms", "(a) added over direct, ms", 2),
    ("first.p99_ms", "(a) time to first event, p99 ms", 2),
    ("paced.cpu_us", "(b) paced: CPU us per event", 1),
    ("paced.ratio", "(b) paced: CPU, times nginx", 2),
    ("paced.first_p99_ms", "(b) paced: time to first event, p99 ms", 1),
    ("paced.gap_p99_ms", "(b) paced: gap p99 ms", 1),
    ("paced.late_ms", "(b) paced: lateness median ms", 2),
    ("paced.late_p99_ms", "(b) paced: lateness p99 ms", 2),
    ("paced.busy", "(b) paced: target's load, % of a core", 0),
    ("flat.events_per_s", "(c) flat out: events/s", 0),
    ("flat.cpu_us", "(c) flat out: CPU us per event", 1),
    ("flat.first_p99_ms", "(c) flat out: time to first event, p99 ms", 1),
    ("flat.gap_p99_ms", "(c) flat out: gap p99 ms", 1),
    ("flat.gap_max_ms", "(c) flat out: gap max ms", 1),
    ("flat.busy", "(c) flat out: target's load, % of a core", 0),
    ("flat.generator", "(c) flat out: generator's load, % of a core", 0),
    ("over.events_per_s", "(c) 400 x 50/s: events/s", 0),
    ("over.cpu_us", "(c) 400 x 50/s: CPU us per event", 1),
    ("over.first_p99_ms", "(c) 400 x 50/s: time to first event, p99 ms", 1),
    ("over.gap_p99_ms", "(c) 400 x 50/s: gap p99 ms", 1),
    ("over.gap_max_ms", "(c) 400 x 50/s: gap max ms", 1),
    ("over.late_p99_ms", "(c) 400 x 50/s: lateness p99 ms", 1),
    ("over.busy", "(c) 400 x 50/s: target's load, % of a core", 0),
    ("over.generator", "(c) 400 x 50/s: generator's load, % of a core", 0),
    ("whole.cpu_ms", "(d) whole: CPU ms per request", 2),
    ("whole.ms", "(d) whole: time to answer, median ms", 2),
    ("idle.streams", "(e) idle streams", 0),
    ("idle.before_mb", "(e) worker's RSS before, MB", 1),
    ("idle.during_mb", "(e) worker's RSS during, MB", 1),
    ("idle.kib_per_stream", "(e) KiB per idle stream", 1),
    ("idle.next_ms", "(e) time to first byte of one more, ms", 1),
    ("messages.paced.content_us", "(f) Messages, paced: CPU us per event", 1),
    ("messages.paced.ratio", "(f) Messages, paced: CPU, times (b)", 2),
    ("messages.paced.gap_p99_ms", "(f) Messages, paced: gap p99 ms", 1),
    ("messages.paced.late_ms", "(f) Messages, paced: lateness median ms", 2),
    ("messages.whole.cpu_ms", "(f) Messages, whole: CPU ms per request", 2),
    ("messages.whole.ratio", "(f) Messages, whole: CPU, times (d)", 2),
    ("messages.whole.ms", "(f) Messages, whole: time to answer, median ms", 2),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A target: a figure of the proxy and its minimum or maximum."""

    what: str
    figure: str
    most: float | None = None
    least: float | None = None
    unit: str = ""


# The gap is only judged at 400 x 50/s. At full speed hundreds of events are read at the same time, so its p99 is near 0
# however long a stream waits.
BOUNDS = (
    Bound("added time to first event", "first.added_ms", most=2.0, unit="ms"),
    Bound("CPU per streamed event over nginx", "paced.ratio", most=4.0, unit="x"),
    Bound("events/s, one worker, flat out", "flat.events_per_s", least=15_000, unit="/s"),
    Bound("events/s, one worker, 400 x 50/s", "over.events_per_s", least=15_000, unit="/s"),
    Bound("gap p99, 400 x 50/s", "over.gap_p99_ms", most=150.0, unit="ms"),
    Bound("CPU per whole request", "whole.cpu_ms", most=1.5, unit="ms"),
    Bound("memory per idle stream", "idle.kib_per_stream", most=100.0, unit="KiB"),
    Bound("memory of one worker, 1,000 streams", "idle.during_mb", most=150.0, unit="MB"),
)
ELSEWHERE = (
    ("CPU per streamed event over LiteLLM (<= 1/8)", "not measured here"),
    ("first byte of a string parameter (<= 20 ms)", "python -m benchmarks.write_call"),
    ("scanner (>= 20 MB/s)", "python -m benchmarks.scanner"),
)


def compare(results: Results) -> None:
    """Add the figures that compare targets."""
    for figures in results.values():
        first, bare = figures.get("first.ms"), results.get("direct", {}).get("first.ms")
        if first is not None and bare is not None:
            figures["first.added_ms"] = first - bare
        cpu, least = figures.get("paced.cpu_us"), results.get("nginx", {}).get("paced.cpu_us")
        if cpu is not None and least:
            figures["paced.ratio"] = cpu / least
        for name, figure in (("paced", "paced.content_us"), ("whole", "whole.cpu_ms")):
            cpu, chat = figures.get(f"messages.{figure}"), figures.get(figure)
            if cpu is not None and chat:
                figures[f"messages.{name}.ratio"] = cpu / chat


def table(results: Results, rows: Sequence[Row] = _ROWS) -> Iterator[str]:
    """Yield the lines of the table, in Markdown: one column for each target."""
    widths = {name: max(8, len(name)) for name in results}
    first = max(len(what) for _, what, _ in rows)
    yield f"| {'':<{first}} |" + "".join(f" {name:>{width}} |" for name, width in widths.items())
    yield f"| {'-' * first} |" + "".join(f" {'-' * (width - 1)}: |" for width in widths.values())
    for figure, what, digits in rows:
        cells = ((_number(results[name].get(figure), digits), width) for name, width in widths.items())
        yield f"| {what:<{first}} |" + "".join(f" {cell:>{width}} |" for cell, width in cells)


def beside(rows: Sequence[Row], times: Figures) -> Iterator[str]:
    """Yield a line for each row with the ratio of this tree's figure to the older tree's. CPU ratios have a bound."""
    width = max(len(what) for _, what, _ in rows)
    for figure, what, _ in rows:
        value = times.get(figure)
        line = f"{what:<{width}} {_number(value, 2):>8}"
        if value is not None and figure.endswith(_CPU):
            bound = Bound(what, figure, most=MOST_OF_OLDER)
            line = f"{line}  <= {MOST_OF_OLDER:.2f}  {_verdict(bound, value)}"
        yield line


def verdicts(proxy: Figures) -> Iterator[str]:
    """Yield a line for each target of the proxy, including those that were not measured."""
    yield from held(BOUNDS, proxy)
    for what, where in ELSEWHERE:
        yield f"{what:<65} {where}"


def held(bounds: Iterable[Bound], figures: Mapping[str, float | None]) -> Iterator[str]:
    """Yield a line for each target: the figure, and whether the target is met."""
    for bound in bounds:
        limit = f"<= {bound.most:g}" if bound.most is not None else f">= {bound.least:g}"
        value = figures.get(bound.figure)
        yield f"{bound.what:<38} {limit:>9} {bound.unit:<4} {_number(value, 2):>10}  {_verdict(bound, value)}"


def _verdict(bound: Bound, value: float | None) -> str:
    """Return whether a value is within its bound."""
    if value is None:
        return "not measured"
    low = bound.least is not None and value < bound.least
    # Round, so that a value printed as the bound is within it.
    high = bound.most is not None and round(value, 4) > bound.most
    return "NOT MET" if low or high else "met"


def _number(value: float | None, digits: int) -> str:
    """Return a figure as text, or a dash without one."""
    return "-" if value is None else f"{value:.{digits}f}"
