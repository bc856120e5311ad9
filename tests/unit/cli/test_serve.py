"""The startup lines of `serve`: three log lines, without keys."""

from __future__ import annotations

import pytest

from proxy import __version__
from proxy.cli.serve import startup_lines
from proxy.config.api_keys import ClientKey, Keys
from proxy.config.rules import Rules, parse_rules
from proxy.config.settings import Settings
from tests.support.worker_state import read_rules

EMPTY = "models: []\ntools: {}\nclients: {}\naliases: {}"
RULES = """\
models:
  - {match: "a*", server: vllm}
  - {match: "b*", url: "http://10.0.0.2:8000", server: llamacpp}
  - {match: "c*", url: "http://10.0.0.3:8000"}
tools: {}
clients: {}
aliases: {}
"""
KEYS = Keys((ClientKey("alice", "digest"), ClientKey("bob", "other")), "sk-up", "admin")


def rules(text: str) -> Rules:
    return parse_rules(text.encode(), "/etc/rules.yaml", read_rules(None))


@pytest.mark.parametrize(
    ("settings", "text", "keys", "expected"),
    [
        (
            Settings(),
            EMPTY,
            Keys(),
            [
                "listens on: http://127.0.0.1:8003; paths: /v1/chat/completions, /v1/messages, /v1/responses; model "
                "servers: http://127.0.0.1:8000",
                "rules: /etc/rules.yaml (no entries); keys: none required",
                "writes: only the log",
            ],
        ),
        (
            Settings(host="::1", capture="/c\x1b[2J\nc", audit_file="/a.jsonl", audit_values=True),
            RULES,
            KEYS,
            [
                "listens on: http://[::1]:8003; paths: /v1/chat/completions, /v1/messages, /v1/responses; model "
                "servers: http://127.0.0.1:8000, http://10.0.0.2:8000, http://10.0.0.3:8000",
                "rules: /etc/rules.yaml (3 models); keys: 2 for clients, one for the model server, one for the admin; "
                "no key for models: b* at http://10.0.0.2:8000, c* at http://10.0.0.3:8000",
                "writes: captures to /c\\u001b[2J\\nc, repairs with their values to /a.jsonl, what clients and models "
                "say to the live page",
            ],
        ),
    ],
)
def test_three_lines_describe_what_is_served(settings: Settings, text: str, keys: Keys, expected: list[str]) -> None:
    lines = [*startup_lines(settings, rules(text), keys)]
    assert lines == [f"vllm-tool-proxy {__version__} {line}" for line in expected]
