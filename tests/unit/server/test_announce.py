"""The log lines of a worker that starts or reloads: what is served and what is written, without keys."""

from __future__ import annotations

import logging

import pytest

from proxy import __version__
from proxy.config.api_keys import Keys
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.server.state import announce
from tests.support.worker_state import make_state, read_rules

RULES = 'models: [{match: "b*", url: "http://10.0.0.2:8000"}]'


@pytest.mark.parametrize(
    ("settings", "text", "servers", "written"),
    [
        (Settings(), "models: []", "http://127.0.0.1:8000", "only the log"),
        (
            Settings(capture="/c\nc", audit_file="/dev/shm", audit_values=True),
            RULES,
            "http://127.0.0.1:8000, http://10.0.0.2:8000",
            "captures to /c\nc, what clients and models say to the live page",
        ),
    ],
)
def test_three_lines_describe_what_is_served(
    settings: Settings, text: str, servers: str, written: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "proxy")
    rules = parse_rules(text.encode(), "/etc/rules.yaml", read_rules(None))
    announce(make_state(settings, rules, Keys(upstream="sk-up")))
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.INFO] == [
        f"vllm-tool-proxy {__version__}, model servers: {servers}",
        f"rules in force: /etc/rules.yaml (sha256 {rules.sha256[:12]})",
        f"writes: {written}",
    ]


def test_the_audit_file_is_named(tmp_path: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "proxy")
    announce(make_state(Settings(audit_file=f"{tmp_path}/a.jsonl"), read_rules(None)))
    assert f"writes: repairs with their values to {tmp_path}/a.jsonl" in caplog.text
