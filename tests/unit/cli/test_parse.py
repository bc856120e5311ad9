"""`parse`: the calls found in a text, and why the rest is not a call."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from proxy.cli.main import main
from proxy.library import explained, read_text
from proxy.repair.policy import Policy
from tests.support.helpers import OFFERED, call_json, offered
from tests.support.rows import rows

LS = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{LS}\n</tool_call>"
ANTHROPIC = [{"name": "bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}]
RESPONSES = [{"type": "function", "name": "bash", "parameters": ANTHROPIC[0]["input_schema"]}]


def lines(text: str, *, stopped: bool = True) -> list[str]:
    return list(explained(read_text(text, offered(), Policy(), stopped=stopped)))


def test_calls_are_printed_with_evidence_format_and_position() -> None:
    said = lines(f"I will.\n{STRONG}\nand\n<tool_call>[{LS}]</tool_call>")
    assert said[:2] == ["call 1: bash (strong evidence, <tool_call>, line 2)", '  {"command": "ls"}']
    assert said[2].startswith("call 2: bash (strong")
    assert said[-2:] == ["content:", "I will.\n\nand\n"]


def test_weak_evidence_is_reported() -> None:
    assert lines(LS)[0] == "call 1: bash (weak evidence, json, line 1)"
    assert lines(LS)[-1] == "no content"
    assert "cut off" in lines(LS, stopped=False)[1]


def test_a_repaired_name_is_shown_with_the_original() -> None:
    written = f"<tool_call>{call_json('functions.bash', command='ls')}</tool_call>"
    assert "written 'functions.bash'" in lines(written)[0]


@rows(__file__, "text,why")
def test_a_refused_call_is_printed_with_its_reason(text: str, why: str) -> None:
    said = lines(text)
    assert said[0] == "no call"
    assert any(line.startswith("refused at line ") and why in line for line in said), said
    assert said[-1] == text


@pytest.mark.parametrize("tools", [[*OFFERED], ANTHROPIC, RESPONSES, {"model": "m", "tools": [*OFFERED]}])
def test_the_command_accepts_tools_of_every_dialect(
    tools: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    (tmp_path / "reply.txt").write_text(STRONG)
    assert main(["parse", str(tmp_path / "reply.txt"), "--tools", str(tmp_path / "tools.json")]) == 0
    assert capsys.readouterr().out.startswith("call 1: bash (strong")


def test_the_repaired_call_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = [{"name": "read", "input_schema": {"type": "object", "properties": {"limit": {"type": "integer"}}}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    (tmp_path / "reply.txt").write_text('So. <tool_call>{"name": "Read", "arguments": {"limit": "10"}}</tool_call>'[4:])
    words = ["parse", str(tmp_path / "reply.txt"), "--tools", str(tmp_path / "tools.json")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert '\n  {"limit": "10"}\n  repair ' in said and '\n  the client gets read {"limit": 10}\n' in said
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (call,) = report["calls"]
    assert (call["name"], call["written"], call["arguments"]) == ("read", "Read", {"limit": 10})
    assert call["repairs"] and all(each["id"] and each["why"] for each in call["repairs"])
    assert (call["evidence"], call["place"], report["refused"], report["content"]) == ("strong", "line 1", [], "")


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_call_of_any_depth_is_shown(
    as_json: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(OFFERED))
    deep = "[" * 600 + "]" * 600
    (tmp_path / "reply.txt").write_text(
        f'<tool_call>\n{{"name": "bash", "arguments": {{"command": {deep}}}}}\n</tool_call>'
    )
    assert main(["parse", str(tmp_path / "reply.txt"), "--tools", str(tmp_path / "tools.json"), *as_json]) in (0, 1)
    assert "[[" in "".join(capsys.readouterr().out.split())


def test_without_a_call_the_status_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(OFFERED))
    (tmp_path / "reply.txt").write_text(f"a `{STRONG}` b")
    words = ["parse", str(tmp_path / "reply.txt"), "--tools", str(tmp_path / "tools.json"), "--json"]
    assert main(words) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["calls"] == [] and "in code" in report["refused"][0] and report["content"] == f"a `{STRONG}` b"


def test_standard_input_may_hold_a_truncated_reply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(OFFERED))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LS.encode())))
    assert main(["parse", "-", "--tools", str(tmp_path / "tools.json"), "--finish", "length"]) == 1
    assert capsys.readouterr().out.startswith("no call\nrefused at line 1")


@rows(__file__, "words,said")
def test_bad_input_is_one_error_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.json").write_text(json.dumps(OFFERED))
    (tmp_path / "reply.txt").write_text("no JSON")
    (tmp_path / "latin.txt").write_bytes(b"a\xe9b")
    (tmp_path / "empty.json").write_text("[]")
    (tmp_path / "number.json").write_text("3")
    assert main(["parse", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("vllm-tool-proxy: error: ")
    assert said in error
    assert error.count("\n") == 1
