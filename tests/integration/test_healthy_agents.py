"""The first and second turns of real agents are healthy: nothing is healed in any dialect (C1)."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.scripted import Upstream, answer, text_reply
from tests.support.shared import SHARED

FOLDER = SHARED / "captures"
CAPTURES = sorted(FOLDER.glob("*.json"))
CHAT = "/v1/chat/completions"
OFF = 'models: [{match: "*", thinking: enable_thinking, heal: {off: [all]}}]'


def sent_upstream(inside: Inside, path: str, body: bytes, rules: str) -> bytes:
    """Return the request that the model server receives."""
    streamed = json.loads(body).get("stream") is True
    reply = text_reply("Hi", streamed=streamed)
    with Upstream(reply) as server:
        server.paths["/v1/models"] = [answer({"object": "list", "data": [{"id": "test-model", "owned_by": "vllm"}]})]
        headers = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
        assert inside(server.url, rules=rules).post(path, data=body, headers=headers).data
        return server.seen[0].body


@pytest.mark.skipif(not CAPTURES, reason=f"there are no captures in {FOLDER}")
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_real_agents_history_is_unchanged(capture: Any, inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "proxy")
    told = json.loads(capture.read_text())
    path = told["path"].partition("?")[0]
    body = json.dumps(told["body"], indent=1).encode()
    healed = sent_upstream(inside, path, body, "")
    fixes = {*re.findall(r"heal_\w+", caplog.text)}
    unhealed = sent_upstream(inside, path, body, OFF)
    assert fixes == set()
    assert healed == unhealed
    if path == CHAT:
        assert healed == body
