"""A worker's state: what it has learnt of the upstream, for how long, and what /health says."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from proxy import service as module
from proxy.config import read_rules
from proxy.service import READY_CACHED, Service, make_service
from proxy.settings import Settings
from tests.real.processes import free_port
from tests.scripted import Act, Script, Upstream, answer, head


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The service's own clock, which only the test moves."""
    hands = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: hands.now))
    return hands


def service(url: str, **settings: Any) -> Service:
    return make_service(Settings(upstream=url, **settings), read_rules(None))


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
        assert service(server.url).server_kind({"Authorization": "Bearer k"}) == kind
        assert server.seen[0].line.startswith("GET /v1/models ")
        assert server.seen[0].headers["Authorization"] == "Bearer k"


def test_the_first_card_that_is_known_counts() -> None:
    with Upstream(models("me", None, "sglang", "vllm")) as server:
        assert service(server.url).server_kind({}) == "sglang"


@pytest.mark.parametrize(
    "script",
    [[answer(b"x")], [answer([])], [answer({"data": 5})], [answer({"data": [5]})], [answer({})], [Act.CLOSE]],
)
def test_a_server_that_does_not_say_is_of_no_known_kind(script: Script) -> None:
    with Upstream(script) as server:
        assert service(server.url).server_kind({}) == ""


def test_a_known_kind_is_asked_once_and_a_failure_again_soon(clock: SimpleNamespace) -> None:
    with Upstream([Act.CLOSE], models("vllm"), models("sglang")) as server:
        worker = service(server.url)
        assert [worker.server_kind({}), worker.server_kind({})] == ["", ""]
        assert len(server.seen) == 1
        clock.now += 11
        assert [worker.server_kind({}), worker.server_kind({})] == ["vllm", "vllm"]
        clock.now += 200
        assert worker.server_kind({}) == "vllm"
        assert len(server.seen) == 2


@pytest.mark.parametrize("status,ready", [(200, True), (404, True), (401, True), (503, False), (500, False)])
def test_ready_is_what_the_upstream_says_of_its_health(status: int, ready: bool) -> None:
    with Upstream([head(status, {"Content-Length": "0"})]) as server:
        assert service(server.url).ready() is ready
        assert server.seen[0].line.startswith("GET /health ")


def test_ready_is_asked_at_most_every_two_seconds_whatever_the_answer(clock: SimpleNamespace) -> None:
    with Upstream([Act.CLOSE], [answer({})], [Act.CLOSE]) as server:
        worker = service(server.url)
        assert [worker.ready(), worker.ready()] == [False, False]
        clock.now += READY_CACHED
        assert [worker.ready(), worker.ready()] == [True, True]
        assert len(server.seen) == 2
        clock.now += READY_CACHED
        assert worker.ready() is False


def test_a_server_that_is_not_there_is_not_ready() -> None:
    assert service(f"http://127.0.0.1:{free_port()}").ready() is False


def test_what_is_remembered_is_bounded() -> None:
    """C7: a client that invents models cannot fill the memory."""
    worker = service("http://127.0.0.1:1")
    for number in range(3000):
        worker.remember(f"model-{number}")
    assert worker.parses("model-0") and not worker.parses("model-2999")


def test_a_client_s_word_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    service("http://127.0.0.1:1").remember("evil\nERROR forged" + "x" * 500)
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.messages[0] and len(caplog.messages[0]) < 300


def test_requests_are_counted_by_many_threads_at_once() -> None:
    worker = service("http://127.0.0.1:1")

    def visit() -> None:
        for _ in range(2000):
            worker.enter()
            worker.leave()

    threads = [threading.Thread(target=visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker.enter()
    worker.enter()
    assert worker.health()["active_requests"] == 1


def test_health_has_the_keys_that_users_read_and_asks_nobody(clock: SimpleNamespace) -> None:
    with Upstream() as server:
        worker = service(server.url, max_tool_calls=7)
        clock.now += 5
        health = worker.health()
        assert server.seen == []
    assert health["status"] == "healthy" and health["config_loaded"] is True
    assert health["vllm_url"] == health["target_host"] == server.url
    assert (health["max_tool_calls"], health["active_requests"]) == (7, 0)
    assert health["rules_file"] == "built-in" and health["rules_sha256"] == worker.rules.sha256
    assert {"version", "uptime"} <= health.keys()
