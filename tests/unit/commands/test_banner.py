"""The startup lines of `serve`: facts for the log, never a key."""

from __future__ import annotations

import io
import json
import sys

import pytest

from proxy import __version__
from proxy.commands.banner import KeysThere, facts, keys_there, show
from proxy.config.api_keys import ClientKey, Keys
from proxy.config.rules import Rules, parse_rules
from proxy.config.settings import Settings
from tests.support.worker_state import read_rules

RULES = """\
models:
  - {match: "a*", server: vllm}
  - {match: "b*", url: "http://10.0.0.2:8000", server: llamacpp}
  - {match: "c*", url: "http://10.0.0.3:8000"}
tools: {}
clients: {}
aliases: {}
"""
ALL = Settings(
    host="::1",
    workers=3,
    capture="/c[red]",
    audit_file="/a.jsonl",
    audit_values=True,
)


def rules(text: str = RULES) -> Rules:
    return parse_rules(text.encode(), "/etc/rules.yaml", read_rules(None))


def test_the_defaults() -> None:
    found = facts(Settings(), rules("models: []\ntools: {}\nclients: {}\naliases: {}"), KeysThere())
    assert found == {
        "listens on": "http://127.0.0.1:8003",
        "paths": "/v1/chat/completions, /v1/messages, /v1/responses, and 5 that are passed through",
        "model servers": "http://127.0.0.1:8000",
        "rules": "/etc/rules.yaml (no entries)",
        "keys": "no client needs one",
        "writes": "the log alone",
        "limits": "1 worker, each with 2000 streams and 512 other requests; 32768 KiB of a request, 60 s to end",
    }


def test_everything_that_is_on() -> None:
    found = facts(ALL, rules(), KeysThere(2, upstream=True, admin=True))
    assert found["listens on"] == "http://[::1]:8003"
    servers = "http://127.0.0.1:8000 (vllm), http://10.0.0.2:8000 (llamacpp), http://10.0.0.3:8000"
    assert found["model servers"] == servers
    assert found["rules"] == "/etc/rules.yaml (3 models)"
    assert found["keys"] == "2 clients, one for the model server, the admin's"
    assert found["writes"] == (
        "captures to /c[red]; repairs with their values to /a.jsonl; "
        "what clients and models say to the live page"
    )
    assert found["limits"].startswith("3 workers, each with ")


def test_of_the_keys_only_which_there_are() -> None:
    """`facts` and `show` are given no more."""
    client = ClientKey("alice", b"digest")
    assert keys_there(Keys((client,), "sk-up", b"admin")) == KeysThere(1, upstream=True, admin=True)
    assert keys_there(Keys()) == KeysThere()
    assert facts(Settings(), rules(), KeysThere(1))["keys"] == "1 client"


def test_in_the_log_it_is_a_few_plain_lines() -> None:
    stream = io.StringIO()
    show(Settings(port=9), rules(), KeysThere(), stream)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"INFO vllm-tool-proxy {__version__} listens on: http://127.0.0.1:9; paths: /v1/chat/")
    assert lines[1] == (
        f"INFO vllm-tool-proxy {__version__} rules: /etc/rules.yaml (3 models); keys: no client needs one; "
        "no key for: models b* at http://10.0.0.2:8000, models c* at http://10.0.0.3:8000"
    )
    assert lines[2].startswith(f"INFO vllm-tool-proxy {__version__} writes: the log alone; limits: 1 worker, ")


def test_a_log_of_json_stays_one() -> None:
    stream = io.StringIO()
    show(Settings(log_format="json"), rules(), KeysThere(), stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [("info", "message")] * 3
    assert "model servers: http://127.0.0.1:8000 (vllm)" in lines[0]["message"]


def test_without_standard_error_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    show(Settings(), rules(), KeysThere())
    assert out.getvalue() == ""


def test_control_characters_of_settings_are_not_printed() -> None:
    stream = io.StringIO()
    show(Settings(capture="/a\x1b[2J\nb"), rules(), KeysThere(), stream)
    assert "/a [2J b" in stream.getvalue()
