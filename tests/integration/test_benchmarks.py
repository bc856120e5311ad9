"""The benchmarks run: what they print is a measurement, not a test; that they can be made at all is one."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import against, body, fronts, growth, held, load, measure, others, report, run, script, targets
from benchmarks.hostile import BOUNDS as HOSTILE_BOUNDS
from benchmarks.hostile import KINDS as HOSTILE_KINDS
from benchmarks.measure import Figures, Sizes
from benchmarks.messages import COLUMNS
from benchmarks.messages import ROWS as MESSAGES_ROWS
from benchmarks.processes import cpu_seconds
from benchmarks.progress import Progress
from benchmarks.scanner import BOUNDS, CASES
from benchmarks.targets import Target, nginx_program
from benchmarks.write_call import BOUNDS as WRITE_CALL_BOUNDS
from benchmarks.write_call import ROWS
from tests.real.processes import ROOT


@pytest.mark.slow
@pytest.mark.benchmarks
def test_one_run_measures_direct_nginx_and_proxy() -> None:
    """Every answer through every target was right, and each of the figures is there."""
    targets = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else []), "proxy"]
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--targets", ",".join(targets)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][1:] == targets
    steps = [line for line in done.stderr.splitlines() if line.startswith("benchmarks: ")]
    assert steps[0].startswith(f"benchmarks: 1/{len(steps)} ") and len(steps) == 8 * len(targets)
    figures = {row[0]: row[-1] for row in rows[2:]}
    names = ("time to first event, median", "CPU us per event", "events/s", "gap p99", "KiB per idle stream")
    for name in (*names, "Messages, paced: CPU, times (b)", "Messages, whole: CPU, times (d)"):
        found = [value for label, value in figures.items() if name in label]
        assert found and all(float(value) >= 0 for value in found)


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_what_is_held_is_measured_beside_nginx_and_an_older_tree() -> None:
    """Every answer was right, a live call's as well, and each number is told as met, as not met, or not measured."""
    command = [sys.executable, "-m", "benchmarks.held", "--quick", "--without", "aiohttp,LiteLLM", "--against", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][-2:] == ["HEAD", "proxy"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in held.ROWS]
    figures = {figure: row[-2:] for (figure, _, _), row in zip(held.ROWS, rows[2:], strict=True)}
    # What is measured as a difference may be less than nothing.
    coarse = (".ratio", ".litellm", ".more_ms")
    measured = [cells for figure, cells in figures.items() if not figure.endswith(coarse)]
    assert all(float(value) >= 0 for cells in measured for value in cells)
    assert all(figures[f"{name}.more_ms"][-1] != "-" for name in ("burst", "repair"))
    assert "\nThis tree, in times of HEAD" in done.stdout
    assert "benchmarks: 1/" in done.stderr
    said = done.stdout.partition("Numbers to hold\n")[2].splitlines()[: len(held.BOUNDS)]
    assert all(line.endswith(("met", "NOT MET", "not measured")) for line in said)


def test_one_target_is_held_against_another() -> None:
    results: dict[str, Figures] = {
        "nginx": {"text.cpu_us": 20.0, "call.cpu_us": 10.0, "whole.cpu_ms": 0.1, "first.ms": 0.2},
        "proxy": {"text.cpu_us": 40.0, "call.cpu_us": 50.0, "whole.cpu_ms": 1.0, "first.ms": 1.2},
        "LiteLLM": {"text.cpu_us": 800.0},
        "bare": {"whole.cpu_ms": 0.5},
    }
    results["proxy"]["messages.cpu_us"] = 50.0
    results["nginx"]["printed.cpu_us"], results["proxy"]["printed.cpu_us"] = 16.0, 80.0
    held.compare(results)
    proxy = results["proxy"]
    assert (proxy["text.ratio"], proxy["call.ratio"], proxy["whole.ratio"]) == (2.0, 5.0, 10.0)
    assert proxy["whole.bare"] == 2.0
    assert (proxy["messages.beside"], proxy["responses.beside"], proxy["text.litellm"]) == (1.25, None, 20.0)
    assert proxy["printed.ratio"] == 5.0
    assert proxy["first.ratio"] == pytest.approx(5.0)


CALL_EVENTS = 40


def read_call(change: bytes = b"", by: bytes = b"", *, drop: int = -1) -> str | None:
    """What the client of the benchmarks says of a call of which some bytes are others, or an event is missing."""
    says = script.call(CALL_EVENTS, False)
    ident = script.ident(7.0)
    wire = b"".join([says.role(ident), *(says.content(ident, number) for number in range(1, CALL_EVENTS + 1))])
    wire += says.end(ident, CALL_EVENTS, False)
    events = [line for line in wire.split(b"\n") if line.startswith(b"data: ")]
    reading = fronts.CallReading(script.call_fragments(CALL_EVENTS, False))
    for number, event in enumerate(events):
        if number != drop:
            reading.take(event.strip().replace(change, by) if change else event.strip())
    return reading.error()


def test_a_call_is_read_to_its_end() -> None:
    assert read_call() is None
    assert read_call(b"[DONE]", b"{}") == "no [DONE]"
    assert read_call(drop=5) == "other arguments than the upstream wrote"
    assert read_call(b'"finish_reason":"tool_calls"', b'"finish_reason":"stop"') == "another finish"


def test_a_call_that_came_at_once_was_no_live_one() -> None:
    arguments = "".join(script.call_fragments(CALL_EVENTS, False))
    call = {"index": 0, "id": "a", "function": {"name": "write", "arguments": arguments}}
    said = [{"delta": {"tool_calls": [call]}, "finish_reason": None}, {"delta": {}, "finish_reason": "tool_calls"}]
    reading = fronts.CallReading(script.call_fragments(CALL_EVENTS, False))
    for choice in said:
        reading.take(b"data: " + json.dumps({"choices": [choice]}).encode())
    reading.take(b"data: [DONE]")
    assert reading.error() == f"a call that was held back: 1 pieces of {CALL_EVENTS}"


def read_printed(events: list[bytes], *, found: bool) -> str | None:
    reading = fronts.PrintedReading(CALL_EVENTS, found=found)
    for event in events:
        reading.take(event)
    return reading.error()


def test_a_printed_call_is_read_as_the_text_that_it_is() -> None:
    says, ident = script.printed_call(CALL_EVENTS), script.ident(7.0)
    wire = b"".join([says.role(ident), *(says.content(ident, number) for number in range(1, CALL_EVENTS + 1))])
    wire += says.end(ident, CALL_EVENTS, False)
    events = [line.strip() for line in wire.split(b"\n") if line.startswith(b"data: ")]
    assert read_printed(events, found=False) is None
    assert read_printed(events[:-1], found=False) == "no [DONE]"
    assert read_printed(events[:5] + events[6:], found=False) == "another text than the upstream wrote"
    assert "characters of text beside the call" in str(read_printed(events, found=True))


@pytest.mark.parametrize(
    ("name", "change", "beside", "error"),
    [
        ("write", {}, "\n", None),
        ("read", {}, "", "calls ['read'] with other arguments than the upstream wrote"),
        ("write", {"overwrite": False}, "", "calls ['write'] with other arguments than the upstream wrote"),
        ("write", {}, "So", "2 characters of text beside the call"),
    ],
)
def test_a_printed_call_is_read_as_the_call_that_was_found(
    name: str, change: dict[str, Any], beside: str, error: str | None
) -> None:
    arguments = {**json.loads("".join(script.printed_arguments(CALL_EVENTS))), **change}
    call = {"index": 0, "id": "a", "function": {"name": name, "arguments": json.dumps(arguments)}}
    choice = {"delta": {"content": beside, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    events = [b"data: " + json.dumps({"choices": [choice]}).encode(), b"data: [DONE]"]
    assert read_printed(events, found=True) == error


def test_a_call_without_backslashes_is_repaired_or_leaves_as_it_came() -> None:
    """The upstream's call is no JSON; what is meant is known."""
    broken = "".join(script.unescaped_fragments(CALL_EVENTS))
    meant = "".join(script.unescaped_fragments(CALL_EVENTS, repaired=True))
    assert len(script.unescaped_fragments(CALL_EVENTS)) == CALL_EVENTS - 1
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(broken)
    assert read_repaired("unescaped", broken) is None
    assert read_repaired("unescaped", meant) == "other arguments than the upstream wrote"
    assert read_repaired("repaired", meant) is None
    assert read_repaired("repaired", "{}") == "calls ['write'] with other arguments than the upstream wrote"


def read_repaired(front: str, arguments: str) -> str | None:
    """What the client of the benchmarks says of a call that lacks backslashes, or had them put back."""
    pieces = [arguments[at : at + 20] for at in range(0, len(arguments), 20)]
    named = [{"name": "write"}, *({"arguments": piece} for piece in pieces)]
    choices = [{"delta": {"tool_calls": [{"function": said}]}, "finish_reason": None} for said in named]
    reading = fronts.reading(front, CALL_EVENTS, counts=False)
    for choice in (*choices, {"delta": {}, "finish_reason": "tool_calls"}):
        reading.take(b"data: " + json.dumps({"choices": [choice]}).encode())
    reading.take(b"data: [DONE]")
    return reading.error()


def test_the_longest_gap_is_told_since_it_was_asked_for_last() -> None:
    """What a stream waits for now counts as well."""
    gaps = load.Gaps()
    gaps.event(1.0)
    gaps.event(1.5)
    gaps.event(1.6)
    assert gaps.longest(1.7) == pytest.approx(0.5)
    assert gaps.longest(1.9) == pytest.approx(0.3)
    gaps.event(1.92)
    assert gaps.longest(1.93) == pytest.approx(0.32)


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_growth_is_measured(tmp_path: Path) -> None:
    """Every answer was right; what cannot be drawn here is told in numbers all the same."""
    command = [sys.executable, "-m", "benchmarks.growth", "--quick", "--folder", str(tmp_path)]
    nowhere = {**os.environ, "BENCH_ENVIRONMENTS": "/dev/null"}
    done = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no plots: " in done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    sizes = [size for sweep in growth.SWEEPS for size in (sweep.size, "---:", *(f"{n:,}" for n in sweep.sizes[:2]))]
    assert rows == sizes


def test_growth_is_told_as_the_largest_power_of_the_work() -> None:
    """Between all neighbours: a step in the middle shows."""
    assert growth.steepest([(1, 5.0), (10, 2.0), (100, 20.0)])[0] == pytest.approx(1.0)
    assert growth.steepest([(10, 2.0), (100, 2.0)]) == (0.0, 10, 100)
    assert growth.steepest([(10, 2.0), (100, 200.0), (1000, 220.0)])[0] == pytest.approx(2.0)
    assert growth.steepest([(10, 2.0), (100, 200.0), (1000, 220.0)])[1:] == (10, 100)
    assert growth.steepest([(10, -0.1), (100, 2.0)]) == (0.0, 10, 100)
    assert "power 2.00 at most, from 10 to 100" in growth.table(growth.SWEEPS[0], [(10, 2.0), (100, 200.0)])[-1]


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_an_older_commit_is_measured_beside_this_one() -> None:
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--against", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][-2:] == ["HEAD", "proxy"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in against.ROWS]
    assert all(float(cell) >= 0 for row in rows[2:] for cell in row[-2:] if "nginx" not in row[0])


class Steps(Progress):
    """Records the steps."""

    def __init__(self) -> None:
        super().__init__("benchmarks", 3)
        self.told: list[str] = []

    def step(self, text: str) -> None:
        self.told.append(text)


@contextmanager
def _nowhere(port: int) -> Iterator[Target]:
    yield Target("x", port)


def test_each_measurement_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are announced: those of one process, and memory."""

    def fail(target: Target, sizes: Sizes) -> Figures:
        raise measure.Failed("no")

    def paced(target: Target, sizes: Sizes) -> Figures:
        return {"paced": 1.0}

    monkeypatch.setattr(measure, "warm", lambda _: None)
    monkeypatch.setattr(run, "_RUNS", ((paced, fail), (paced,)))
    bar = Steps()
    assert run._measure("x", _nowhere, 1, measure.QUICK, bar) == ({"paced": 1.0}, False)
    assert bar.told == ["x, paced", "x, fail", "x, paced"]


def test_each_turn_of_a_round_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "_measure", lambda target, _: {"port": float(target.port)})
    bar = Steps()
    running = {"HEAD": Target("HEAD", 1), "proxy": Target("proxy", 2)}
    assert against._round(3, running, measure.QUICK, bar) == {"HEAD": {"port": 1.0}, "proxy": {"port": 2.0}}
    assert bar.told == ["round 3, HEAD", "round 3, proxy"]


def test_of_each_figure_the_median_of_the_rounds_counts() -> None:
    rounds: list[Figures] = [{"a": 3.0, "b": None}, {"a": 1.0, "b": None}, {"a": 9.0, "b": 2.0}]
    assert against.medians(rounds) == {"a": 3.0, "b": 2.0}
    assert against.medians([{"a": None}]) == {"a": None}


def test_a_newer_tree_is_told_in_times_of_an_older_one() -> None:
    """The median of the rounds' ratios; what one of the two lacks has none, and only CPU has a bound."""
    rounds: list[report.Results] = [
        {"old": {"a.cpu_us": 10.0, "gap": 2.0, "b": None}, "new": {"a.cpu_us": 9.0, "gap": 4.0, "b": 1.0}},
        {"old": {"a.cpu_us": 20.0, "gap": 2.0}, "new": {"a.cpu_us": 24.0, "gap": 4.0}},
        {"old": {"a.cpu_us": 20.0, "gap": 0.0}, "new": {"a.cpu_us": 22.0, "gap": 4.0}},
    ]
    times = against.times(rounds, "old", "new")
    assert times == {"a.cpu_us": pytest.approx(1.1), "gap": 2.0}
    rows: tuple[report.Row, ...] = (("a.cpu_us", "A", 1), ("gap", "G", 1), ("b", "B", 1))
    cells = [line.split() for line in report.beside(rows, {"a.cpu_us": 1.2, "gap": 2.0})]
    assert cells == [["A", "1.20", "<=", "1.10", "NOT", "MET"], ["G", "2.00"], ["B", "-"]]
    assert next(report.beside(rows, {"a.cpu_us": 1.1})).endswith("<= 1.10  met")


def test_a_round_is_at_least_one() -> None:
    assert against.rounds("7") == 7
    with pytest.raises(argparse.ArgumentTypeError):
        against.rounds("0")


def test_answers_at_once_are_told_in_times_of_as_many_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pairs' ratios the median counts, and not that of the medians."""
    seconds, at_once = iter((0.050, 0.100, 0.060)), iter((40.0, 90.0, 66.0))

    def loaded(*asked: Any, parallel: int) -> dict[str, Any]:
        assert asked[1:] == (50, {}, "--whole")
        if parallel:
            return {"seconds": next(seconds), "first_ms": 0.5, "first_p99_ms": 9.0}
        return {"seconds": 1.0, "first_ms": 9.0, "first_p99_ms": next(at_once)}

    monkeypatch.setattr(measure, "_load", loaded)
    figures = measure.burst(Target("x", 1), Sizes(bursts=3))
    expected = {"burst.p99_ms": 66.0, "burst.times": 0.9, "burst.medians": 66.0 / 25}
    assert figures == pytest.approx(expected)


def test_only_the_rows_that_are_asked_for_are_measured() -> None:
    column = held.Column("proxy", _nowhere, held.Measured(("text",), whole=True, bursts=True))
    running = [(column, Target("x", 1))]
    assert held.asked(running, frozenset(("whole", "burst", "idle"))) == ["whole", "burst", "beside burst"]
    assert held.asked(running, frozenset(("idle",))) == held.asked([], frozenset()) == []
    assert held.one_figure(column, Target("x", 1), measure.QUICK, "printed") == {}


def test_what_an_older_tree_cannot_do_is_left_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked once, and a tree that must be able to do it voids the run."""
    asked: list[str] = []

    def first(target: Target, sizes: Sizes) -> Figures:
        asked.append(target.name)
        raise measure.Failed("status 404")

    monkeypatch.setattr(measure, "first_event", first)
    column = held.Column("old", _nowhere, held.Measured(()), lenient=True)
    assert [held.one_figure(column, Target("x", 1), measure.QUICK, "first") for _ in range(2)] == [{}, {}]
    assert asked == ["x"]
    assert "old, first: left out: status 404" in capsys.readouterr().err
    column = held.Column("proxy", _nowhere, held.Measured(()))
    with pytest.raises(measure.Failed):
        held.one_figure(column, Target("x", 1), measure.QUICK, "first")


def test_a_commit_that_is_not_there_is_told() -> None:
    with pytest.raises(targets.Unavailable, match="no-such-commit"), against.tree_of("no-such-commit"):
        pass


def test_an_older_tree_that_needs_other_packages_has_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def made(*asked_for: str) -> Path:
        asked.append(asked_for)
        return tmp_path / "bin"

    monkeypatch.setattr(others, "environment", made)
    assert against.python_of(ROOT) == sys.executable
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "__main__.py").write_text("import json_repairs_of_old")
    (tmp_path / "setup.cfg").write_text("[options]\ninstall_requires =\n    flask>=3\n    json-repair\n")
    assert against.python_of(tmp_path) == str(tmp_path / "bin" / "python")
    assert [packages[1:] for packages in asked] == [("flask>=3", "json-repair")]


def test_an_older_tree_is_there_and_gone_again() -> None:
    with against.tree_of("HEAD") as tree:
        assert (tree / "proxy" / "app.py").exists()
    assert not tree.exists()
    listed = subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert str(tree) not in listed.stdout


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_a_long_write_call_is_measured() -> None:
    """Every answer held the very arguments, or the repaired ones; they leave in pieces."""
    command = [sys.executable, "-m", "benchmarks.write_call", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    names = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else [])]
    assert rows[0][1:] == [*names, "live", "repaired", "text"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in ROWS]
    figures = {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}
    events = figures["flat out: events at the client"]
    assert float(events["live"]) > 1_000
    assert all(bound.what in done.stdout for bound in WRITE_CALL_BOUNDS)


@pytest.mark.benchmarks
def test_the_scanner_is_measured_with_every_text() -> None:
    """None of them holds a call, and each has its speed and how it grows."""
    command = [sys.executable, "-m", "benchmarks.scanner", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert [row[0] for row in rows[2:]] == [case.name for case in CASES]
    assert all(float(value) > 0 for row in rows[2:] for value in row[1:])
    assert all(bound.what in done.stdout for bound in BOUNDS)


@pytest.mark.slow
@pytest.mark.benchmarks
def test_hostile_text_is_measured_by_kind() -> None:
    """None of it holds a call, and each kind has its speed."""
    command = [sys.executable, "-m", "benchmarks.hostile", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[-4:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert len(rows) == 2 + len(HOSTILE_KINDS)
    assert all(float(value) > 0 for row in rows[2:] for value in row)
    assert all(bound.what in done.stdout for bound in HOSTILE_BOUNDS)


@pytest.mark.heavy
@pytest.mark.benchmarks
def test_the_messages_front_is_measured_beside_the_chat_front() -> None:
    """Every answer was right, with counts and without, and what a column costs beside `chat` is told."""
    command = [sys.executable, "-m", "benchmarks.messages", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][1:] == [column.name for column in COLUMNS]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in MESSAGES_ROWS]
    figures = {row[0]: row[1:] for row in rows[2:]}
    for what in ("paced", "flat out", "whole"):
        ratios = figures[f"{what}: CPU, times chat"]
        assert ratios[0] == "1.00"
        assert all(float(ratio) > 0 for ratio in ratios)


def message(texts: list[str], *, prompt: int = 0) -> list[dict[str, object]]:
    """The events of a streamed message that says these texts; the counts at its start are those of the prompt."""
    usage = {"input_tokens": script.PROMPT_TOKENS, "output_tokens": len(texts)}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}} for t in texts]
    return [
        {"type": "message_start", "message": {"id": f"msg_{7:020d}", "usage": {"input_tokens": prompt}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def read(events: list[dict[str, object]], *, counts: bool = False) -> str | None:
    """What the client of the benchmarks says of an answer that should hold three content events."""
    reading = fronts.MessagesReading(3, counts)
    for event in events:
        reading.take(b"data: " + json.dumps(event).encode())
    return reading.error()


def read_response(change: dict[str, object] | None = None, *, drop: int = -1) -> str | None:
    """What the client of the benchmarks says of a response that should hold three content events."""
    said = [script.words(number) for number in (1, 2, 3)]
    deltas: list[dict[str, object]] = [{"type": "response.output_text.delta", "delta": text} for text in said]
    usage = {"input_tokens": script.PROMPT_TOKENS, "output_tokens": 3}
    item = {"content": [{"type": "output_text", "text": "".join(said)}]}
    response = {"status": "completed", "output": [item], "usage": usage, **(change or {})}
    events: list[dict[str, object]] = [
        {"type": "response.created"},
        *deltas,
        {"type": "response.completed", "response": response},
    ]
    reading = fronts.ResponsesReading(3)
    for number, event in enumerate(events):
        if number != drop:
            reading.take(b"data: " + json.dumps({**event, "sequence_number": number}).encode())
    return reading.error()


def test_a_response_is_read_to_its_end() -> None:
    """What is missing or wrong in it is told: else a figure would say nothing."""
    assert read_response() is None
    assert read_response(drop=2) == "an event is missing, or twice"
    assert read_response({"status": "failed"}) == "a response whose status is failed"
    assert "another content" in str(read_response({"output": []}))
    assert "counts" in str(read_response({"usage": {"input_tokens": 1, "output_tokens": 3}}))


def test_a_message_that_is_right_is_measured() -> None:
    """Pings count for nothing; with counts the prompt's tokens stand at the start."""
    said = [script.words(number) for number in (1, 2, 3)]
    assert read(message(said)) is None
    assert read([{"type": "ping"}, *message(said)]) is None
    assert read(message(said, prompt=script.PROMPT_TOKENS), counts=True) is None


@pytest.mark.parametrize(
    ("numbers", "prompt", "wrong"),
    [
        ((1, 2), 0, "characters"),
        ((1, 3, 2), 0, "characters"),
        ((1, 2, 2, 3), 0, "characters"),
        ((1, 2, 3), 900, "counts at the start"),
    ],
)
def test_a_message_that_is_wrong_voids_the_measurement(numbers: tuple[int, ...], prompt: int, wrong: str) -> None:
    """A text that lacks a piece, has one twice or in another order, or counts that nobody gave."""
    assert wrong in (read(message([script.words(number) for number in numbers], prompt=prompt)) or "")


@pytest.mark.parametrize("missing", [0, 1, 5, 6, 7])
def test_a_message_without_one_of_its_events_voids_the_measurement(missing: int) -> None:
    """The start, the block's start and end, the stop reason and the end must all be there."""
    events = message([script.words(number) for number in (1, 2, 3)])
    del events[missing]
    assert "events" in (read(events) or "")


def test_the_two_fronts_are_asked_for_the_same() -> None:
    """The same prompt, tools and bench; what the upstream is told travels as the user's id."""
    bench = {"events": 3, "rate": 0}
    chat, asked = body.request(bench), body.messages_request(bench)
    assert asked["system"] == chat["messages"][0]["content"]
    assert asked["messages"] == chat["messages"][1:]
    offered = [tool["function"] for tool in chat["tools"]]
    assert [tool["input_schema"] for tool in asked["tools"]] == [tool["parameters"] for tool in offered]
    assert json.loads(asked["metadata"]["user_id"]) == chat["bench"]


def test_the_cpu_of_a_process_is_that_of_all_its_threads_those_that_have_ended_too() -> None:
    spins = "while time.thread_time() < 0.05: pass"
    words = f"import threading, time\ndef spin():\n {spins}\nthread = threading.Thread(target=spin)\n"
    words += "thread.start()\nthread.join()\nprint(time.process_time(), flush=True)\ninput()"
    command, pipe = [sys.executable, "-c", words], subprocess.PIPE
    process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe)
    assert process.stdin and process.stdout
    used = float(process.stdout.readline())
    found = cpu_seconds([process.pid])
    process.communicate("\n")
    assert 0.05 < used <= found
    assert cpu_seconds([process.pid]) == 0.0
