"""`parse --capture`: an answer before and after the proxy, and every reason."""

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
from tests.support.scripted import completion
from tests.support.worker_state import read_rules

DONE = b"data: [DONE]\n\n"
LS = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{LS}\n</tool_call>"


def written(body: bytes, **about: Any) -> bytes:
    """A capture's bytes: by default of a whole stream that was asked for with tools."""
    known = {"model": "m", "stream": True, "status": 200, "content_type": "text/event-stream", "tools": [*OFFERED]}
    return json.dumps({"capture": 1, **known, **about}).encode() + b"\n" + body


def capture(body: bytes, **about: Any) -> Captured:
    return read_capture(written(body, **about), "a file")


def told(captured: Captured, rules: Rules | None = None) -> list[str]:
    """What the command prints."""
    return [*lines(reread(captured, Settings(), rules or read_rules(None)))]


def wire(*chunks: Any) -> bytes:
    return b"".join(each.raw for each in chunks) + DONE


def test_before_and_after_of_a_call_in_the_text() -> None:
    said = told(capture(wire(says("I will.\n"), says(STRONG), ends())))
    before, after = said[said.index("before:") : said.index("after:")], said[said.index("after:") :]
    assert said[0] == "capture: model m, a stream, status 200"
    text = ["    I will.", *(f"    {line}" for line in STRONG.split("\n"))]
    assert before == ["before:", "  text:", *text, "  finish: stop"]
    assert after[:3] == ["after:", "  text:", "    I will."]
    assert any(line.startswith("  call 0: bash, id call_") for line in after)
    assert '    {"command": "ls"}' in after and "  finish: tool_calls" in after
    repair = after.index("repair text_call, tool bash: the model wrote the call as text (<tool_call>)")
    assert after[repair + 1 :][:5] == ["  before:", *text[1:], "  after:"]


def test_what_needs_no_repair_is_the_very_same() -> None:
    said = told(capture(wire(says("Hi"), ends())))
    assert said[-2:] == ["after: unchanged", "nothing repaired, nothing rejected"]


def test_a_whole_answer_and_one_for_a_client_that_wants_a_stream() -> None:
    body = json.dumps(completion(STRONG)).encode()
    for streamed in (True, False):
        said = told(capture(body, stream=streamed, content_type="application/json"))
        assert said[0] == "capture: model m, a whole answer, status 200"
        assert sum(line.startswith("  call 0: bash") for line in said) == 1
        assert [line for line in said if line.startswith("  finish")] == ["  finish: stop", "  finish: tool_calls"]


def test_an_error_status_passes() -> None:
    body = b'{"error": {"message": "no parser", "code": 400}}'
    said = told(capture(body, status=400, content_type="application/json"))
    assert said[1:4] == ["before:", "  error:", "    no parser"]
    assert "after: unchanged" in said


def test_raw_text_is_read_where_the_capture_says_so() -> None:
    """An end-of-turn token that is also a tag of HTML goes from raw text only."""
    body = wire(says("Hi</s>"), ends())
    assert "after: unchanged" in told(capture(body))
    said = told(capture(body, raw_text=True))
    assert said[said.index("after:") + 1 :][:2] == ["  text:", "    Hi"]


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bare(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("about", "error"),
    [
        ({"complete": False}, "the capture ends before the reply did"),
        ({"complete": False, "truncated": True}, "the capture ends before the reply did"),
        ({"stream": False}, "answered with a stream that was not asked for"),
        ({"content_type": "application/json"}, "is not JSON"),
        ({"content_type": "application/json", "stream": False}, "is not JSON"),
    ],
)
def test_what_cannot_be_finished_ends_in_its_error(about: dict[str, Any], error: str) -> None:
    said = told(capture(says("a").raw, **about))
    assert any(error in line for line in said[said.index("after:") :])


@pytest.mark.parametrize("whole", [True, False])
def test_a_defect_of_the_engine_is_told(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Engine, "feed", fail)
    body = json.dumps(completion("a")).encode() if whole else wire(says("a"), ends())
    said = told(capture(body, stream=not whole, content_type="application/json" if whole else "text/event-stream"))
    assert said[-2:] == ["after: unchanged", "the engine failed: RuntimeError: a defect"]


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
def test_a_reply_that_a_parser_may_have_swallowed_is_told(captured: Captured, swallowed: bool) -> None:
    assert any("may have swallowed a call" in line for line in told(captured)) is swallowed


def test_what_began_like_a_call_and_was_none_is_told_with_its_reason() -> None:
    said = told(capture(wire(says(f"<tool_call>{call_json('nope', x=1)}</tool_call>"), ends())))
    assert "nothing repaired, nothing rejected" not in said
    at = said.index("not a call (not_offered, 1): no such tool is offered")
    assert said[at + 1].startswith("  refused at line 1: '<tool_call>") and "no tool of this name" in said[at + 1]


HOSTILE = "\x1b[2J\x07\r\u202e\u200b\x9b\ud83d\x00\trepair forged"


def test_nothing_in_it_can_act_on_the_terminal_or_forge_a_line() -> None:
    body = wire(says(HOSTILE + "\nafter: unchanged\n"), calls(piece(0, HOSTILE, HOSTILE, HOSTILE)))
    error = chunk(error={"message": HOSTILE})
    captured = capture(body + error.raw, model=HOSTILE)
    said = told(captured)
    assert all(sign.isprintable() for line in said for sign in line)
    assert sum(line.startswith("after:") for line in said) == 1
    assert not any(line.strip().startswith("repair forged") for line in said)
    assert any("\\u001b[2J\\u0007\\r\\u202e" in line for line in said)


def test_the_command_reads_a_capture_under_the_given_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
