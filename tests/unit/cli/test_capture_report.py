"""`parse --capture`: a reply before and after the proxy, and the reason for every change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.cli.main import main
from proxy.cli.parse import lines, reread
from proxy.config.rules import Rules
from proxy.config.settings import Settings
from proxy.engine.engine import Engine
from proxy.exchange.capture import Captured, read_capture
from tests.support.bare import make_bare
from tests.support.helpers import OFFERED, call_json, calls, chunk, delta, ends, piece, recording, says
from tests.support.rows import rows
from tests.support.scripted import completion
from tests.support.worker_state import read_rules

DONE = b"data: [DONE]\n\n"
LS = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{LS}\n</tool_call>"


def written(body: bytes, **about: Any) -> bytes:
    """Return the bytes of a capture, by default of a complete stream for a request with tools."""
    known = {"model": "m", "stream": True, "status": 200, "content_type": "text/event-stream", "tools": [*OFFERED]}
    return json.dumps({"capture": 1, **known, **about}).encode() + b"\n" + body


def capture(body: bytes, **about: Any) -> Captured:
    return read_capture(written(body, **about), "a file")


def report_of(captured: Captured, rules: Rules | None = None) -> list[str]:
    """Return the lines that the command prints."""
    return [*lines(reread(captured, Settings(), rules or read_rules(None)))]


def wire(*chunks: Any) -> bytes:
    return b"".join(each.raw for each in chunks) + DONE


def test_report_shows_a_call_in_the_text_before_and_after() -> None:
    report = report_of(capture(wire(says("I will.\n"), says(STRONG), ends())))
    before, after = report[report.index("before:") : report.index("after:")], report[report.index("after:") :]
    assert report[0] == "capture: model m, a stream, status 200"
    text = ["    I will.", *(f"    {line}" for line in STRONG.split("\n"))]
    assert before == ["before:", "  text:", *text, "  finish: stop"]
    assert after[:3] == ["after:", "  text:", "    I will."]
    assert any(line.startswith("  call 0: bash, id call_") for line in after)
    assert '    {"command": "ls"}' in after and "  finish: tool_calls" in after
    repair = after.index("repair text_call, tool bash: the model wrote the call as text (<tool_call>)")
    assert after[repair + 1 :][:5] == ["  before:", *text[1:], "  after:"]


def test_a_reply_without_repairs_is_unchanged() -> None:
    report = report_of(capture(wire(says("Hi"), ends())))
    assert report[-2:] == ["after: unchanged", "nothing repaired, nothing rejected"]


def test_whole_answers_are_reported_also_for_streaming_clients() -> None:
    body = json.dumps(completion(STRONG)).encode()
    for streamed in (True, False):
        report = report_of(capture(body, stream=streamed, content_type="application/json"))
        assert report[0] == "capture: model m, a whole answer, status 200"
        assert sum(line.startswith("  call 0: bash") for line in report) == 1
        assert [line for line in report if line.startswith("  finish")] == ["  finish: stop", "  finish: tool_calls"]


def test_a_reply_with_an_error_status_passes() -> None:
    body = b'{"error": {"message": "no parser", "code": 400}}'
    report = report_of(capture(body, status=400, content_type="application/json"))
    assert report[1:4] == ["before:", "  error:", "    no parser"]
    assert "after: unchanged" in report


def test_raw_text_is_read_if_the_capture_was_raw_text() -> None:
    """An end-of-turn token that is also an HTML tag is removed only from raw text."""
    body = wire(says("Hi</s>"), ends())
    assert "after: unchanged" in report_of(capture(body))
    report = report_of(capture(body, raw_text=True))
    assert report[report.index("after:") + 1 :][:2] == ["  text:", "    Hi"]


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bare(tmp_path, monkeypatch)


@rows(__file__, "about,error")
def test_an_incomplete_capture_ends_in_an_error(about: dict[str, Any], error: str) -> None:
    report = report_of(capture(says("a").raw, **about))
    assert any(error in line for line in report[report.index("after:") :])


@pytest.mark.parametrize("whole", [True, False])
def test_a_failure_of_the_engine_is_reported(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Engine, "feed", fail)
    body = json.dumps(completion("a")).encode() if whole else wire(says("a"), ends())
    content_type = "application/json" if whole else "text/event-stream"
    report = report_of(capture(body, stream=not whole, content_type=content_type))
    assert report[-2:] == ["after: unchanged", "the engine failed: RuntimeError: a defect"]


SWALLOWED = json.dumps(completion("")).encode()


@pytest.mark.parametrize(
    ("captured", "swallowed"),
    [
        (capture(recording("vllm-0.32.0-hermes/coder-chat-stream-200.txt")), True),
        (capture(recording("vllm-0.32.0-hermes/coder-chat-stream-200.txt"), tools=None), False),
        (capture(SWALLOWED, stream=False, content_type="application/json"), True),
        (capture(SWALLOWED, stream=False, content_type="application/json", tools=None), False),
        (capture(b"no JSON", stream=False, content_type="application/json"), False),
        (capture(wire(says("a"), ends())), False),
    ],
)
def test_a_call_that_a_parser_may_have_swallowed_is_reported(captured: Captured, swallowed: bool) -> None:
    assert any("may have swallowed a call" in line for line in report_of(captured)) is swallowed


def test_a_refused_call_is_reported_with_its_reason() -> None:
    report = report_of(capture(wire(says(f"<tool_call>{call_json('nope', x=1)}</tool_call>"), ends())))
    assert "nothing repaired, nothing rejected" not in report
    at = report.index("not a call (not_offered, 1): no such tool is offered")
    assert report[at + 1].startswith("  refused at line 1: '<tool_call>") and "no tool of this name" in report[at + 1]


HOSTILE = "\x1b[2J\x07\r\u202e\u200b\x9b\ud83d\x00\trepair forged"


def test_no_text_can_control_the_terminal_or_forge_a_line() -> None:
    body = wire(says(HOSTILE + "\nafter: unchanged\n"), calls(piece(0, HOSTILE, HOSTILE, HOSTILE)))
    error = chunk(error={"message": HOSTILE})
    captured = capture(body + error.raw, model=HOSTILE)
    report = report_of(captured)
    assert all(sign.isprintable() for line in report for sign in line)
    assert sum(line.startswith("after:") for line in report) == 1
    assert not any(line.strip().startswith("repair forged") for line in report)
    assert any("\\u001b[2J\\u0007\\r\\u202e" in line for line in report)


def test_the_command_reads_a_capture_with_the_given_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.capture").write_bytes(written(wire(chunk(delta(reasoning="so")), says("a"), ends())))
    (tmp_path / "mine.yaml").write_text('models:\n  - {match: "*", reasoning: both}\n')
    assert main(["parse", "--capture", "a.capture"]) == 0
    assert "after: unchanged" in capsys.readouterr().out
    assert main(["parse", "--capture", str(tmp_path / "a.capture"), "--rules", "mine.yaml"]) == 0
    assert "after:\n  reasoning:\n    so\n" in capsys.readouterr().out


def test_the_report_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.capture").write_bytes(written(wire(says("I will.\n"), says(STRONG), ends())))
    assert main(["parse", "--json", "--capture", "a.capture"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(repair["id"], repair["tool"]) for repair in report["repairs"]] == [("text_call", "bash")]
    assert report["before"]["choices"]["0"]["finish"] == "stop" and report["changed"] is True
    assert report["after"]["choices"]["0"]["text"] == "I will.\n"
    assert report["refused"] == {}
