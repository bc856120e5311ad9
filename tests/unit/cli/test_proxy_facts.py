"""What a proxy says of itself and of its models, and what is said where it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.cli import proxy_facts
from proxy.cli.configuration import Values
from proxy.cli.output import CommandError, Status
from proxy.cli.proxy_facts import ProxyFacts
from proxy.upstream.client import ServerOptions
from tests.support.socketless import Made, Socketless

URL = "http://h:1"


def told(body: Any, status: int = 200) -> Made:
    return status, json.dumps(body).encode()


USUAL = {"/": told({"service": "vllm-tool-proxy"}), "/_ready": told({"status": "ready"})}
Facts = tuple[ProxyFacts, Socketless]


def facts(monkeypatch: pytest.MonkeyPatch, paths: dict[str, Made], key: str = "") -> Facts:
    """Of a proxy that answers so, and what was asked of it."""
    made = {**USUAL, **paths}
    server = Socketless(lambda path, body: made.get(path, (404, b"")), URL)
    options: list[ServerOptions] = []

    def opened(given: ServerOptions) -> Socketless:
        options.append(given)
        return server

    monkeypatch.setattr(proxy_facts, "ModelServer", opened)
    found = ProxyFacts(URL, key, "PROXY_KEY" if key else "")
    assert [each.url for each in options] == [URL]
    return found, server


def cards(*names: str, **more: Any) -> Made:
    return told({"data": [{"id": name, **more} for name in names]})


def ends(facts: ProxyFacts, model: str) -> tuple[Status, str]:
    """How a command ends that asks for the models."""
    with pytest.raises(CommandError) as caught:
        facts.served(model)
    assert "\n" not in str(caught.value)
    return caught.value.status, str(caught.value)


def test_a_name_that_is_not_listed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {
        "/v1/models": cards("m"),
        "/v1/models/claude%20x": told({"type": "model", "max_input_tokens": 9000}),
        "/v1/models/unsaid": told({"type": "model", "max_input_tokens": None}),
        "/v1/models/nothing": told({"type": "model", "max_input_tokens": 0}),
    }
    found, server = facts(monkeypatch, paths)
    assert found.served("claude x") == Values(URL, "claude x", 9000)
    assert "anthropic-version" in server.headers
    assert [found.served(name).context for name in ("unsaid", "nothing")] == [None, None]
    assert ends(found, "gone") == (Status.USAGE, "no model 'gone'; the server has: m")


def test_the_proxy_says_how_much_a_model_can_be_told_to_think(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the names suggest, and of an alias that is listed too; what is no word is none."""
    paths = {
        "/v1/models": cards("Qwen3-Coder", "gpt-oss-20b", "claude-opus-4", max_model_len=4096),
        "/v1/models/Qwen3-Coder": told({"type": "model", "display_name": "Qwen3-Coder", "efforts": ["low", 7]}),
        "/v1/models/gpt-oss-20b": told({"type": "model", "display_name": "gpt-oss-20b", "efforts": []}),
        "/v1/models/claude-opus-4": told({"type": "model", "display_name": "gpt-oss-20b", "efforts": ["high"]}),
    }
    found, server = facts(monkeypatch, paths, "secret")
    assert found.served("Qwen3-Coder") == Values(URL, "Qwen3-Coder", 4096, efforts=("low",))
    assert server.headers == {"Authorization": "Bearer secret", "anthropic-version": "2023-06-01"}
    assert found.served("gpt-oss-20b").efforts == ()
    assert found.served("claude-opus-4") == Values(URL, "claude-opus-4", 4096, efforts=("high",))


def test_an_alias_takes_pictures_if_its_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"data": [{"id": "m"}, {"id": "claude-m"}], "models": [{"model": "m", "capabilities": ["multimodal"]}]}
    behind = told({"type": "model", "display_name": "m"})
    found, _ = facts(monkeypatch, {"/v1/models": told(listed), "/v1/models/claude-m": behind, "/v1/models/big": behind})
    assert [found.served(name).images for name in ("claude-m", "big", "m")] == [True, True, True]


def test_of_several_models_the_first_ten_are_named_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = facts(monkeypatch, {"/v1/models": cards("a\nb", *map(str, range(11)))})
    status, line = ends(found, "")
    named = "a\\nb, 0, 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"
    assert (status, line) == (Status.USAGE, f"the proxy has several models; choose one with --model: {named}")
