"""The benchmarks run: what they print is a measurement, not a test; that they can be made at all is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks import against, body, fronts, script
from benchmarks.measure import Figures
from benchmarks.messages import COLUMNS
from benchmarks.messages import ROWS as MESSAGES_ROWS
from benchmarks.scanner import BOUNDS, CASES
from benchmarks.targets import nginx_program
from benchmarks.write_call import BOUNDS as WRITE_CALL_BOUNDS
from benchmarks.write_call import ROWS
from tests.real.processes import ROOT


@pytest.mark.benchmarks
def test_one_run_measures_direct_nginx_and_proxy() -> None:
    """Every answer through every target was right, and each of the figures is there."""
    targets = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else []), "proxy"]
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--targets", ",".join(targets)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][1:] == targets
    figures = {row[0]: row[-1] for row in rows[2:]}
    names = ("time to first event, median", "CPU us per event", "events/s", "gap p99", "KiB per idle stream")
    for name in (*names, "Messages, paced: CPU, times (b)", "Messages, whole: CPU, times (d)"):
        found = [value for label, value in figures.items() if name in label]
        assert found and all(float(value) >= 0 for value in found)


@pytest.mark.benchmarks
def test_an_older_commit_is_measured_beside_this_one() -> None:
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--against", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0][-2:] == ["HEAD", "proxy"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in against.ROWS]
    assert all(float(cell) >= 0 for row in rows[2:] for cell in row[-2:] if "nginx" not in row[0])


def test_of_each_figure_the_median_of_the_rounds_counts() -> None:
    rounds: list[Figures] = [{"a": 3.0, "b": None}, {"a": 1.0, "b": None}, {"a": 9.0, "b": 2.0}]
    assert against.medians(rounds) == {"a": 3.0, "b": 2.0}
    assert against.medians([{"a": None}]) == {"a": None}


def test_an_older_tree_is_there_and_gone_again() -> None:
    with against.tree_of("HEAD") as tree:
        assert (tree / "proxy" / "app.py").exists()
    assert not tree.exists()
    listed = subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert str(tree) not in listed.stdout


@pytest.mark.benchmarks
def test_a_long_write_call_is_measured_live_and_whole() -> None:
    """Every answer held the very arguments, or the repaired ones; live they leave in pieces, whole in one."""
    command = [sys.executable, "-m", "benchmarks.write_call", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    names = ["direct", *(["nginx"] if nginx_program() or "CI" in os.environ else [])]
    assert rows[0][1:] == [*names, "live", "whole", "repaired", "text"]
    assert [row[0] for row in rows[2:]] == [what for _, what, _ in ROWS]
    figures = {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}
    events = figures["flat out: events at the client"]
    assert float(events["whole"]) < 10
    assert float(events["live"]) > 1_000
    first = figures["paced: first byte of content, median ms after it was due"]
    assert float(first["live"]) < float(first["whole"])
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
    assert "completed" in str(read_response({"status": "failed"}))
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
