"""What a snapshot learns of its model server, and how often it asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.config.settings import Settings
from proxy.upstream.model_list import ModelCard
from proxy.worker import snapshot as module
from proxy.worker.snapshot import READY_CACHED, Snapshot, make_snapshot
from tests.real.processes import free_port
from tests.support.scripted import Act, Script, Upstream, answer, head
from tests.support.worker_state import read_rules


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The snapshot's own clock, which only the test moves."""
    hands = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: hands.now))
    return hands


def snapshot(url: str, **settings: Any) -> Snapshot:
    return make_snapshot(Settings(upstream=url, **settings), read_rules(None))


def cards_of(known: Snapshot, **headers: str) -> tuple[ModelCard, ...]:
    return known.cards(headers, known.server(known.settings.upstream))


def kind_of(known: Snapshot, **headers: str) -> str:
    return known.server_kind(headers, known.server(known.settings.upstream))


def models(*owners: object) -> Script:
    return [answer({"data": [{"id": "m", "owned_by": owner} for owner in owners]})]


@pytest.mark.parametrize(
    "owner,kind",
    [
        ("vllm", "vllm"),
        ("VLLM", "vllm"),
        ("llamacpp", "llamacpp"),
        ("llama.cpp", "llamacpp"),
        ("sglang", "sglang"),
        ("lmdeploy", "lmdeploy"),
        ("openai", ""),
        (5, ""),
        (None, ""),
    ],
)
def test_the_kind_of_server_is_what_it_says_of_itself(owner: object, kind: str) -> None:
    with Upstream(models(owner)) as server:
        assert kind_of(snapshot(server.url), Authorization="Bearer k") == kind
        assert server.seen[0].line.startswith("GET /v1/models ")
        assert server.seen[0].headers["Authorization"] == "Bearer k"


def test_the_first_card_that_is_known_counts() -> None:
    with Upstream(models("me", None, "sglang", "vllm")) as server:
        assert kind_of(snapshot(server.url)) == "sglang"


@pytest.mark.parametrize(
    "script",
    [[answer(b"x")], [answer([])], [answer({"data": 5})], [answer({"data": [5]})], [answer({})], [Act.CLOSE]],
)
def test_a_server_that_does_not_say_is_of_no_known_kind(script: Script) -> None:
    with Upstream(script) as server:
        assert kind_of(snapshot(server.url)) == ""


CARD = {
    **{"id": "Qwen/Qwen3-8B", "object": "model", "created": 1795279735, "owned_by": "vllm", "root": "/models/qwen"},
    **{"parent": None, "max_model_len": 40960, "permission": [{"id": "modelperm-1", "object": "model_permission"}]},
}


def test_cards_and_kind_are_one_answer_asked_for_once(clock: SimpleNamespace) -> None:
    with Upstream([answer({"object": "list", "data": [CARD]})]) as server:
        known = snapshot(server.url)
        card = ModelCard("Qwen/Qwen3-8B", "vllm", "/models/qwen", "", 40960, 1795279735)
        assert cards_of(known, Authorization="Bearer k") == (card,)
        assert kind_of(known) == "vllm"
        clock.now += 299
        assert cards_of(known) == (card,)
        assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer k"]


def test_cards_are_asked_for_again_after_a_while_and_stay_while_the_server_is_busy(clock: SimpleNamespace) -> None:
    with Upstream(models("vllm"), [Act.CLOSE], [answer({"data": []})], models("a", "b")) as server:
        known = snapshot(server.url)
        assert [card.owner for card in cards_of(known)] == ["vllm"]
        for _ in range(2):
            clock.now += 301
            assert [card.owner for card in cards_of(known)] == ["vllm"]
            assert kind_of(known) == "vllm"
        clock.now += 11
        assert [card.owner for card in cards_of(known)] == ["a", "b"]
        assert kind_of(known) == ""
        assert len(server.seen) == 4


@pytest.mark.parametrize("status", [401, 403])
def test_a_client_without_a_key_keeps_no_other_from_asking(clock: SimpleNamespace, status: int) -> None:
    with Upstream([answer({"error": "Unauthorized"}, status)], models("vllm")) as server:
        known = snapshot(server.url)
        assert cards_of(known) == ()
        assert kind_of(known, Authorization="Bearer k") == "vllm"
        assert len(server.seen) == 2


def test_many_at_once_ask_once() -> None:
    with Upstream() as server:
        gate = server.gate()
        server.play([gate, *models("vllm")])
        known = snapshot(server.url)
        with ThreadPoolExecutor(8) as pool:
            found = [pool.submit(kind_of, known) for _ in range(8)]
            gate.wait()
            gate.open()
            assert [each.result() for each in found] == ["vllm"] * 8
        assert len(server.seen) == 1


def test_a_known_kind_is_asked_once_and_a_failure_again_soon(clock: SimpleNamespace) -> None:
    with Upstream([Act.CLOSE], models("vllm"), models("sglang")) as server:
        known = snapshot(server.url)
        assert [kind_of(known), kind_of(known)] == ["", ""]
        assert len(server.seen) == 1
        clock.now += 11
        assert [kind_of(known), kind_of(known)] == ["vllm", "vllm"]
        clock.now += 200
        assert kind_of(known) == "vllm"
        assert len(server.seen) == 2


@pytest.mark.parametrize("status,ready", [(200, True), (404, True), (401, True), (503, False), (500, False)])
def test_ready_is_what_the_upstream_says_of_its_health(status: int, ready: bool) -> None:
    with Upstream([head(status, {"Content-Length": "0"})]) as server:
        assert snapshot(server.url).ready() is ready
        assert server.seen[0].line.startswith("GET /health ")


def test_ready_is_asked_at_most_every_two_seconds_whatever_the_answer(clock: SimpleNamespace) -> None:
    with Upstream([Act.CLOSE], [answer({})], [Act.CLOSE]) as server:
        known = snapshot(server.url)
        assert [known.ready(), known.ready()] == [False, False]
        clock.now += READY_CACHED
        assert [known.ready(), known.ready()] == [True, True]
        assert len(server.seen) == 2
        clock.now += READY_CACHED
        assert known.ready() is False


def test_a_server_that_is_not_there_is_not_ready() -> None:
    assert snapshot(f"http://127.0.0.1:{free_port()}").ready() is False
