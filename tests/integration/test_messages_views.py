"""The Messages dialect's other endpoints: token counts, the model list, and their errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.messages_checker import check_error
from tests.support.messages_client import COUNT, MODELS, TOOL, VERSION, ask, cards, serving
from tests.support.scripted import answer

HEADER = "X-Tool-Proxy-Count"
COUNTED = [answer({"count": 17, "max_model_len": 8192, "tokens": [1] * 17})]
# The server's response to an unknown path.
NO_PATH = [answer({"detail": "Not Found"}, 404)]
BODY = {key: value for key, value in ask("Hi", tools=[TOOL]).items() if key not in ("max_tokens", "stream")}


def test_vllm_counts_the_translated_request(inside: Inside) -> None:
    """F95."""
    with serving() as server:
        server.play(COUNTED)
        server.paths[MODELS] = cards("tiny")
        response = inside(server.url).post(COUNT, json=BODY, headers=VERSION)
        (seen,) = server.seen
    assert (response.status_code, response.json, response.headers[HEADER]) == (200, {"input_tokens": 17}, "tokenize")
    assert seen.line == "POST /tokenize HTTP/1.1" and set(seen.json) <= {
        *("model", "messages", "tools", "add_generation_prompt", "chat_template_kwargs")
    }
    assert (seen.json["model"], seen.json["messages"]) == ("tiny", [{"role": "user", "content": "Hi"}])
    assert seen.json["tools"][0]["function"]["name"] == "write_file"


def test_llama_server_counts_the_clients_own_request(inside: Inside) -> None:
    """The model server itself handles only this path of the dialect: its /tokenize takes no messages."""
    with serving([answer({"tokens": []})], [answer({"input_tokens": 23})]) as server:
        response = inside(server.url).post(COUNT, json={**BODY, "odd": 1})
        first, second = server.seen
    assert (response.json, response.headers[HEADER]) == ({"input_tokens": 23}, "count_tokens")
    assert [first.path, second.path] == ["/tokenize", COUNT]
    assert second.json == {**BODY, "odd": 1, "model": "tiny"}


def test_without_a_counter_the_number_is_an_estimate(inside: Inside) -> None:
    with serving(NO_PATH, NO_PATH) as server:
        response = inside(server.url).post(COUNT, json=BODY)
        assert [seen.path for seen in server.seen] == ["/tokenize", COUNT]
    body = response.json
    assert response.headers[HEADER] == "estimate" and body is not None
    assert [*body] == ["input_tokens"] and 20 < body["input_tokens"] < 200


@pytest.mark.parametrize("first", [[answer({}, 500)], [answer(b"<html>", 502)], [answer(b"[1]")], [answer({}, 429)]])
def test_a_failed_count_falls_back_to_the_next_method(inside: Inside, first: Any) -> None:
    with serving(first, [answer({"input_tokens": 23})]) as server:
        response = inside(server.url).post(COUNT, json=BODY)
    assert (response.json, response.headers[HEADER]) == ({"input_tokens": 23}, "count_tokens")


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_returned_as_such(inside: Inside, status: int) -> None:
    with serving([answer({"error": "Unauthorized"}, status)]) as server:
        response = inside(server.url).post(COUNT, json=BODY, headers={"x-api-key": "wrong"})
        assert server.seen[0].headers["Authorization"] == "Bearer wrong"
    assert response.status_code == status
    assert check_error(response.data, status)["error"]["message"] == "Unauthorized"


def test_counting_requires_no_max_tokens_but_validates_everything_else(inside: Inside) -> None:
    with serving() as server:
        client = inside(server.url)
        response = client.post(COUNT, json={**BODY, "messages": [{"role": "user", "content": 7}]})
        assert server.seen == []
    assert response.status_code == 400
    assert check_error(response.data, 400)["error"]["message"].startswith("messages.0.content")


@pytest.mark.parametrize("path", [COUNT, MODELS, f"{MODELS}/tiny"])
def test_an_unreachable_server_is_a_502(inside: Inside, path: str) -> None:
    client = inside("http://127.0.0.1:9")
    method = "POST" if path == COUNT else "GET"
    response = client.open(path, method=method, json=BODY if path == COUNT else None, headers=VERSION)
    assert (response.status_code, response.headers["Retry-After"]) == (502, "5")
    check_error(response.data, 502)


@pytest.mark.parametrize("prefix", ["", "/for/openclaw"])
def test_the_model_list_has_the_format_that_the_header_requests(inside: Inside, prefix: str) -> None:
    """F95."""
    with serving(models=cards("tiny", "lora", max_model_len=8192)) as server:
        client = inside(server.url)
        mine = client.get(prefix + MODELS, headers=VERSION).json
        theirs = client.get(prefix + MODELS).json
        assert server.asked == [MODELS, MODELS]
    assert mine is not None and theirs is not None
    assert [model["id"] for model in mine["data"]] == ["tiny", "lora"]
    assert (mine["has_more"], mine["first_id"], mine["last_id"]) == (False, "tiny", "lora")
    assert {model["type"] for model in mine["data"]} == {"model"}
    assert mine["data"][0]["max_input_tokens"] == 8192
    assert theirs["object"] == "list" and theirs["data"][0]["object"] == "model"


@pytest.mark.parametrize("name", ["tiny", "claude-sonnet-4-5", "claude-opus-4-1@20250805"])
def test_a_model_is_found_by_its_name_and_a_claude_name_means_the_only_model(inside: Inside, name: str) -> None:
    """F95: Claude Code checks whether its model exists."""
    with serving() as server:
        body = inside(server.url).get(f"{MODELS}/{name}", headers=VERSION).json
    assert body is not None and (body["id"], body["display_name"]) == (name, "tiny")


@pytest.mark.parametrize("prefix", ["", "/for/openclaw"])
def test_names_in_the_rules_are_listed_in_both_formats(inside: Inside, prefix: str) -> None:
    """Claude Code's gateway discovery accepts only names with `claude`, and each listed name must work."""
    rules = 'aliases: {"claude-*": Qwen/b, fast: a}\n'
    with serving(models=cards("a", "Qwen/b", max_model_len=8192)) as server:
        client = inside(server.url, rules)
        mine = client.get(prefix + MODELS, headers=VERSION).json
        theirs = client.get(prefix + MODELS).json
        one = client.get(f"{prefix}{MODELS}/claude-b", headers=VERSION).json
    assert mine is not None and theirs is not None and one is not None
    assert [(each["id"], each["display_name"]) for each in mine["data"]] == [
        *(("a", "a"), ("Qwen/b", "Qwen/b"), ("claude-b", "Qwen/b"), ("fast", "a"))
    ]
    assert [each["id"] for each in theirs["data"]] == ["a", "Qwen/b", "claude-b", "fast"]
    assert theirs["data"][2]["max_model_len"] == mine["data"][2]["max_input_tokens"] == 8192
    assert (one["id"], one["display_name"]) == ("claude-b", "Qwen/b")


def test_an_unaffected_model_list_is_unchanged(inside: Inside) -> None:
    raw = b'{ "data": [ {"id": "a"} ], "object": "list" }'
    with serving(models=[answer(raw)]) as server:
        assert inside(server.url, 'aliases: {a: b, other: gone, "*": a, "a:*": a}\n').get(MODELS).data == raw
        assert inside(server.url).get(MODELS).data == raw


@pytest.mark.parametrize("name", ["other", "../metrics", "%2e%2e/metrics", "a%20b", "/a"])
def test_an_unknown_model_is_a_404(inside: Inside, name: str) -> None:
    with serving() as server:
        response = inside(server.url).get(f"{MODELS}/{name}", headers=VERSION)
        assert server.seen == []
    assert response.status_code == 404
    check_error(response.data, 404)


def test_with_several_models_a_claude_name_matches_none(inside: Inside) -> None:
    with serving(models=cards("a", "b")) as server:
        response = inside(server.url).get(f"{MODELS}/claude-x", headers=VERSION)
    assert response.status_code == 404
    assert "a, b" in check_error(response.data, 404)["error"]["message"]


@pytest.mark.parametrize(("status", "told"), [(401, 401), (403, 403), (429, 429), (500, 500), (503, 529)])
def test_a_server_error_has_the_form_of_the_api(inside: Inside, status: int, told: int) -> None:
    with serving(models=[answer({"error": "no"}, status, {"Retry-After": "7"})]) as server:
        client = inside(server.url)
        for path in (MODELS, f"{MODELS}/tiny"):
            response = client.get(path, headers=VERSION)
            assert (response.status_code, response.headers["Retry-After"]) == (told, "7")
            check_error(response.data, told)
        assert client.get(MODELS).status_code == status


@pytest.mark.parametrize("body", [b"no JSON", b"[]", b'{"data": 7}'])
def test_an_invalid_model_list_is_empty(inside: Inside, body: bytes) -> None:
    with serving(models=[answer(body)]) as server:
        listed = inside(server.url).get(MODELS, headers=VERSION).json
    assert listed == {"data": [], "has_more": False, "first_id": None, "last_id": None}


@pytest.mark.parametrize("body", [b"", b'{"object": "list", "data": [{"id": "tiny"'], ids=["before the body", "in it"])
@pytest.mark.parametrize("path", [MODELS, f"{MODELS}/tiny"])
def test_a_truncated_model_list_is_not_used(inside: Inside, path: str, body: bytes) -> None:
    with serving(models=[b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + body]) as server:
        response = inside(server.url).get(path, headers=VERSION)
    assert response.status_code == 502
    check_error(response.data, 502)
