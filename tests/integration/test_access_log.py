"""The log: one line per request on standard error, which neither a client nor a model can forge."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.engine.engine import Engine
from proxy.repair.record import Repair
from proxy.web.record import MAX_LINES
from tests.conftest import Inside
from tests.support.rows import rows
from tests.support.scripted import (
    DONE,
    ROLE,
    WRITE_FILE,
    Act,
    Script,
    Upstream,
    answer,
    arguments,
    chat,
    finish,
    opened,
    stream,
    text,
    text_reply,
    whole_reply,
)

CHAT = "/v1/chat/completions"
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    caplog.set_level(logging.INFO, "proxy")
    yield caplog.messages
    assert all("\n" not in message for message in caplog.messages)


def facts(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split(" ") if "=" in word)


def test_a_stream_has_one_line_with_its_fields(inside: Inside, caplog: pytest.LogCaptureFixture, lines: object) -> None:
    with Upstream(text_reply(HERMES)) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    line, *repairs = caplog.messages
    known = facts(line)
    assert all(repair.startswith(f"repair id={known['id']} model=tiny ") for repair in repairs)
    assert (known["status"], known["model"], known["stream"], known["calls"]) == ("200", "tiny", "true", "1")
    assert known["bytes"] == str(len(data)) and "text_call:1" in known["fixes"]
    assert 0 <= float(known["ttfb_ms"]) <= float(known["ms"])
    assert "error" not in known and "client" not in known


@pytest.mark.parametrize(
    "path,status", [("/health", 200), ("/nothing", 404), ("/for/nobody/v1/models", 404), ("/for/agent", 404)]
)
def test_each_request_is_one_line(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object, path: str, status: int
) -> None:
    assert inside("http://127.0.0.1:1").get(path, headers={"X-Request-Id": "r1"}).status_code == status
    (line,) = caplog.messages
    assert (facts(line)["id"], facts(line)["status"]) == ("r1", str(status))


@pytest.mark.parametrize(
    "script,expected",
    [
        (text_reply("a"), "ok"),
        ([answer({"error": {"message": "x"}}, 429)], "refused"),
        (stream(ROLE, text("a"), ended=False), "broken"),
        ([Act.CLOSE], "broken"),
        (None, "unreachable"),
    ],
)
def test_the_line_names_the_upstream_result(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object, script: Script | None, expected: str
) -> None:
    with Upstream(*([script] if script else [])) as server:
        url = server.url if script else "http://127.0.0.1:1"
        inside(url).post(CHAT, json=chat())
    known = facts(caplog.messages[0])
    assert (known["dialect"], known["route"], known["upstream"]) == ("chat", CHAT, expected)


@rows(__file__, "path,dialect,route")
def test_the_line_names_the_route(
    inside: Inside, caplog: pytest.LogCaptureFixture, *, path: str, dialect: str, route: str | None
) -> None:
    caplog.set_level(logging.INFO, "proxy")
    with Upstream([answer({})]) as server:
        size = len(inside(server.url).get(path).data)
    known = facts(caplog.messages[0])
    assert (known["dialect"], known.get("route"), known["bytes"]) == (dialect, route, str(size))
    assert known.get("upstream") == ("ok" if dialect == "passed" else None)


def reply(said: str, reason: str) -> Script:
    return stream(ROLE, opened(0, "call_1", "write_file"), arguments(0, said), finish(reason), DONE)


@pytest.mark.parametrize(
    "script,expected",
    [
        (reply('{"path": "a", "content": "b"}', "tool_calls"), {}),
        (reply('{"path": "a"}', "tool_calls"), {"invalid": "1"}),
        (reply('{"path": "a", "cont', "length"), {"cut": "1"}),
        (text_reply(HERMES), {}),
        (text_reply(HERMES[:60], why="length"), {"refused": "broken:1", "cut": "1"}),
        (text_reply("So.", why="length"), {}),
        (text_reply(HERMES.replace("write_file", "no_file")), {"refused": "not_offered:1"}),
    ],
)
def test_the_line_says_why_a_call_is_missing(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object, script: Script, expected: dict[str, str]
) -> None:
    with Upstream(script) as server:
        inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE]))
    known = facts(caplog.messages[0])
    assert {name: known[name] for name in ("refused", "invalid", "cut") if name in known} == expected


def with_repairs(count: int = 1) -> Upstream:
    return Upstream(*[whole_reply(HERMES)] * count)


WHOLE = chat(stream=False, tools=[WRITE_FILE])


def test_a_reply_with_many_repairs_does_not_flood_the_log(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = (Repair("closers", "", "", "why"),) * (MAX_LINES + 7)
    monkeypatch.setattr(Engine, "audit", property(lambda _: many))
    with with_repairs() as server:
        inside(server.url).post(CHAT, json=WHOLE)
    assert f"fixes=closers:{MAX_LINES + 7}" in caplog.messages[0]
    assert len(caplog.messages) == MAX_LINES + 2 and caplog.messages[-1].endswith(" more=7")


@pytest.mark.parametrize("streamed", [True, False])
def test_an_audit_record_names_request_and_client(inside: Inside, tmp_path: Path, streamed: bool) -> None:
    path = tmp_path / "audit.jsonl"
    script = text_reply(HERMES, streamed=streamed)
    with Upstream(script) as server:
        client = inside(server.url, audit_file=str(path))
        client.post(f"/for/openclaw{CHAT}", json={**WHOLE, "stream": streamed}, headers={"X-Request-Id": "r1"})
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["fix"] for record in records] == ["text_call"]
    for record in records:
        assert [record[key] for key in ("id", "model", "client")] == ["r1", "tiny", "openclaw"]


def test_an_unwritable_audit_file_does_not_fail_requests(
    inside: Inside, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with with_repairs(3) as server:
        client = inside(server.url, audit_file=str(tmp_path))
        assert [client.post(CHAT, json=WHOLE).status_code for _ in range(3)] == [200] * 3
        assert b"tool_proxy_audit_lost_total 3.0" in client.get("/metrics").data
    assert caplog.text.count("cannot be written") == 1


def test_health_counts_repairs_and_rejections(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "refusals", property(lambda _: {"not offered": 2}))
    monkeypatch.setattr(Engine, "empty_calls", property(lambda _: 1))
    with with_repairs(3) as server:
        client = inside(server.url)
        for _ in range(3):
            client.post(CHAT, json=WHOLE)
        health = client.get("/_health").json
    assert health is not None
    assert (health["fixes"], health["refusals"]) == ({"text_call": 3}, {"not offered": 6})
    assert health["calls_with_empty_arguments"] == 3
