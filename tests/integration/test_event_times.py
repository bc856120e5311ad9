"""What a reply's histograms say once it has ended: first event, holding, repairing; in each of the ways it can go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from proxy.exchange import attempt
from proxy.upstream.event_times import EACH
from tests.conftest import Front, Inside
from tests.support.messages_client import MODELS, cards
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Action,
    Client,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    finish,
    stream,
    text,
)

CHAT = "/v1/chat/completions"
PAUSE = 0.05
CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "b"}}\n</tool_call>'
ENDS: tuple[Action, ...] = (chunked(finish()), chunked(DONE), LAST)


def sums(text_form: str) -> dict[str, tuple[int, float]]:
    """How many there are in each histogram, and their sum."""
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text_form)
        for sample in family.samples
        if sample.labels.get("dialect") == "chat" and sample.name.endswith(("_count", "_sum"))
    }
    names = {name.removesuffix("_count").removesuffix("_sum") for name in found}
    return {name.removeprefix("tool_proxy_"): (int(found[f"{name}_count"]), found[f"{name}_sum"]) for name in names}


def told(client: FlaskClient) -> dict[str, tuple[int, float]]:
    return sums(client.get("/metrics").data.decode())


def asked(inside: Inside, script: Sequence[Action], rules: str = "", **body: Any) -> dict[str, tuple[int, float]]:
    with Upstream(script) as server:
        server.paths[MODELS] = cards("tiny")
        client = inside(server.url, rules)
        assert client.post(CHAT, json=chat(**body)).status_code == 200
        return told(client)


def held(inside: Inside, *rest: Action, seen: bytes = b"So", **settings: Any) -> dict[str, tuple[int, float]]:
    """A reply whose text is held from its middle on: the rest comes only when the client has `seen` what stands before,
    which leaves once the holding has begun.
    """
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE, PAUSE, chunked(ROLE), chunked(text(f"So {CALL[:20]}")), gate, *rest, *ENDS])
        server.paths[MODELS] = cards("tiny")
        client = inside(server.url, **settings)
        response = client.post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False)
        parts, got = response.iter_encoded(), b""
        while seen not in got:
            got += next(parts)
        gate.open()
        assert b"[DONE]" in b"".join(parts)
        response.close()
        return told(client)


@pytest.mark.slow
def test_a_call_in_the_text_was_held_and_repaired(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by one more second each time that a try looks at it."""
    ticks = count()
    monkeypatch.setattr(attempt, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + next(ticks)))
    found = held(inside, chunked(text(CALL[20:])))
    assert found["held_seconds"][0] == 1 and found["held_seconds"][1] >= 1
    assert found["repair_seconds"][0] >= 1 and found["repair_seconds"][1] >= found["repair_seconds"][0]
    assert found["upstream_first_event_seconds"][0] == 1 and found["upstream_first_event_seconds"][1] >= PAUSE
    assert found["added_first_event_seconds"][0] == 1 and found["added_first_event_seconds"][1] > 0


def test_plain_text_was_neither(inside: Inside) -> None:
    found = asked(inside, stream(ROLE, text("So"), text(" it"), finish(), DONE), tools=[WRITE_FILE])
    assert not {"held_seconds", "repair_seconds"} & found.keys()
    assert found["upstream_first_event_seconds"][0] == found["added_first_event_seconds"][0] == 1


def test_what_is_held_to_the_end_of_a_reply_counts(inside: Inside) -> None:
    assert held(inside)["held_seconds"][0] == 1


def test_what_was_let_go_because_it_waited_too_long_counts(inside: Inside) -> None:
    found = held(inside, chunked(text(" x")), seen=b"tool_call", hold_timeout=0.1)
    assert found["held_seconds"][0] == 1 and found["held_seconds"][1] >= 0.1


@pytest.mark.parametrize("said", [CALL, "So"])
def test_a_whole_answer_has_no_events_but_may_be_repaired(said: str, inside: Inside) -> None:
    found = asked(inside, [answer(completion(said))], stream=False, tools=[WRITE_FILE])
    assert ("repair_seconds" in found) is (said == CALL)
    assert not {"held_seconds", "upstream_first_event_seconds", "upstream_event_gap_seconds"} & found.keys()


def test_under_the_pump_gaps_are_those_of_the_model_server(front: Front) -> None:
    """Each word is sent when the client has the one before, so that each is an arrival; of EACH + 2 two are taken."""
    before = sums(front.proxy.get("/metrics")[2].decode())
    words = [f" word {number}" for number in range(EACH + 2)]
    gates = [front.upstream.gate() for _ in words]
    sent = zip(gates, (chunked(text(word)) for word in words), strict=True)
    rest: list[Action] = [action for pair in sent for action in pair]
    front.upstream.play([SSE, chunked(ROLE) + chunked(text("So")), *rest, *ENDS])
    front.upstream.paths[MODELS] = cards("tiny")
    with Client.post(front.proxy.port, chat(tools=[WRITE_FILE])) as client, client.answer() as response:
        got = b""
        for word, gate in zip(["So", *words], gates, strict=False):
            while word.encode() not in got:
                got += response.read1(65536)
            gate.open()
        assert b"[DONE]" in got + response.read()
    assert front.proxy.idle()
    after = sums(front.proxy.get("/metrics")[2].decode())
    for name in ("upstream_event_gap_seconds", "added_event_seconds"):
        count_before, sum_before = before.get(name, (0, 0.0))
        assert after[name][0] >= count_before + 2 and after[name][1] > sum_before
