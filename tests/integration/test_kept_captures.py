"""`--capture`: which answers are captured, how they are counted, and when captures are removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Inside, Start
from tests.integration.test_healing import BROKEN, body_of
from tests.support.messages_client import MODELS, cards
from tests.support.scripted import WRITE_FILE, Client, Script, Upstream, answer, chat, text_reply, whole_reply

CHAT = "/v1/chat/completions"
CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "b"}}\n</tool_call>'
STRANGE = CALL.replace("write_file", "frobnicate")
PLAIN = text_reply("Hi")
ERROR = [answer({"error": {"message": "no", "type": "x", "code": 500}}, 500)]
# The result of a request, the model server's answer, and the request.
CASES: dict[str, tuple[Script, dict[str, Any]]] = {
    "": (PLAIN, chat(tools=[WRITE_FILE])),
    "repaired": (text_reply(CALL), chat(tools=[WRITE_FILE])),
    "refused": (text_reply(STRANGE), chat(tools=[WRITE_FILE])),
    "healed": (whole_reply("Hi"), body_of(BROKEN, stream=False)),
    "error": (ERROR, chat(tools=[WRITE_FILE])),
}


def captures(folder: Path) -> int:
    return len([*folder.iterdir()]) if folder.exists() else 0


def counts(client: FlaskClient) -> dict[str, float]:
    text_form = client.get("/metrics").data.decode()
    samples = [sample for family in text_string_to_metric_families(text_form) for sample in family.samples]
    return {each.labels["what"]: each.value for each in samples if each.name == "tool_proxy_captures_total"}


@pytest.mark.parametrize("case", CASES)
def test_each_answer_is_kept(case: str, inside: Inside, tmp_path: Path) -> None:
    script, body = CASES[case]
    with Upstream(script) as server:
        server.paths[MODELS] = cards("tiny")
        client = inside(server.url, capture=str(tmp_path / "new"))
        client.post(CHAT, json=body)
        assert captures(tmp_path / "new") == 1
        assert counts(client) == {"written": 1}


def test_captures_are_removed_after_30_days_and_counted(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "20200101T000000.000000Z-old.capture").write_text("")
    with Upstream(PLAIN) as server:
        client = inside(server.url, capture=str(tmp_path))
        client.post(CHAT, json=chat())
        assert captures(tmp_path) == 1 and counts(client) == {"written": 1, "removed": 1}


def test_the_folder_is_cleaned_when_gunicorn_starts(proxy: Start, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "20200101T000000.000000Z-old.capture").write_text("")
    with Upstream(PLAIN, CASES["repaired"][0]) as server:
        server.paths[MODELS] = cards("tiny")
        running = proxy(server.url, "--capture", str(folder))
        assert captures(folder) == 0
        for _ in range(2):
            with Client.post(running.port, chat(tools=[WRITE_FILE])) as client, client.answer() as response:
                assert b"[DONE]" in response.read()
        assert running.idle()
        assert captures(folder) == 2
