"""Information that a snapshot requests from its model server, and how often."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.config.api_keys import Keys
from proxy.config.rules import Profile, parse_rules
from proxy.config.settings import Settings
from proxy.healing.families import family_of
from proxy.server import snapshot as module
from proxy.server.snapshot import Snapshot, make_snapshot
from proxy.upstream.model_list import ModelCard
from tests.real.processes import free_port
from tests.support.rows import rows
from tests.support.scripted import Act, Script, Upstream, answer, head
from tests.support.worker_state import read_rules


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the snapshot's clock, which only the test advances."""
    hands = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: hands.now))
    return hands


def snapshot(url: str, **settings: Any) -> Snapshot:
    return make_snapshot(Settings(upstream=url, **settings), read_rules(None), Keys(), "")


def cards_of(known: Snapshot, **headers: str) -> tuple[ModelCard, ...]:
    return known.cards(headers, known.servers[known.settings.upstream])


def kind_of(known: Snapshot, **headers: str) -> str:
    return known.server_kind(headers, known.servers[known.settings.upstream])


def models(*owners: object) -> Script:
    return [answer({"data": [{"id": "m", "owned_by": owner} for owner in owners]})]


@rows(__file__, "owner,kind")
def test_the_kind_of_server_is_derived_from_its_models(owner: object, kind: str) -> None:
    with Upstream(models(owner)) as server:
        assert kind_of(snapshot(server.url), Authorization="Bearer k") == kind
        assert server.seen[0].line.startswith("GET /v1/models ")
        assert server.seen[0].headers["Authorization"] == "Bearer k"


def test_cards_are_refreshed_after_a_while_and_kept_while_the_server_is_busy(clock: SimpleNamespace) -> None:
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


def test_another_server_that_goes_down_keeps_its_listed_models(clock: SimpleNamespace) -> None:
    with Upstream(models("vllm"), [Act.CLOSE]) as server:
        rules = parse_rules(f"models: [{{match: m, url: '{server.url}'}}]".encode(), "rules.yaml", read_rules(None))
        known = make_snapshot(Settings(upstream=f"http://127.0.0.1:{free_port()}"), rules, Keys(), "")
        assert [card.id for card in known.other_models("")] == ["m"]
        clock.now += 301
        assert [card.id for card in known.other_models("")] == ["m"]
        assert len(server.seen) == 2


def test_concurrent_requests_share_one_upstream_request() -> None:
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


def family_in(known: Snapshot, model: str = "local-model", kind: str = "", **headers: str) -> str:
    server = known.servers[known.settings.upstream]
    family = known.family(model, Profile(server_kind=kind), headers, server)
    return family.name if family is not None else ""


def listing(*cards: dict[str, Any]) -> Script:
    return [answer({"object": "list", "data": [*cards]})]


LLAMA = {"id": "local-model", "owned_by": "llamacpp"}
VLLM = {"id": "local-model", "owned_by": "vllm"}
FOUND = {
    "root": ([{**VLLM, "root": "/models/Qwen3-8B"}], {}, "qwen3"),
    "another name of the only model": ([{**VLLM, "id": "other", "root": "/models/Qwen3-8B"}], {}, "qwen3"),
    "one of several": ([{**VLLM, "root": "openai/gpt-oss-20b"}, {"id": "b", "root": "Qwen3-8B"}], {}, "gpt-oss"),
    "the base of an adapter": (
        [{"id": "base", "root": "/m/GLM-4.6"}, {**VLLM, "root": "/adapters/mine", "parent": "base"}],
        {},
        "glm-4.5",
    ),
    "a root that says nothing": ([{**VLLM, "root": "/data/model"}], {}, ""),
    "no root": ([VLLM], {}, ""),
    "the path in /props": ([LLAMA], {"model_path": "/models/Qwen3-8B-Q4_K_M.gguf", "chat_template": "x"}, "qwen3"),
    "the template in /props": (
        [LLAMA],
        {"model_path": "/m/model.gguf", "chat_template": "{{ '<mm:think>' }}"},
        "minimax-m3",
    ),
    "/props of several models": ([LLAMA, {**LLAMA, "id": "b"}], {"model_path": "/models/Qwen3-8B"}, ""),
    "no /props": ([LLAMA], {}, ""),
    "SGLang": ([{**VLLM, "owned_by": "sglang", "root": "local-model"}], {"model_path": "Qwen/Qwen3-8B"}, "qwen3"),
}


@pytest.mark.parametrize("case", FOUND)
def test_the_family_of_an_alias_comes_from_the_server(case: str) -> None:
    cards, about, family = FOUND[case]
    with Upstream() as server:
        script = [answer(about)] if about else [answer({"detail": "Not Found"}, 404)]
        server.paths |= {"/v1/models": listing(*cards), "/props": script, "/get_model_info": script}
        assert family_in(snapshot(server.url)) == family
        assert server.asked.count("/v1/models") == 1


def test_a_known_family_needs_no_request() -> None:
    with Upstream() as server:
        known = snapshot(server.url)
        assert family_in(known, "Qwen/Qwen3-8B") == "qwen3"
        assert known.family("m", Profile(family="gpt-oss"), {}, known.servers[server.url]) == family_of("gpt-oss")
        assert server.seen == [] and server.asked == []


def test_a_family_stays_known_while_the_server_is_unreachable(clock: SimpleNamespace) -> None:
    with Upstream() as server:
        server.paths |= {"/v1/models": listing(LLAMA), "/props": [answer({"model_path": "/m/Qwen3-8B"})]}
        known = snapshot(server.url)
        assert family_in(known) == "qwen3"
        server.paths |= {"/v1/models": [Act.CLOSE], "/props": [Act.CLOSE]}
        for _ in range(3):
            clock.now += 301
            assert family_in(known) == "qwen3"


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_is_not_tried_with_each_request(clock: SimpleNamespace, status: int) -> None:
    with Upstream() as server:
        server.paths["/v1/models"] = [answer({"error": "Unauthorized"}, status)]
        known = snapshot(server.url)
        for _ in range(5):
            assert family_in(known, Authorization="Bearer a") == ""
        assert len(server.asked) == 1


def test_requests_do_not_wait_for_a_refresh(clock: SimpleNamespace) -> None:
    with Upstream() as server:
        server.paths["/v1/models"] = listing({**VLLM, "root": "Qwen3-8B"})
        known = snapshot(server.url)
        assert family_in(known) == "qwen3"
        gate = server.gate()
        server.paths["/v1/models"] = [gate, *listing({**VLLM, "root": "gpt-oss-20b"})]
        clock.now += 301
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(family_in, known)
            gate.wait()
            assert [family_in(known) for _ in range(3)] == ["qwen3"] * 3
            gate.open()
            assert first.result() in ("gpt-oss", "qwen3")


@pytest.mark.parametrize("status,ready", [(200, True), (404, True), (401, True), (503, False), (500, False)])
def test_ready_reports_the_health_of_the_upstream(status: int, ready: bool) -> None:
    with Upstream([head(status, {"Content-Length": "0"})]) as server:
        assert snapshot(server.url).is_ready(server.url) is ready
        assert server.seen[0].line.startswith("GET /health ")
