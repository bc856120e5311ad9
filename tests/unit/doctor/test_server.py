"""Whether there is a model server, of which kind, and which model is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.doctor.ask import Asker
from proxy.doctor.examination import Examination
from proxy.doctor.server import PROBES, NoServerError, examine_server
from proxy.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from tests.support.doctor_answers import error, found
from tests.support.socketless import Made, Socketless


def told(body: Any) -> Made:
    return 200, json.dumps(body).encode()


def cards(*entries: dict[str, Any]) -> Made:
    return told({"data": entries})


def examined(paths: dict[str, Made], model: str = "") -> tuple[Examination, list[str]]:
    """Of a server that answers so; and what it was asked."""
    server = Socketless(lambda path, body: paths.get(path, (404, b"")))
    at = examine_server(Asker(server, "", 60.0), model)
    return at, [path for _, path, _ in server.asked]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            UpstreamUnreachable("the model server at http://h:1 cannot be reached"),
            "nothing listens at http://h:1; start the model server, or say where it is with --upstream",
        ),
        (UpstreamTimeout("late"), "http://h:1 does not answer: there was no answer within 10 s"),
        (UpstreamBroken("what came is not HTTP"), "http://h:1 is no model server: what came is not HTTP"),
        ((401, b""), "http://h:1 wants a key (401); name the variable that holds it with --key-env"),
        ((403, b""), "http://h:1 wants a key (403); name the variable that holds it with --key-env"),
        (error("Loading", 503), "http://h:1 is not ready (503): Loading; wait until its model is loaded"),
        ((404, b""), "http://h:1 is no model server: it answers /v1/models with 404"),
        (cards(), "http://h:1 is no model server: what it answers to /v1/models is no list of models"),
    ],
    ids=["nobody", "silence", "noise", "a key", "another key", "it loads", "no path", "no models"],
)
def test_what_is_no_model_server_is_told_in_one_line(answer: Made, words: str) -> None:
    with pytest.raises(NoServerError) as caught:
        examined({"/v1/models": answer})
    assert str(caught.value) == words


def test_this_proxy_is_no_model_server() -> None:
    """It lists its server's models, and what it repairs would never be found."""
    with pytest.raises(NoServerError) as caught:
        examined({"/v1/models": cards({"id": "m", "owned_by": "vllm"}), "/": told({"service": "vllm-tool-proxy"})})
    words = "http://h:1 is a vllm-tool-proxy, and no model server; name the one behind it with --upstream"
    assert str(caught.value) == words


ADAPTER: dict[str, Any] = {"id": "lora", "parent": "m", "max_model_len": 10}
MODEL: dict[str, Any] = {"id": "m", "max_model_len": 4096, "owned_by": "vllm"}


@pytest.mark.parametrize(
    ("listed", "named", "model", "context"),
    [
        ((MODEL, {"id": "n"}), "", "m", 4096),
        ((ADAPTER, MODEL), "", "m", 4096),
        ((ADAPTER,), "", "lora", 10),
        ((ADAPTER, MODEL), "lora", "lora", 10),
        ((MODEL,), "other", "other", None),
    ],
    ids=["the first", "no adapter", "nothing else", "the named one", "one that is not listed"],
)
def test_the_model_is_the_named_one_else_the_first_that_is_no_adapter(
    listed: tuple[dict[str, Any], ...], named: str, model: str, context: int | None
) -> None:
    at, _ = examined({"/v1/models": cards(*listed)}, named)
    assert (at.model, at.context, [card.id for card in at.cards]) == (model, context, [each["id"] for each in listed])


VERSION, PROPS, INFO = "/version", "/props", "/get_server_info"


@pytest.mark.parametrize(
    ("card", "paths", "kind", "version", "asked"),
    [
        (MODEL, {VERSION: told({"version": "1"})}, "vllm", "1", [VERSION]),
        ({**MODEL, "owned_by": "sglang"}, {INFO: told({"version": "2"})}, "sglang", "2", [INFO]),
        ({**MODEL, "owned_by": "llamacpp"}, {PROPS: told({"build_info": "b3"})}, "llamacpp", "b3", [PROPS]),
        ({**MODEL, "owned_by": "lmdeploy"}, {VERSION: told({"version": "1"})}, "lmdeploy", "", []),
        (MODEL, {VERSION: (500, b'{"version": "1"}')}, "vllm", "", [VERSION]),
        ({**MODEL, "owned_by": "me"}, {VERSION: told({"version": "1"})}, "vllm", "1", [VERSION]),
        # Ollama and others have a version, too.
        ({"id": "m"}, {VERSION: told({"version": "1"})}, "", "", [VERSION, PROPS, INFO]),
        ({"id": "m"}, {PROPS: told({"build_info": "b3"})}, "llamacpp", "b3", [VERSION, PROPS]),
        ({"id": "m"}, {INFO: told({"version": "2"})}, "", "", [VERSION, PROPS, INFO]),
        (
            {"id": "m"},
            {INFO: told({"version": "2", "tool_call_parser": None})},
            "sglang",
            "2",
            [VERSION, PROPS, INFO],
        ),
    ],
    ids=[
        *("vLLM", "SGLang", "llama.cpp", "LMDeploy", "an error", "told by the context", "a version alone"),
        *("told by its props", "no parser", "told by its parser"),
    ],
)
def test_the_kind_is_what_the_list_says_else_what_the_version_tells(
    card: dict[str, Any], paths: dict[str, Made], kind: str, version: str, asked: list[str]
) -> None:
    at, seen = examined({"/v1/models": cards(card), **paths})
    assert (at.kind, at.version, seen) == (kind, version, ["/v1/models", "/", *asked])
    assert [*at.answers] == (asked[-1:] if version else [])


@pytest.mark.parametrize(
    ("card", "paths", "id_", "words"),
    [
        (MODEL, {VERSION: told({"version": "1"})}, "kind", "the server is vLLM 1"),
        (MODEL, {}, "kind", "the server is vLLM of an unknown version"),
        (
            {**MODEL, "owned_by": "me"},
            {VERSION: told({"version": "1"})},
            "kind_unsaid",
            "the server is vLLM 1, but its list of models does not say so",
        ),
        ({"id": "m"}, {}, "kind_unknown", "what kind of server it is could not be told"),
    ],
    ids=["said", "no version", "not said", "unknown"],
)
def test_what_is_known_of_the_kind_is_told(card: dict[str, Any], paths: dict[str, Made], id_: str, words: str) -> None:
    at, _ = examined({"/v1/models": cards(card), **paths})
    (finding,) = found(PROBES, "kind", at)
    assert (finding.id, finding.what) == (id_, words)
    assert finding.rule == (("server", "vllm") if id_ == "kind_unsaid" else None)


@pytest.mark.parametrize(
    ("listed", "model", "words"),
    [
        ([MODEL], "", "the model m has a context of 4096 tokens (served: m)"),
        ([{"id": "m"}, {"id": "n"}], "", "the context of the model m is not said (served: m, n)"),
        ([MODEL], "x", "the model x is not among those that the server lists: m"),
        (
            [{"id": str(number)} for number in range(12)],
            "x",
            "the model x is not among those that the server lists: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more",
        ),
    ],
    ids=["a context", "none", "not listed", "many"],
)
def test_what_is_known_of_the_model_is_told(listed: list[dict[str, Any]], model: str, words: str) -> None:
    at, _ = examined({"/v1/models": cards(*listed)}, model)
    (finding,) = found(PROBES, "models", at)
    assert finding.what == words
