"""The live page's paths: what it is told, and who is told it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from proxy.activity.activity import Activity
from proxy.cli.parse import lines, reread
from proxy.config.load import RulesText
from proxy.config.settings import Settings
from proxy.exchange.capture import read_capture
from proxy.worker.state import Published
from tests.support.live_page import LOCAL, OWN_PAGE, Page, admin, live_page
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    finish,
    stream,
    text,
)
from tests.support.worker_state import read_rules

CHAT = "/v1/chat/completions"
SECRET = "my-own-credential-1"
CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'
IN_TEXT = stream(ROLE, text(CALL), finish(), DONE)
NO_CALL = stream(ROLE, text('<tool_call>{"name": "nothing", "arguments": {}}</tool_call>'), finish(), DONE)
PATHS = ["/_ui", "/_ui/state", "/_ui/events", "/_ui/requests/1", "/_ui/requests/1/capture"]


@pytest.fixture
def server() -> Iterator[Upstream]:
    with Upstream() as one:
        yield one


def script(server: Upstream, *scripts: Any) -> None:
    """Play these; the question for its models, which some dialects have, is none of them."""
    server.play(*scripts)
    server.paths["/health"] = [answer({})]
    server.paths["/v1/models"] = [answer({"data": [{"id": "tiny", "owned_by": "vllm"}]})]


def ask(page: Page, body: dict[str, Any] | None = None, path: str = CHAT, **headers: str) -> None:
    """One request of a client, to its end."""
    asked = chat(stream=True, tools=[WRITE_FILE]) if body is None else body
    page.client.post(path, json=asked, headers=headers)


def get(page: Page, path: str, **given: Any) -> Any:
    return page.client.get(path, environ_overrides=LOCAL, **given)


# What it is told.


def test_a_request_is_told_with_its_repairs(server: Upstream) -> None:
    script(server, IN_TEXT)
    with live_page(server.url) as page:
        ask(page, path=f"/for/openclaw{CHAT}")
        (one,) = page.requests()
    assert (one["number"], one["client"], one["model"], one["status"]) == (1, "openclaw", "tiny", 200)
    assert (one["calls"], one["tries"], one["dialect"], one["error"]) == (1, 1, "chat", "")
    assert [(repair["fix"], repair["tool"], repair["side"]) for repair in one["repairs"]] == [
        ("text_call", "write_file", "reply"),
    ]
    assert one["repairs"][0]["why"] == "the model wrote the call as text (<tool_call>)"


def test_why_a_text_was_no_call_is_told_by_its_reason(server: Upstream) -> None:
    script(server, NO_CALL)
    with live_page(server.url) as page:
        ask(page)
        (one,) = page.requests()
        state = page.state()
    assert one["refusals"] == {"not_offered": 1}
    assert state["status"]["reasons"]["not_offered"] == "no such tool is offered"


def test_what_was_healed_in_the_request_is_told_as_that(server: Upstream) -> None:
    script(server, [answer(completion("a"))])
    with live_page(server.url, "models: [{match: '*', heal: {on: [one_system]}}]", audit_values=True) as page:
        system = [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}]
        ask(page, chat(messages=[*system, {"role": "user", "content": "Hi"}]))
        (one,) = page.requests()
    (repair,) = one["repairs"]
    assert (repair["fix"], repair["side"]) == ("heal_one_system", "request")
    assert '"A"' in repair["before"] and "A" in repair["after"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/responses", {"model": "tiny", "input": "Hi"}),
    ],
)
def test_the_other_dialects_are_told_as_well(server: Upstream, path: str, body: dict[str, Any]) -> None:
    script(server, [answer(completion("a"))])
    with live_page(server.url, audit_values=True) as page:
        ask(page, body, path)
        (one,) = page.requests()
        steps = page.story(1)["steps"]
    assert (one["path"], one["status"]) == (path, 200)
    assert [step["title"] for step in steps] == [
        *("What the client sent", "What went up, try 1", "What the model server answered, try 1"),
        "What the client got",
    ]
    assert json.loads(steps[0]["text"]) == body


def test_errors_are_told_before_and_behind_the_first_byte(server: Upstream) -> None:
    script(server, [answer({"error": {"message": "no"}}, 400)], [SSE, *map(chunked, (ROLE, text("a"))), LAST])
    with live_page(server.url) as page:
        page.client.post(CHAT, data=b"{", content_type="application/json")
        ask(page)
        ask(page)
        statuses = [(one["status"], one["error"] != "") for one in page.requests(3)]
    assert statuses == [(400, True), (400, True), (200, True)]


def test_what_is_no_request_for_a_model_is_not_told(server: Upstream) -> None:
    script(server, [answer(completion("a"))])
    with live_page(server.url) as page:
        for path in ("/health", "/v1/models", "/nothing", "/_ui"):
            get(page, path)
        ask(page, chat())
        assert [one["path"] for one in page.requests()] == [CHAT]


def test_what_is_counted_is_told_by_the_minute(server: Upstream) -> None:
    script(server, IN_TEXT, NO_CALL)
    with live_page(server.url) as page:
        ask(page)
        ask(page)
        page.requests(2)
        counts = page.state()["counts"]
    sums = {group: {name: sum(numbers) for name, numbers in names.items()} for group, names in counts.items()}
    assert sums == {
        "repairs": {"text_call": 1},
        "refusals": {"not_offered": 1},
        "requests": {"answered": 2},
    }
    assert {len(numbers) for names in counts.values() for numbers in names.values()} == {60}


@pytest.mark.slow
def test_a_request_that_is_under_way_is_told_until_it_has_ended(server: Upstream) -> None:
    gate = server.gate()
    script(server, [SSE, *map(chunked, (ROLE, text("a"), text("b"))), gate, chunked(finish()), chunked(DONE), LAST])
    with live_page(server.url) as page:
        watching = get(page, "/_ui/events", buffered=False)
        reply = page.client.post(CHAT, json=chat(stream=True), buffered=False)
        parts = reply.iter_encoded()
        assert b'"content": "a"' in next(parts)
        (row,) = page.state(lambda state: state["live"] != [])["live"]
        assert (row["model"], row["phase"], row["client"]) == ("tiny", "answering", "")
        assert row["events"] >= 1
        gate.open()
        for _ in parts:
            pass
        reply.close()
        assert page.state(lambda state: state["live"] == [])["requests"][0]["status"] == 200
        watching.close()


def test_a_page_that_waits_is_told_what_is_new_and_goes_on_where_it_was(server: Upstream) -> None:
    script(server, *[[answer(completion("a"))]] * 3)
    with live_page(server.url) as page:
        ask(page, chat())
        page.requests(1)
        watching = get(page, "/_ui/events", buffered=False)
        events = watching.iter_encoded()
        place, first = read_event(next(events))
        assert [one["number"] for one in first["requests"]] == [1] and "status" in first
        ask(page, chat())
        news = [read_event(next(events))[1]]
        while "requests" not in news[-1]:
            news.append(read_event(next(events))[1])
        assert [one["number"] for one in news[-1]["requests"]] == [2]
        watching.close()
        ask(page, chat())
        page.requests(3)
        again = get(page, "/_ui/events", headers={"Last-Event-ID": place}, buffered=False)
        _, rest = read_event(next(again.iter_encoded()))
        assert [one["number"] for one in rest["requests"]] == [2, 3]
        again.close()
        elsewhere = get(page, "/_ui/events", headers={"Last-Event-ID": "other-2"}, buffered=False)
        _, whole = read_event(next(elsewhere.iter_encoded()))
        assert [one["number"] for one in whole["requests"]] == [1, 2, 3]
        elsewhere.close()


def read_event(data: bytes) -> tuple[str, dict[str, Any]]:
    """The id and the body of an event."""
    first, second = data.decode().strip().split("\n")
    body: dict[str, Any] = json.loads(second.removeprefix("data: "))
    return first.removeprefix("id: "), body


def test_so_many_pages_are_open_at_once(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.ui.views.MAX_PAGES", 2)
    with live_page(server.url) as page:
        open_ones = [get(page, "/_ui/events", buffered=False) for _ in range(2)]
        assert get(page, "/_ui/events").status_code == 503
        open_ones.pop().close()
        open_ones.append(get(page, "/_ui/events", buffered=False))
        assert [one.status_code for one in open_ones] == [200, 200]
        for one in open_ones:
            one.close()


def test_rules_servers_and_settings_are_told(server: Upstream, tmp_path: Path) -> None:
    server.paths["/health"] = [answer({})]
    with live_page(server.url, "models:\n  - match: tiny\n    parse: proxy\n") as page:
        page.worker.published = Published(text=RulesText(b"models:\n  - match: tiny\n    parse: proxy\n", "rules.yaml"))
        status = page.state()["status"]
    assert status["servers"] == [{"url": server.url, "ready": True}]
    assert (status["values"], status["lost"]) == (False, 0)
    (model,) = [entry for entry in status["rules"]["entries"] if entry["section"] == "models"]
    assert model == {"section": "models", "text": "models tiny: {parse: proxy}", "place": "rules.yaml:2"}


def test_a_server_that_does_not_answer_is_told() -> None:
    with live_page("http://127.0.0.1:1") as page:
        assert page.state()["status"]["servers"] == [{"url": "http://127.0.0.1:1", "ready": False}]


# What was said.


def test_without_audit_values_nothing_that_was_said_is_kept(server: Upstream) -> None:
    said = "something-that-was-said"
    script(server, stream(ROLE, text(CALL.replace("hi", said)), finish(), DONE))
    with live_page(server.url) as page:
        ask(page, chat(stream=True, tools=[WRITE_FILE], messages=[{"role": "user", "content": said}]))
        (one,) = page.requests()
        story = page.story(1)
        kept = page.activity.ring.story(1)
        saved = get(page, "/_ui/requests/1/capture")
    assert said not in json.dumps([one, story])
    assert {key for repair in one["repairs"] for key in repair} == {"fix", "tool", "why", "side"}
    assert kept is not None and kept.parts == {}
    assert (story["steps"], story["values"], saved.status_code) == ([], False, 404)
    assert b"audit_values" in saved.data


def test_what_was_kept_is_not_shown_once_audit_values_is_off(server: Upstream) -> None:
    said = "something-that-was-said"
    script(server, stream(ROLE, text(CALL.replace("hi", said)), finish(), DONE))
    with live_page(server.url, audit_values=True) as page:
        ask(page, chat(stream=True, tools=[WRITE_FILE], messages=[{"role": "user", "content": said}]))
        page.requests()
        snapshot = page.worker.snapshot
        page.worker.snapshot = dataclasses.replace(
            snapshot, settings=structs.replace(snapshot.settings, audit_values=False)
        )
        (one,) = page.requests()
        story = page.story(1)
        answer_status = get(page, "/_ui/requests/1/capture").status_code
    assert said not in json.dumps([one, story])
    assert {key for repair in one["repairs"] for key in repair} == {"fix", "tool", "why", "side"}
    assert (story["steps"], story["reading"], story["values"], answer_status) == ([], [], False, 404)


def test_with_audit_values_a_request_has_its_whole_story(server: Upstream) -> None:
    script(server, IN_TEXT)
    with live_page(server.url, audit_values=True) as page:
        asked = chat(stream=True, tools=[WRITE_FILE])
        ask(page, asked)
        page.requests()
        story = page.story(1)
    said = {step["title"]: step["text"] for step in story["steps"]}
    assert list(said) == [
        *("What the client sent", "What went up, try 1", "What the model server answered, try 1"),
        "What the client got",
    ]
    assert json.loads(said["What the client sent"]) == json.loads(said["What went up, try 1"]) == asked
    assert said["What the model server answered, try 1"].encode() == b"".join((ROLE, text(CALL), finish(), DONE))
    assert '"tool_calls"' in said["What the client got"] and "<tool_call>" not in said["What the client got"]
    assert story["reading"][0].startswith("call 1: write_file (strong evidence")
    (repair,) = story["repairs"]
    assert (repair["fix"], repair["before"]) == ("text_call", CALL)


def test_the_story_says_where_and_why_a_text_was_no_call(server: Upstream) -> None:
    script(server, NO_CALL)
    with live_page(server.url, audit_values=True) as page:
        ask(page)
        page.requests()
        reading = page.story(1)["reading"]
    assert reading[0] == "no call"
    assert reading[1].startswith("refused at line 1: ") and reading[1].endswith(": no tool of this name is offered")


def test_each_try_is_in_the_story(server: Upstream) -> None:
    needed = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    refused = answer({"error": {"message": needed, "type": "BadRequestError", "code": 400}}, 400)
    script(server, [refused], [answer(completion("a"))])
    with live_page(server.url, audit_values=True) as page:
        ask(page, chat(tools=[WRITE_FILE]))
        (one,) = page.requests()
        titles = [step["title"] for step in page.story(1)["steps"]]
    assert one["tries"] == 2
    assert titles[1:5] == [
        *("What went up, try 1", "What the model server answered, try 1"),
        *("What went up, try 2", "What the model server answered, try 2"),
    ]


def test_a_request_can_be_saved_as_a_capture_that_parse_reads(server: Upstream) -> None:
    script(server, IN_TEXT)
    with live_page(server.url, audit_values=True) as page:
        ask(page)
        (one,) = page.requests()
        saved = get(page, "/_ui/requests/1/capture")
    name = saved.headers["Content-Disposition"]
    assert name.startswith('attachment; filename="2') and name.endswith(f'Z-{one["id"]}.capture"')
    captured = read_capture(saved.data, "saved")
    assert captured.body == b"".join((ROLE, text(CALL), finish(), DONE)) and captured.complete
    told = [*lines(reread(captured, Settings(), read_rules(None)))]
    assert any("repair text_call" in line for line in told)


@pytest.mark.parametrize(("values", "least"), [(False, 0), (True, 2 * 100_000)])
def test_what_waits_to_be_written_counts_with_all_that_is_kept(
    server: Upstream, monkeypatch: pytest.MonkeyPatch, values: bool, least: int
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(Activity, "keep", lambda _, make, size: sizes.append(size))
    script(server, stream(ROLE, text("a" * 100_000), finish(), DONE))
    body = chat(stream=True)
    with live_page(server.url, audit_values=values) as page:
        ask(page, body)
    (size,) = sizes
    asked = len(json.dumps(body))
    assert least <= size - asked <= least + least // 10


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses"])
def test_secrets_are_masked_in_requests_and_kept_in_replies(server: Upstream, path: str) -> None:
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
        page.requests()
        story = page.activity.ring.story(1)
    assert story is not None
    steps = {name: data.decode() for name, data in story.parts.items()}
    assert {*steps} == {"asked", "up 1", "capture 1", "sent"}
    about, _, answered = steps["capture 1"].partition("\n")
    for masked in (steps["asked"], steps["up 1"]):
        assert "*" * len(SECRET) in masked and SECRET not in masked and shaped not in masked
    assert SECRET not in about and shaped not in about
    assert SECRET in steps["sent"] and shaped in steps["sent"]
    assert answered.encode() == b"".join(reply)


# Where it is off.


@pytest.mark.parametrize("path", [*PATHS, "/_ui/assets/page.js"])
def test_with_no_ui_there_is_nothing_and_nothing_is_kept(server: Upstream, path: str) -> None:
    script(server, [answer(completion("a"))])
    with live_page(server.url, no_ui=True) as page:
        assert get(page, path).status_code == 404
        ask(page, chat())
        page.activity.close()
        assert page.activity.ring.newest() == []


@pytest.mark.parametrize(
    "path",
    [
        *(f"assets/{name}" for name in ("page.html", "sign_in.html", "none.js", "..", "%2e%2e%2fviews.py")),
        "assets/page.js%00",
        *(f"requests/{name}{end}" for name in ("2", "0", "x", "-1", "1" * 16, "\u0661") for end in ("", "/capture")),
    ],
)
def test_what_is_not_there_is_told(server: Upstream, path: str) -> None:
    script(server, IN_TEXT)
    with live_page(server.url, audit_values=True) as page:
        ask(page)
        assert get(page, f"/_ui/{path}").status_code == 404


# Who is told.


def test_without_an_admins_key_this_machine_may(server: Upstream) -> None:
    with live_page(server.url) as page:
        assert [get(page, path).status_code for path in ("/_ui", "/_ui/state")] == [200, 200]
        assert get(page, "/_ui/state", headers=OWN_PAGE).status_code == 200
        assert get(page, "/_ui/state", headers={"Referer": "http://127.0.0.1:8003/_ui"}).status_code == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "told",
    [
        {"REMOTE_ADDR": "10.0.0.1"},
        {"HTTP_HOST": "evil.example:8003"},
        {"HTTP_HOST": "evil.example:8003", "HTTP_ORIGIN": "http://evil.example:8003"},
        {"HTTP_ORIGIN": "http://127.0.0.1:3000"},
        {"HTTP_ORIGIN": "http://localhost:8003"},
        {"HTTP_ORIGIN": "null"},
        {"HTTP_ORIGIN": "app://anything"},
        {"HTTP_REFERER": "http://127.0.0.1:3000/x"},
        {"HTTP_SEC_FETCH_SITE": "same-site"},
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_X_FORWARDED_FOR": "10.0.0.1"},
    ],
)
def test_without_one_no_other_page_and_nobody_else_may(server: Upstream, path: str, told: dict[str, str]) -> None:
    with live_page(server.url) as page:
        refused = page.client.get(path, environ_overrides={**LOCAL, **told})
        assert refused.status_code == 403
        assert refused.get_json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "tool_proxy_page=wrong"}])
def test_with_a_key_who_has_it_not_may_not_even_here(server: Upstream, path: str, headers: dict[str, str]) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        refused = get(page, path, headers=headers)
        assert refused.status_code == 401
        assert (b"<form" in refused.data) is (path == "/_ui")


def test_who_has_the_key_may_from_elsewhere_and_needs_no_cookie(server: Upstream) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        far = {"REMOTE_ADDR": "10.0.0.1", "HTTP_HOST": "proxy.example"}
        told = page.client.get("/_ui/state", headers={"Authorization": "Bearer secret"}, environ_overrides=far)
        assert told.status_code == 200


def sign_in(page: Page, key: str = "secret", **environ: str) -> Any:
    given = {**LOCAL, "HTTP_ORIGIN": "http://127.0.0.1:8003", **environ}
    given = {name: value for name, value in given.items() if value}
    return page.client.post("/_ui/sign-in", data={"key": key}, environ_overrides=given)


def test_who_signs_in_gets_a_cookie_that_no_script_and_no_other_page_has(server: Upstream) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        signed_in = sign_in(page)
        assert (signed_in.status_code, signed_in.headers["Location"]) == (303, "/_ui")
        value, *attributes = signed_in.headers["Set-Cookie"].split("; ")
        assert attributes == ["Max-Age=43200", "Path=/_ui", "HttpOnly", "SameSite=Strict"]
        assert "secret" not in value and len(value) > 40
        assert [get(page, path).status_code for path in ("/_ui", "/_ui/state")] == [200, 200]


def test_over_tls_the_cookie_is_for_tls_alone(server: Upstream) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        own = {"HTTP_HOST": "proxy.example", "HTTP_ORIGIN": "https://proxy.example"}
        signed_in = sign_in(page, **own, **{"wsgi.url_scheme": "https"})
        assert signed_in.headers["Set-Cookie"].endswith("; Secure")


@pytest.mark.parametrize("key", ["", "wrong", "secret2", "x" * 100_000])
def test_another_key_gives_none(server: Upstream, key: str) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        refused = sign_in(page, key)
        assert (refused.status_code, "Set-Cookie" in refused.headers) == (401, False)
        assert b"This is not the admin's key." in refused.data
        assert get(page, "/_ui/state").status_code == 401


@pytest.mark.parametrize(
    "told",
    [
        {"HTTP_ORIGIN": ""},
        {"HTTP_ORIGIN": "null"},
        {"HTTP_ORIGIN": "http://127.0.0.1:3000"},
        {"HTTP_ORIGIN": "http://evil.example"},
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_SEC_FETCH_SITE": "same-site"},
    ],
)
def test_no_other_page_signs_anybody_in(server: Upstream, told: dict[str, str]) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        refused = sign_in(page, **told)
        assert (refused.status_code, "Set-Cookie" in refused.headers) == (403, False)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "https://evil.example"},
        {**OWN_PAGE, "Sec-Fetch-Site": "cross-site"},
        {"Referer": "http://127.0.0.1:3000/"},
    ],
)
def test_no_other_page_signs_anybody_out_by_their_cookie(server: Upstream, told: dict[str, str]) -> None:
    """Cross-site request forgery: the browser sends the cookie with whatever another page makes it send."""
    with live_page(server.url, keys=admin("secret")) as page:
        sign_in(page)
        forged = page.client.post("/_ui/sign-out", headers=told, environ_overrides=LOCAL)
        assert forged.status_code == 403
        assert get(page, "/_ui/state").status_code == 200


def test_no_other_page_reads_by_a_cookie(server: Upstream) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        sign_in(page)
        for told in ({"Origin": "http://127.0.0.1:3000"}, {"Sec-Fetch-Site": "same-site"}):
            refused = get(page, "/_ui/state", headers=told)
            assert (refused.status_code, "Access-Control-Allow-Origin" in refused.headers) == (
                403,
                told.keys() == {"Origin"},
            )


def test_who_signs_out_is_out_wherever_the_cookie_is(server: Upstream) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        cookie = sign_in(page).headers["Set-Cookie"].split(";")[0]
        out = page.client.post("/_ui/sign-out", headers=OWN_PAGE, environ_overrides=LOCAL)
        assert (out.status_code, "Max-Age=0" in out.headers["Set-Cookie"]) == (303, True)
        assert get(page, "/_ui/state", headers={"Cookie": cookie}).status_code == 401


def leaves(page: Page) -> None:
    page.client.post("/_ui/sign-out", headers=OWN_PAGE, environ_overrides=LOCAL)


def has_another_key(page: Page) -> None:
    page.worker.snapshot = dataclasses.replace(page.worker.snapshot, keys=admin("another"))


def is_turned_off(page: Page) -> None:
    snapshot = page.worker.snapshot
    page.worker.snapshot = dataclasses.replace(snapshot, settings=structs.replace(snapshot.settings, no_ui=True))


@pytest.mark.slow
@pytest.mark.parametrize("changed", [leaves, has_another_key, is_turned_off])
def test_an_open_page_is_told_no_more_once_it_may_not_look(server: Upstream, changed: Callable[[Page], None]) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        sign_in(page)
        watching = get(page, "/_ui/events", buffered=False)
        events = watching.iter_encoded()
        assert [bool(next(events)), bool(next(events))] == [True, True]
        changed(page)
        assert [*events] == []
        watching.close()


def test_a_cookie_holds_for_the_key_with_which_it_was_given(server: Upstream) -> None:
    with live_page(server.url, keys=admin("secret")) as page:
        sign_in(page)
        page.worker.snapshot.keys = admin("another")
        assert get(page, "/_ui/state").status_code == 401


def test_who_tries_many_keys_has_to_wait_and_who_knows_the_key_does_not(
    server: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.ui.views.SIGN_INS", 3)
    with live_page(server.url, keys=admin("secret")) as page:
        assert [sign_in(page).status_code for _ in range(4)] == [303] * 4
        *_, last = tries = [sign_in(page, "wrong") for _ in range(4)]
        assert [each.status_code for each in tries] == [401, 401, 401, 429]
        assert last.content_type.startswith("text/html") and int(last.headers["Retry-After"]) > 0
        assert b"Too many wrong keys were tried" in last.data and b"<form" in last.data
        assert sign_in(page).status_code == 303
        metrics = get(page, "/metrics", headers={"Authorization": "Bearer secret"}).text
        assert 'tool_proxy_denied_total{reason="rate"} 1.0' in metrics


@pytest.mark.parametrize("path", ["/_ui", "/_ui/state", "/_ui/assets/page.js", "/_ui/assets/page.css"])
def test_what_a_browser_gets_may_load_nothing_from_elsewhere(server: Upstream, path: str) -> None:
    with live_page(server.url) as page:
        headers = get(page, path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


def test_the_files_of_the_page_name_nothing_elsewhere() -> None:
    folder = Path(__file__).parents[2] / "proxy" / "ui" / "assets"
    for file in folder.iterdir():
        said = file.read_text().replace("http://www.w3.org/2000/svg", "")
        for word in (
            "http:",
            "https:",
            "//cdn",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "style=",
        ):
            assert word not in said, (file.name, word)
