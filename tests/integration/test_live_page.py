"""The live page's paths: the data that it receives, and who may request it."""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from proxy.config.api_keys import ClientKey, Keys
from proxy.exchange.capture import read_capture
from proxy.exchange.recording import MAX_KEPT
from tests.support.live_page import LOCAL, OWN_PAGE, Page, admin, live_page
from tests.support.rows import rows
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
    text_reply,
    whole_reply,
)

CHAT = "/v1/chat/completions"
SECRET = "my-own-credential-1"
CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'
IN_TEXT = text_reply(CALL)
NO_CALL = text_reply('<tool_call>{"name": "nothing", "arguments": {}}</tool_call>')
PATHS = ["/_ui", "/_ui/state", "/_ui/requests/1"]
WRITTEN = {"name": "write_file", "arguments": '{"path": "a.txt", "content": "hi"}'}


@pytest.fixture
def server() -> Iterator[Upstream]:
    with Upstream() as one:
        yield one


def script(server: Upstream, *scripts: Any) -> None:
    """Play these scripts and list the models."""
    server.play(*scripts)
    server.paths["/health"] = [answer({})]
    server.paths["/v1/models"] = [answer({"data": [{"id": "tiny", "owned_by": "vllm"}]})]


def ask(page: Page, body: dict[str, Any] | None = None, path: str = CHAT, **headers: str) -> None:
    asked = chat(stream=True, tools=[WRITE_FILE]) if body is None else body
    page.client.post(path, json=asked, headers=headers)


def get(page: Page, path: str, **given: Any) -> Any:
    return page.client.get(path, environ_overrides=LOCAL, **given)


def test_healed_requests_are_shown_as_healed(server: Upstream) -> None:
    script(server, whole_reply("a"))
    with live_page(server.url, "models: [{match: '*', heal: {on: [one_system]}}]", audit_values=True) as page:
        system = [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}]
        ask(page, chat(messages=[*system, {"role": "user", "content": "Hi"}]))
        (one,) = page.requests()
    (repair,) = one["repairs"]
    assert (repair["fix"], repair["side"]) == ("heal_one_system", "request")
    assert '"A"' in repair["before"] and "A" in repair["after"]


def test_errors_before_and_after_the_first_byte_are_shown(server: Upstream) -> None:
    script(server, [answer({"error": {"message": "no"}}, 400)], stream(ROLE, text("a")))
    with live_page(server.url) as page:
        page.client.post(CHAT, data=b"{", content_type="application/json")
        ask(page)
        ask(page)
        statuses = [(one["status"], one["error"] != "") for one in page.requests(3)]
    assert statuses == [(400, True), (400, True), (200, True)]


def test_only_model_requests_are_shown(server: Upstream) -> None:
    script(server, whole_reply("a"))
    with live_page(server.url) as page:
        for path in ("/health", "/v1/models", "/nothing", "/_ui"):
            get(page, path)
        ask(page, chat())
        assert [one["path"] for one in page.requests()] == [CHAT]


def test_the_verdict_and_the_totals_count_each_request_once(server: Upstream) -> None:
    calls = [{"id": "a", "type": "function", "function": WRITTEN}]
    whole = completion({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls")
    script(server, IN_TEXT, NO_CALL, [answer(whole)], [answer({"error": {"message": "no"}}, 400)])
    with live_page(server.url) as page:
        for model in ("tiny", "tiny", "other", "other"):
            ask(page, chat(model=model, stream=model == "tiny", tools=[WRITE_FILE]))
        told = page.requests(4)
        state = page.state()
    assert [(one["result"], one["tools"]) for one in told] == [
        ("rescued", {"write_file": 1}),
        ("rejected", {}),
        ("clean", {"write_file": 1}),
        ("failed", {}),
    ]
    assert state["verdict"] == "4 requests, 1 rescued, 1 rejected, 1 failed"
    none = dict.fromkeys(("calls", "rescued", "rejected", "failed", "tokens_in", "tokens_out"), 0)
    assert state["models"] == [
        {"model": "other", **none, "requests": 2, "calls": 1, "failed": 1, "tokens_in": 10, "tokens_out": 7},
        {"model": "tiny", **none, "requests": 2, "calls": 1, "rescued": 1, "rejected": 1},
    ]
    assert state["totals"] == {
        **none,
        "requests": 4,
        "calls": 2,
        "rescued": 1,
        "rejected": 1,
        "failed": 1,
        "tokens_in": 10,
        "tokens_out": 7,
    }


def test_unusual_names_and_counts_keep_no_request_from_the_page_and_the_metrics(server: Upstream) -> None:
    reply = {**completion("a"), "usage": {"prompt_tokens": 3, "completion_tokens": 10**400}}
    script(server, *[[answer(reply)]] * 2)
    server.paths["/v1/models"] = [answer({"data": [{"id": "half\ud83d", "owned_by": "vllm"}]})]
    with live_page(server.url) as page:
        ask(page, chat(model="half\ud83d"))
        ask(page, chat(model="tiny"))
        state = page.state(lambda state: len(state["requests"]) == 2)
        metrics = get(page, "/metrics")
    assert [one["model"] for one in state["requests"]] == ["half\\ud83d", "tiny"]
    assert {one["model"] for one in state["models"]} == {"half\\ud83d", "tiny"}
    assert (state["totals"]["tokens_in"], state["totals"]["tokens_out"]) == (6, 0)
    assert 'model="half\\\\ud83d"' in metrics.text


def test_an_open_page_polls_for_updates_without_log_lines(server: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    script(server, *[whole_reply("a")] * 2)
    caplog.set_level(logging.INFO, "proxy")
    with live_page(server.url) as page:
        ask(page, chat())
        (first,) = page.state()["requests"]
        ask(page, chat())
        (news,) = page.state(query=f"?after={first['number']}")["requests"]
        assert news["number"] > first["number"]
        assert page.state(query=f"?after={news['number']}")["requests"] == []
        for number in ("0", "-1", "none", ""):
            assert page.state(query=f"?after={number}")["requests"] == [first, news]
    assert "_ui/state" not in caplog.text


def test_without_audit_values_no_content_is_kept(server: Upstream) -> None:
    said = "something-that-was-said"
    script(server, text_reply(CALL.replace("hi", said)))
    with live_page(server.url) as page:
        ask(page, chat(stream=True, tools=[WRITE_FILE], messages=[{"role": "user", "content": said}]))
        (one,) = page.requests()
        story = page.story(one["number"])
        kept = page.activity.ring.record(one["number"])
    assert said not in json.dumps([one, story])
    assert {key for repair in one["repairs"] for key in repair} == {"fix", "tool", "why", "side"}
    assert kept is not None and kept.parts == {}
    assert (story["steps"], story["values"]) == ([], False)


def test_kept_values_are_hidden_once_audit_values_is_off(server: Upstream) -> None:
    said = "something-that-was-said"
    script(server, text_reply(CALL.replace("hi", said)))
    with live_page(server.url, audit_values=True) as page:
        ask(page, chat(stream=True, tools=[WRITE_FILE], messages=[{"role": "user", "content": said}]))
        page.requests()
        snapshot = page.worker.snapshot
        page.worker.snapshot = dataclasses.replace(
            snapshot, settings=structs.replace(snapshot.settings, audit_values=False)
        )
        (one,) = page.requests()
        story = page.story(one["number"])
    assert said not in json.dumps([one, story])
    assert {key for repair in one["repairs"] for key in repair} == {"fix", "tool", "why", "side"}
    assert (story["steps"], story["values"]) == ([], False)


def test_the_story_contains_each_try(server: Upstream) -> None:
    needed = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    refused = answer({"error": {"message": needed, "type": "BadRequestError", "code": 400}}, 400)
    script(server, [refused], whole_reply("a"))
    with live_page(server.url, audit_values=True) as page:
        ask(page, chat(tools=[WRITE_FILE]))
        (one,) = page.requests()
        titles = [step["title"] for step in one["steps"]]
    assert one["tries"] == 2
    assert titles[1:5] == [
        *("What was sent upstream, try 1", "What the model server answered, try 1"),
        *("What was sent upstream, try 2", "What the model server answered, try 2"),
    ]


def test_the_page_keeps_the_start_of_an_answer_that_is_captured_whole(server: Upstream, tmp_path: Path) -> None:
    script(server, text_reply("a" * 2 * MAX_KEPT))
    with live_page(server.url, audit_values=True, capture=str(tmp_path)) as page:
        ask(page)
        (one,) = page.requests()
        kept = page.activity.ring.record(one["number"])
    assert kept is not None
    shown = read_capture(kept.parts["capture 1"], "kept")
    (file,) = tmp_path.iterdir()
    whole = read_capture(file.read_bytes(), "the file")
    assert (whole.complete, whole.truncated) == (True, False) and len(whole.body) > 2 * MAX_KEPT
    assert (shown.complete, shown.truncated) == (False, True) and shown.body == whole.body[:MAX_KEPT]


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses"])
def test_secrets_are_masked_in_requests_but_not_in_replies(server: Upstream, path: str) -> None:
    shaped = "sk-" + "proj-Ab3_" * 4
    reply = [ROLE, text(f"{SECRET} {shaped}"), finish(), DONE]
    script(server, stream(*reply))
    said = f"mine is {SECRET} and {shaped}"
    body = {
        CHAT: chat(stream=True, messages=[{"role": "user", "content": said}]),
        "/v1/messages": {
            **{"model": "tiny", "max_tokens": 9, "stream": True},
            "messages": [{"role": "user", "content": said}],
        },
        "/v1/responses": {"model": "tiny", "stream": True, "input": said},
    }[path]
    with live_page(server.url, audit_values=True) as page:
        ask(page, body, path, Authorization=f"Bearer {SECRET}")
        (one,) = page.requests()
        story = page.activity.ring.record(one["number"])
    assert story is not None
    steps = {name: data.decode() for name, data in story.parts.items()}
    assert {*steps} == {"asked", "up 1", "capture 1", "sent"}
    about, _, answered = steps["capture 1"].partition("\n")
    for masked in (steps["asked"], steps["up 1"]):
        assert "*" * len(SECRET) in masked and SECRET not in masked and shaped not in masked
    assert SECRET not in about and shaped not in about
    assert SECRET in steps["sent"] and shaped in steps["sent"]
    assert answered.encode() == b"".join(reply)


@pytest.mark.parametrize("path", [*PATHS, "/_ui/assets/page.js"])
def test_with_no_ui_there_is_no_page_and_no_data(server: Upstream, path: str) -> None:
    script(server, whole_reply("a"))
    with live_page(server.url, no_ui=True) as page:
        assert get(page, path).status_code == 404
        ask(page, chat())
        page.activity.close()
        assert page.activity.ring.newest() == []


@rows(__file__, "path")
def test_an_unknown_page_is_a_404(server: Upstream, path: str) -> None:
    script(server, IN_TEXT)
    with live_page(server.url, audit_values=True) as page:
        ask(page)
        assert get(page, f"/_ui/{path}").status_code == 404


def test_without_an_admins_key_this_machine_is_allowed(server: Upstream) -> None:
    with live_page(server.url) as page:
        assert [get(page, path).status_code for path in ("/_ui", "/_ui/state")] == [200, 200]
        assert get(page, "/_ui/state", headers=OWN_PAGE).status_code == 200
        assert get(page, "/_ui/state", headers={"Referer": "http://127.0.0.1:8003/_ui"}).status_code == 200


@pytest.mark.parametrize("path", PATHS)
@rows(__file__, "told")
def test_without_a_key_other_pages_and_hosts_are_refused(server: Upstream, path: str, told: dict[str, str]) -> None:
    with live_page(server.url) as page:
        refused = page.client.get(path, environ_overrides={**LOCAL, **told})
        assert refused.status_code == 403
        assert refused.get_json()["error"]["type"] == "permission_error"


def basic(key: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'anybody:{key}'.encode()).decode()}"}


@pytest.mark.parametrize("path", PATHS)
@rows(__file__, "headers")
def test_with_a_key_a_local_browser_is_asked_for_it_too(server: Upstream, path: str, headers: dict[str, str]) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        refused = get(page, path, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"] == 'Basic realm="vllm-tool-proxy", charset="UTF-8"'


@pytest.mark.parametrize("headers", [basic("se:cret"), {"Authorization": "Bearer se:cret"}, {"x-api-key": "se:cret"}])
def test_the_key_works_from_other_machines(server: Upstream, headers: dict[str, str]) -> None:
    with live_page(server.url, keys=admin("se:cret")) as page:
        far = {"REMOTE_ADDR": "10.0.0.1", "HTTP_HOST": "proxy.example"}
        for path in ("/_ui", "/_ui/state"):
            told = page.client.get(path, headers=headers, environ_overrides=far)
            assert (told.status_code, "Set-Cookie" in told.headers) == (200, False)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "told",
    [
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "null"},
        {"Referer": "http://127.0.0.1:3000/"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_another_page_cannot_use_the_saved_password(server: Upstream, path: str, told: dict[str, str]) -> None:
    """Cross-site request forgery: the browser adds the password to every request that another page triggers."""
    with live_page(server.url, keys=admin("secret")) as page:
        refused = get(page, path, headers={**basic("secret"), **told})
        assert refused.status_code == 403
        assert "WWW-Authenticate" not in refused.headers


@pytest.mark.parametrize("path", ["/metrics", "/_reload", CHAT])
def test_the_password_is_valid_only_for_the_page(server: Upstream, path: str) -> None:
    with live_page(server.url, keys=Keys((ClientKey("a", "x" * 64),), admin=admin("secret").admin)) as page:
        method = "GET" if path == "/metrics" else "POST"
        refused = page.client.open(path, method=method, headers=basic("secret"), environ_overrides=LOCAL)
        assert refused.status_code == 401


@pytest.mark.parametrize("path", ["/_ui", "/_ui/state", "/_ui/assets/page.js", "/_ui/assets/page.css"])
def test_the_page_loads_nothing_from_other_origins(server: Upstream, path: str) -> None:
    with live_page(server.url) as page:
        headers = get(page, path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
