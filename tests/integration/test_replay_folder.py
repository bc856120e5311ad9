"""`replay` on folders: what is not as it was recorded, and the exit code; a capture as a regression test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from proxy.commands.main import main
from proxy.config import load as config
from proxy.exchange.reply_record import Difference, ReplyRecord, differences
from proxy.notations.signs import ROW_NAMES
from tests.conftest import Inside, Start
from tests.integration.test_capture_on import CALL, STRANGE
from tests.support.messages_ask import ask as messages_ask
from tests.support.messages_client import MODELS, cards
from tests.support.responses_client import RESPONSES
from tests.support.responses_client import ask as responses_ask
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Client,
    Upstream,
    arguments,
    chat,
    chunked,
    finish,
    opened,
    stream,
    text,
)

CHAT = "/v1/chat/completions"
KEY = "ghp_" + "a1B2" * 9
MESSAGES = "/v1/messages"
CALLED = {"id": "call_1", "type": "function"}


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rules file of this machine counts."""
    monkeypatch.setattr(config, "SYSTEM_RULES", tmp_path / "none.yaml")
    monkeypatch.chdir(tmp_path)


def captured(inside: Inside, folder: Path, *said: Iterable[bytes], rules: str = "", **more: Any) -> list[Path]:
    """Serve these replies to one client, and give their captures."""
    with Upstream(*(stream(ROLE, *each, finish(), DONE) for each in said)) as server:
        server.paths[MODELS] = cards("tiny")
        client = inside(server.url, rules, capture=str(folder), **more)
        for _ in said:
            assert client.post(CHAT, json=chat(tools=[WRITE_FILE])).status_code == 200
    return sorted(folder.iterdir())


def changed(file: Path, **about: Any) -> None:
    """Write something else into a capture's record."""
    line, _, body = file.read_bytes().partition(b"\n")
    head = json.loads(line)
    head["made"] = {**head["made"], **about}
    file.write_bytes(json.dumps(head).encode() + b"\n" + body)


def test_a_folder_that_is_as_it_was_recorded(
    inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captured(inside, tmp_path / "c", [text("Hi")], [text(CALL)], [text(STRANGE)])
    (tmp_path / "c" / "notes.txt").write_text("no capture")
    assert main(["replay", "c"]) == 0
    told = capsys.readouterr()
    assert told.out == "3 captures: 3 as recorded, 0 changed\n"
    lines = told.err.splitlines()
    assert len(lines) == 3 and lines[0].startswith("replay: 1/3 c/2") and lines[2].startswith("replay: 3/3 c/2")


def test_what_has_changed_is_told_and_is_exit_code_1(
    inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, second = captured(inside, tmp_path / "c", [text("Hi")], [text(CALL)])
    call = {"name": "write_file", "arguments": '{"path": "z"}'}
    choice = {"index": 0, "text": "", "reasoning": "", "calls": [call], "finish": "tool_calls"}
    changed(second, choices=[choice], refusals={"quoted": 2})
    assert main(["replay", "c"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"c/{second.name}: changed",
        "changed: call 0",
        "  recorded:",
        '    write_file {"path": "z"}',
        "  now:",
        '    write_file {"path": "a", "content": "b"}',
        "changed: refused, quoted",
        "  recorded:",
        "    2",
        "  now:",
        "    nothing",
        "2 captures: 1 as recorded, 1 changed",
    ]


def test_a_change_of_the_rules_is_seen(inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The capture is a test of the rules: under others the call is none any more."""
    captured(inside, tmp_path / "c", [text(CALL)])
    rules = {"models": [{"match": "*", "formats": {"off": sorted(ROW_NAMES)}}]}
    (tmp_path / "mine.yaml").write_text(json.dumps(rules))
    assert main(["replay", "c"]) == 0
    assert main(["replay", "c", "--rules", "mine.yaml"]) == 1
    assert ": changed\n" in capsys.readouterr().out


def test_one_capture_tells_its_story_and_then_what_has_changed(
    inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = captured(inside, tmp_path / "c", [text(CALL)])
    assert main(["replay", str(file)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("capture: model tiny") and told.endswith("\nall as it was recorded\n")
    changed(file, repairs=[])
    assert main(["replay", str(file)]) == 1
    assert "changed: repair 1\n  recorded:\n    nothing\n  now:\n    text_call write_file\n" in capsys.readouterr().out


def test_of_a_capture_without_a_record_nothing_can_have_changed(
    inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As earlier releases wrote them."""
    first, second = captured(inside, tmp_path / "c", [text(CALL)], [text(CALL)])
    line, _, body = first.read_bytes().partition(b"\n")
    head = json.loads(line)
    for name in ("made", "client", "ordered", "thoughts"):
        del head[name]
    first.write_bytes(json.dumps(head).encode() + b"\n" + body)
    assert main(["replay", "c"]) == 0
    assert capsys.readouterr().out.endswith(
        "2 captures: 1 as recorded, 0 changed, 1 of which nothing was recorded\n"
    )
    assert main(["replay", str(first)]) == 0
    assert capsys.readouterr().out.endswith("nothing was recorded of what became of it\n")
    assert main(["replay", str(first), str(second)]) == 0
    assert "2 captures" in capsys.readouterr().out


def test_bad_input_among_others_is_told_and_is_exit_code_2(
    inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, second = captured(inside, tmp_path / "c", [text("Hi")], [text("Ho")])
    (tmp_path / "c" / "x.capture").write_text("none")
    changed(second, refusals={"quoted": 2})
    assert main(["replay", "c", "nowhere"]) == 2
    told = capsys.readouterr()
    assert told.out.endswith("4 captures: 1 as recorded, 1 changed, 2 no captures\n")
    errors = [line for line in told.err.splitlines() if "error:" in line]
    assert len(errors) == 2 and "c/x.capture is no capture" in errors[0] and "'nowhere' cannot be read" in errors[1]


def test_a_secret_that_was_starred_has_not_changed(
    inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record in the first line is masked, the answer in the body is not."""
    value = f'say \\"{KEY}\\"\\n'
    call = CALL.replace('"b"', f'"{value}"')
    pieces = [text(call[at : at + 7]) for at in range(0, len(call), 7)]
    parts = [opened(0, "c1", "write_file"), arguments(0, '{"path": "a", "content": "'), arguments(0, KEY[:20])]
    parts.append(arguments(0, KEY[20:] + '"}'))
    (first, *_) = captured(inside, tmp_path / "c", [text(KEY[:9]), text(KEY[9:])], pieces, parts)
    assert all(KEY.encode() not in file.read_bytes().partition(b"\n")[0] for file in first.parent.iterdir())
    assert main(["replay", "c"]) == 0
    assert capsys.readouterr().out.endswith("3 captures: 3 as recorded, 0 changed\n")


def made(folder: Path) -> list[Any]:
    """What the captures of a folder say of what became of the answers."""
    return [json.loads(file.read_bytes().partition(b"\n")[0])["made"] for file in sorted(folder.iterdir())]


@pytest.mark.parametrize("leaves", [True, False])
def test_a_reply_that_waited_too_long_or_was_left_is_not_recorded(inside: Inside, tmp_path: Path, leaves: bool) -> None:
    """A replay has no clock, and waits for the end."""
    folder = tmp_path / "c"
    with Upstream() as server:
        gate = server.gate()
        begun = [SSE, chunked(ROLE), chunked(text(CALL[:20]))]
        server.play([*begun, gate, chunked(text("x")), chunked(finish()), chunked(DONE), LAST])
        client = inside(server.url, capture=str(folder), hold_timeout=0.05)
        response = client.post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False)
        parts, got = response.iter_encoded(), b""
        while b"tool_call" not in got:
            got += next(parts)
        if not leaves:
            gate.open()
            assert b"[DONE]" in b"".join(parts)
        response.close()
    assert made(folder) == [None]


def test_of_a_reply_that_was_asked_for_again_no_try_is_recorded(inside: Inside, tmp_path: Path) -> None:
    with Upstream(stream(ROLE, finish(), DONE), stream(ROLE, text("Hi"), finish(), DONE)) as server:
        server.paths[MODELS] = cards("tiny")
        inside(server.url, capture=str(tmp_path / "c")).post(CHAT, json=chat(tools=[WRITE_FILE]))
    assert made(tmp_path / "c") == [None, None]


DIALECTS = {
    CHAT: chat(tools=[WRITE_FILE]),
    MESSAGES: messages_ask(),
    RESPONSES: responses_ask(),
}


def test_what_was_served_in_each_dialect_by_the_pump_and_its_lane_is_as_recorded(
    proxy: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each event is an arrival of its own, so that texts take the lane."""
    folder = tmp_path / "captures"
    words = [text(f" word {number},") for number in range(40)]
    with Upstream() as server:
        scripts = []
        for _ in DIALECTS:
            beginning, *rest = stream(ROLE, *words, text(" <tool_call>\n{}"), text(STRANGE), finish(), DONE)
            scripts.append([beginning, *(action for part in rest for action in (0.002, part))])
        server.play(*scripts)
        server.paths[MODELS] = cards("tiny")
        running = proxy(server.url, "--capture", str(folder))
        for path, body in DIALECTS.items():
            asked = {**body, "model": "tiny", "stream": True}
            with Client.post(running.port, asked, path) as client, client.answer() as response:
                assert response.status == 200 and b"word 39" in response.read()
        assert running.idle()
    assert main(["replay", str(folder)]) == 0
    assert capsys.readouterr().out == "3 captures: 3 as recorded, 0 changed\n"
    heads = [json.loads(file.read_bytes().partition(b"\n")[0]) for file in folder.iterdir()]
    assert sorted(head["ordered"] for head in heads) == [False, True, True]
    assert all(head["made"]["choices"][0]["text"].startswith(" word 0, word 1,") for head in heads)


def told(**choice: Any) -> dict[str, Any]:
    return {"choices": [choice], "repairs": [], "refusals": {}}


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (told(text="a"), told(text="a"), []),
        (told(text="a"), told(text="b"), [Difference("text", "a", "b")]),
        (told(text="a*c"), told(text="abc"), []),
        (told(text="abc"), told(text="a*c"), []),
        (told(text="a*c"), told(text="abd"), [Difference("text", "a*c", "abd")]),
        (told(text="a*"), told(text="abc"), [Difference("text", "a*", "abc")]),
        (told(finish="stop"), told(finish="tool_calls"), [Difference("finish", "stop", "tool_calls")]),
        (told(reasoning="x"), told(), [Difference("reasoning", "x", "")]),
        (
            told(calls=[{"name": "a", "arguments": None}]),
            told(calls=[{"name": "a", "arguments": "{}"}]),
            [Difference("call 0", "a (never whole)", "a {}")],
        ),
        ({}, ReplyRecord().as_json((), {}), []),
        ({"choices": 7, "repairs": "x", "refusals": []}, {}, []),
        (
            {"choices": [{}, {"text": "a"}]},
            {"choices": [{}, {"text": "b"}]},
            [Difference("choice 1, text", "a", "b")],
        ),
    ],
)
def test_differences(before: Any, now: Any, found: list[Difference]) -> None:
    assert [*differences(before, now)] == found


HEALED = [
    {"role": "user", "content": f"Hi {KEY}"},
    {"role": "assistant", "tool_calls": [{**CALLED, "function": {"name": "write_file", "arguments": '{"path": '}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
]


@pytest.mark.parametrize("values", [True, False])
def test_a_healing_that_is_something_else_now_is_told(
    values: bool, inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With values to the word; else as far as the rules have turned it off."""
    folder = tmp_path / "captures"
    with Upstream(stream(ROLE, text("Hi"), finish(), DONE)) as server:
        server.paths[MODELS] = cards("tiny")
        client = inside(server.url, capture=str(folder), capture_on=("healed",), audit_values=values)
        assert client.post(CHAT, json={**chat(tools=[WRITE_FILE]), "messages": HEALED}).status_code == 200
    (file,) = folder.iterdir()
    data = file.read_bytes()
    assert KEY.encode() not in data and (b"Hi *" in data) is values
    assert main(["replay", str(folder)]) == 0
    off = tmp_path / "off.yaml"
    off.write_text("models: [{match: '*', heal: {off: [all]}}]\n")
    capsys.readouterr()
    assert main(["replay", str(folder), "--rules", str(off)]) == 1
    told = capsys.readouterr().out
    assert "changed: healing heal_" in told and ("changed: request, messages 1" in told) is values
    assert "1 capture: 0 as recorded, 1 changed" in told
