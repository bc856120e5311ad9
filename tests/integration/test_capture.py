"""`--capture`: what is captured, for which requests and up to which size, without disturbing a request."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from proxy import __version__
from proxy.exchange import capture
from proxy.exchange.capture import read_capture
from tests.conftest import Inside, Start
from tests.support.scripted import (
    DONE,
    PATIENCE,
    ROLE,
    USAGE,
    WRITE_FILE,
    Client,
    Upstream,
    answer,
    chat,
    finish,
    stream,
    text,
    text_reply,
    whole_reply,
)

CHAT = "/v1/chat/completions"
EVENTS = [ROLE, b": a comment\n\n", text("Hé"), finish(), USAGE, DONE]
NAME = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-my-id\.capture")


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def only(folder: Path) -> tuple[dict[str, Any], bytes]:
    (file,) = files(folder)
    line, _, body = file.read_bytes().partition(b"\n")
    return json.loads(line), body


def test_a_stream_is_captured_byte_for_byte(inside: Inside, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "captures"
    with Upstream(stream(*EVENTS)) as server:
        client = inside(server.url, capture=str(folder))
        client.post(CHAT, json=chat(tools=[WRITE_FILE]), headers={"X-Request-Id": "my-id"})
    about, body = only(folder)
    assert body == b"".join(EVENTS)
    assert (about["capture"], about["version"], about["model"]) == (1, __version__, "tiny")
    assert (about["status"], about["content_type"]) == (200, "text/event-stream; charset=utf-8")
    assert (about["complete"], about["truncated"], about["stream"]) == (True, False, True)
    assert (about["tools"], about["raw_text"], about["client"]) == ([WRITE_FILE], False, "")
    (file,) = files(folder)
    assert NAME.fullmatch(file.name)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_only_engine_traffic_is_captured(inside: Inside, tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "hidden"},
        {"role": "user", "content": "hidden"},
        {"role": "assistant", "content": "hidden", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "of write_file"},
    ]
    asked: dict[str, Any] = {
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
    }
    with Upstream(whole_reply("a")) as server:
        client = inside(server.url, capture=str(tmp_path))
        client.post(CHAT, json={**chat(stream=False, tools=[WRITE_FILE], **asked), "messages": messages})
    about, _ = only(tmp_path)
    assert {name: about[name] for name in asked} == asked
    assert (about["call_ids"], about["sources"][-1]) == (["c1"], "of write_file")
    assert "hidden" not in files(tmp_path)[0].read_text()
    read = read_capture(files(tmp_path)[0].read_bytes(), "a file")
    wanted = read.chat
    assert (wanted.forced, wanted.one_call, wanted.json_reply, wanted.stream) == (True, True, True, False)
    assert (wanted.sources[-1], wanted.ids, wanted.model) == ("of write_file", frozenset({"c1"}), "tiny")
    assert wanted.tools is not None and wanted.tools.names == ("write_file",)


@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key"])
def test_secrets_are_masked_only_in_the_first_line(header: str, inside: Inside, tmp_path: Path) -> None:
    mine, other = "my-own-credential", "ghp_" + "a1B2" * 9
    result = f"write_file {mine} {other}"
    messages = [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "c", "content": result}]
    events = [ROLE, text(f"{mine} and {other}"), finish(), DONE]
    value = f"Bearer {mine}" if header == "Authorization" else mine
    with Upstream(stream(*events)) as server:
        client = inside(server.url, capture=str(tmp_path))
        response = client.post(CHAT, json={**chat(tools=[WRITE_FILE]), "messages": messages}, headers={header: value})
    assert mine in response.get_data(as_text=True) and other in response.get_data(as_text=True)
    first, _, answered = files(tmp_path)[0].read_bytes().partition(b"\n")
    assert mine.encode() not in first and other.encode() not in first
    assert answered == b"".join(events)


def test_other_paths_are_not_captured(inside: Inside, tmp_path: Path) -> None:
    with Upstream() as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        inside(server.url, capture=str(tmp_path)).get("/v1/models")
    assert files(tmp_path) == []


def test_a_long_capture_is_cut_after_an_event(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_CAPTURE", 2000)
    events = [text(f"word {number}") for number in range(50)]
    with Upstream(stream(*events, finish(), DONE)) as server:
        response = inside(server.url, capture=str(tmp_path)).post(CHAT, json=chat())
    assert response.data == b"".join(events) + finish() + DONE
    about, body = only(tmp_path)
    assert about["truncated"] and files(tmp_path)[0].stat().st_size <= 2000
    assert body and b"".join(events).startswith(body) and body.rstrip(b"\n").endswith(b"}")


@pytest.mark.parametrize("kind", ["a file", "a folder that cannot be written"])
def test_an_unwritable_capture_is_logged_once(
    kind: str, inside: Inside, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "captures"
    if kind == "a file":
        folder.write_text("")
    else:
        monkeypatch.setattr(os, "open", _refuse)
    monkeypatch.setattr(logging.getLogger("proxy"), "propagate", True)
    with Upstream(stream(*EVENTS), stream(*EVENTS)) as server:
        client = inside(server.url, capture=str(folder))
        for _ in range(2):
            assert client.post(CHAT, json=chat(stream_options={"include_usage": True})).data == b"".join(EVENTS)
    told = [record.getMessage() for record in caplog.records if "no capture can be written" in record.getMessage()]
    assert len(told) == 1 and str(folder) in told[0]
    assert b'captures_total{what="lost"} 2.0' in client.get("/metrics").data


def _refuse(*_: object) -> int:
    raise PermissionError(13, "Permission denied")


def test_an_incomplete_capture_is_removed(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full."""
    opened, flags = os.open, os.O_CREAT | os.O_RDONLY
    monkeypatch.setattr(os, "open", lambda path, *_: opened(path, flags, 0o600))
    with Upstream(stream(*EVENTS)) as server:
        assert inside(server.url, capture=str(tmp_path)).post(CHAT, json=chat()).status_code == 200
    assert files(tmp_path) == []


def _post(client: FlaskClient) -> None:
    client.application.test_client().post(CHAT, json=chat())


def test_concurrent_captures_do_not_mix(inside: Inside, tmp_path: Path) -> None:
    scripts = [text_reply(f"reply {number}") for number in range(12)]
    with Upstream(*scripts) as server:
        client = inside(server.url, capture=str(tmp_path))
        threads = [threading.Thread(target=_post, args=(client,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    bodies = {read_capture(file.read_bytes(), "a file").body for file in files(tmp_path)}
    assert bodies == {ROLE + text(f"reply {number}") + finish() + DONE for number in range(12)}


@pytest.mark.slow
def test_a_vanished_client_frees_the_model_server_and_is_captured(proxy: Start, tmp_path: Path) -> None:
    """Under gunicorn, for a closed and for a reset connection."""
    folder = tmp_path / "captures"
    with Upstream() as server:
        running = proxy(server.url, "--capture", str(folder))
        for reset in (False, True):
            gate = server.gate()
            server.play(stream(ROLE, text("word "), gate, ended=False))
            with Client.post(running.port, chat(tools=[WRITE_FILE])) as client:
                gate.wait()
                with client.answer() as response:
                    got = b""
                    while b"word" not in got:
                        got += response.read1(65536)
                    moment = client.vanish(reset=reset)
            assert server.seen[-1].gone_after(moment)
            assert running.idle()
            about, body = only(folder)
            assert (body, about["complete"]) == (ROLE + text("word "), False)
            for kept in folder.iterdir():
                kept.unlink()
        running.logged("client gone")
        assert running.log.read_text().count("client gone") == 2
