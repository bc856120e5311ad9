"""The record of a text call is the same in the audit file, log, metrics, live page and capture (C6)."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main as cli
from tests.support import messages_client, responses_client
from tests.support.live_page import live_page
from tests.support.messages_client import cards, reply, serving
from tests.support.scripted import chat

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "required": ["command"],
}
FUNCTION = {"name": "bash", "parameters": SCHEMA}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": chat(tools=[{"type": "function", "function": FUNCTION}]),
    messages_client.MESSAGES: messages_client.ask(tools=[{"name": "bash", "input_schema": SCHEMA}]),
    responses_client.RESPONSES: responses_client.ask(tools=[{"type": "function", **FUNCTION}]),
}
WRITTEN = '<tool_call>{"name": "Bash", "arguments": {"command": "ls", "timeout": "5",}}</tool_call>'
SENT = '{"name": "bash", "arguments": {"command": "ls", "timeout": 5}}'
READ = '{"command": "ls", "timeout": "5"}'
RECORDS = [("text_call", WRITTEN, SENT), ("name", "Bash", "bash"), ("literals", WRITTEN, READ), ("literal", '"5"', "5")]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("path", ASKED)
def test_a_text_call_has_the_same_record_everywhere(
    path: str, streamed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "proxy")
    audit, captures = tmp_path / "audit.jsonl", tmp_path / "captures"
    captures.mkdir()
    settings: dict[str, Any] = {"audit_file": str(audit), "capture": str(captures), "audit_values": True}
    script = reply(streamed, f"I look.\n{WRITTEN}")
    with serving(script, models=cards("claude-x", "tiny")) as server, live_page(server.url, **settings) as page:
        response = page.client.post(path, json={**ASKED[path], "stream": streamed})
        assert response.status_code == 200 and response.data
        (shown,) = page.requests()
        metrics = page.client.get("/metrics").text
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(each["fix"], each["before"], each["after"]) for each in records] == RECORDS
    assert [(each["fix"], each["before"], each["after"]) for each in shown["repairs"]] == RECORDS
    assert all(each["tool"] == "bash" and each["why"] for each in records)
    told = [line for line in caplog.messages if line.startswith("repair ")]
    assert [line.partition("fix=")[2].split()[0] for line in told] == [fix for fix, _, _ in RECORDS]
    for fix, _, _ in RECORDS:
        assert re.search(rf'_repairs_total{{[^}}]*fix="{fix}"[^}}]*}} 1.0', metrics)
    (capture,) = captures.iterdir()
    assert cli.main(["parse", "--capture", str(capture), "--json"]) == 0
    shown_again = json.loads(capsys.readouterr().out)["repairs"]
    assert [(each["id"], each["before"], each["after"]) for each in shown_again] == RECORDS
