"""The metrics of several workers, merged by prometheus-client's multiprocess mode, and those of one request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Inside, Start
from tests.support.messages_client import MODELS, cards
from tests.support.scripted import (
    DONE,
    ROLE,
    WRITE_FILE,
    Upstream,
    answer,
    chat,
    completion,
    finish,
    stream,
    text,
    whole_reply,
)

CHAT = "/v1/chat/completions"
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "hi"}}\n</tool_call>'


def series(inside: Inside, script: Any, **body: Any) -> dict[str, float]:
    """Return the metrics of a proxy that has served one request, except those of other paths."""
    with Upstream(script) as server:
        server.paths[MODELS] = cards("tiny")
        client = inside(server.url)
        assert client.post(CHAT, json=chat(**body)).status_code == 200
        lines = client.get("/metrics").text.splitlines()
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}
    return {name.removeprefix("tool_proxy_"): value for name, value in found.items()}


def test_a_stream_has_one_observation_of_its_first_event(inside: Inside) -> None:
    script = stream(0.05, ROLE, text("So"), text(" it"), finish(), DONE)
    found = series(inside, script, tools=[WRITE_FILE])
    assert found['upstream_first_event_seconds_count{dialect="chat"}'] == 1
    assert found['upstream_first_event_seconds_sum{dialect="chat"}'] >= 0.05
    assert found['added_first_event_seconds_count{dialect="chat"}'] == 1


def test_a_whole_answer_has_no_first_event(inside: Inside) -> None:
    found = series(inside, whole_reply("So"), stream=False, tools=[WRITE_FILE])
    assert 'request_duration_seconds_count{dialect="chat"}' in found
    assert not [name for name in found if "first_event" in name and "count{" in name]


@pytest.mark.parametrize("streamed", [True, False])
def test_calls_are_labeled_by_notation_and_tokens_by_kind(inside: Inside, streamed: bool) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    last = f"data: {json.dumps({'id': 'a', 'object': 'chat.completion.chunk', 'choices': [], 'usage': usage})}\n\n"
    script = stream(ROLE, text(HERMES), finish(), last.encode(), DONE)
    whole = [answer({**completion(HERMES), "usage": usage})]
    found = series(inside, script if streamed else whole, stream=streamed, tools=[WRITE_FILE])
    assert found['calls_total{how="text",model="tiny",notation="<tool_call>"}'] == 1
    kinds = {kind: found[f'tokens_total{{kind="{kind}",model="tiny"}}'] for kind in ("prompt", "completion", "cached")}
    assert kinds == {"prompt": 9, "completion": 5, "cached": 4}


@pytest.mark.once
def test_a_half_created_metrics_file_is_awaited(proxy: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    started = proxy("http://127.0.0.1:1")
    empty = tmp_path / "metrics" / "counter_9.db"
    empty.touch()
    with_it = started.get("/health")[0], started.get("/metrics")[0]
    empty.unlink()
    assert (with_it, started.get("/metrics")[0]) == ((200, 200), 200)
