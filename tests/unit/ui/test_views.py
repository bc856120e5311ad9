"""The views of the live page: who gets what, and that nothing of what was said is ever part of a page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from proxy.activity.record import Record
from proxy.codec.json_text import JsonObject
from proxy.ui.views import SIGN_INS
from proxy.web.access import COOKIE
from tests.support.live_page import LOCAL, OWN_PAGE, Page, admin, live_page
from tests.unit.ui.test_story import capture

URL = "http://127.0.0.1:9"
SCRIPT = "<script>alert(1)</script>"
# Nobody has signed in with it.
STRANGE = "x" * 43


@pytest.fixture(name="page")
def _page() -> Iterator[Page]:
    """The page of a proxy without an admin's key, which shows values."""
    with live_page(URL, audit_values=True) as made:
        yield made


@pytest.fixture(name="locked")
def _locked() -> Iterator[Page]:
    """The page of a proxy with an admin's key."""
    with live_page(URL, keys=admin("secret")) as made:
        # Each request shows the cookie that the test says, and no other one.
        yield replace(made, client=made.client.application.test_client(use_cookies=False))


def keep(page: Page, **parts: bytes) -> None:
    """A request that has ended."""
    told: JsonObject = {"id": "r1", "at": 86400.5, "error": SCRIPT, "model": SCRIPT, "values": True}
    summary: JsonObject = {**told, "repairs": [{"fix": "x", "before": "a"}]}
    named = {name.replace("_", " "): data for name, data in parts.items()}
    page.activity.ring.add([Record(summary, named, {})], time.time())


def get(page: Page, path: str, **headers: str) -> tuple[int, bytes]:
    response = page.client.get(path, environ_overrides=LOCAL, headers=headers)
    assert ("default-src 'none'" in response.headers.get("Content-Security-Policy", "")) is (response.status_code < 400)
    return response.status_code, response.data


def cookie(page: Page, key: str = "secret") -> str:
    """What a browser shows once it has signed in."""
    response = page.client.post("/_ui/sign-in", data={"key": key}, headers=OWN_PAGE, environ_overrides=LOCAL)
    assert (response.status_code, response.headers["Location"]) == (303, "/_ui")
    set_ = response.headers["Set-Cookie"]
    assert "HttpOnly" in set_ and "SameSite=Strict" in set_
    return set_.partition(";")[0]


def status(page: Page, path: str, given: str = "") -> int:
    return page.client.get(path, environ_overrides=LOCAL, headers={"Cookie": given} if given else {}).status_code


def test_the_page_and_its_files_are_the_same_for_all(page: Page) -> None:
    keep(page)
    code, data = get(page, "/_ui")
    assert code == 200 and SCRIPT.encode() not in data
    for name, kind in (("page.js", "text/javascript"), ("page.css", "text/css")):
        response = page.client.get(f"/_ui/assets/{name}", environ_overrides=LOCAL)
        assert (response.status_code, response.content_type) == (200, f"{kind}; charset=utf-8")
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["page.html", "sign_in.html", "none.js", "..", "%2e%2e%2fviews.py", "page.js%00"])
def test_no_other_file_is_one_of_the_page(page: Page, name: str) -> None:
    assert get(page, f"/_ui/assets/{name}")[0] == 404


def test_the_state_is_all_that_the_page_shows(page: Page) -> None:
    keep(page)
    (shown,) = page.requests()
    assert (shown["id"], shown["error"]) == ("r1", SCRIPT)


def test_the_story_of_a_request_is_told_as_json(page: Page) -> None:
    keep(page, asked=SCRIPT.encode())
    number = page.requests()[0]["number"]
    story = page.story(number)
    assert (story["id"], story["number"]) == ("r1", number)
    assert story["steps"] == [{"title": "What the client sent", "text": SCRIPT}]
    response = page.client.get(f"/_ui/requests/{number}", environ_overrides=LOCAL)
    assert response.content_type == "application/json"


@pytest.mark.parametrize("behind", ["", "/capture"])
@pytest.mark.parametrize("name", ["2", "0", "x", "-1", "1" * 16, "\u0661"])
def test_a_request_that_is_not_there_is_told_so(page: Page, name: str, behind: str) -> None:
    keep(page)
    assert get(page, f"/_ui/requests/{name}{behind}")[0] == 404


def test_what_was_kept_of_an_answer_is_a_file(page: Page) -> None:
    kept = capture()
    keep(page, capture_1=kept)
    path = f"/_ui/requests/{page.requests()[0]['number']}"
    response = page.client.get(f"{path}/capture", environ_overrides=LOCAL)
    assert (response.status_code, response.data) == (200, kept)
    assert response.headers["Content-Disposition"] == 'attachment; filename="19700102T000000.000000Z-r1.capture"'


def test_where_nothing_was_kept_of_an_answer_that_is_told(page: Page) -> None:
    keep(page, asked=b"a")
    code, data = get(page, f"/_ui/requests/{page.requests()[0]['number']}/capture")
    assert (code, b"audit_values" in data) == (404, True)


def test_values_are_shown_only_as_long_as_the_setting_says_so() -> None:
    with live_page(URL) as page:
        keep(page, asked=b"a", capture_1=capture())
        number = page.requests()[0]["number"]
        story = page.story(number)
        assert (story["steps"], story["reading"]) == ([], [])
        assert "before" not in str(story["repairs"])
        assert get(page, f"/_ui/requests/{number}/capture")[0] == 404


@pytest.mark.parametrize("path", ["/_ui", "/_ui/state", "/_ui/events", "/_ui/assets/page.js", "/_ui/requests/1"])
def test_a_page_that_is_off_is_not_there(path: str) -> None:
    with live_page(URL, no_ui=True) as page:
        code, data = get(page, path)
        assert (code, b"no_ui" in data) == (404, True)


def test_who_has_signed_in_sees_it_until_he_signs_out(locked: Page) -> None:
    assert status(locked, "/_ui/state") == 401
    given = cookie(locked)
    assert status(locked, "/_ui/state", given) == 200
    assert status(locked, "/_ui/state", f"{COOKIE}={STRANGE}") == 401
    out = locked.client.post("/_ui/sign-out", headers={**OWN_PAGE, "Cookie": given}, environ_overrides=LOCAL)
    assert (out.status_code, out.headers["Location"]) == (303, "/_ui")
    assert status(locked, "/_ui/state", given) == 401


def test_who_has_not_signed_in_gets_the_form(locked: Page) -> None:
    response = locked.client.get("/_ui", environ_overrides=LOCAL, headers={"Accept": "text/html"})
    assert (response.status_code, b"<form" in response.data) == (401, True)
    assert b"not the admin's key" not in response.data
    wrong = locked.client.post("/_ui/sign-in", data={"key": "no"}, headers=OWN_PAGE, environ_overrides=LOCAL)
    assert (wrong.status_code, b"not the admin's key" in wrong.data) == (401, True)


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://elsewhere.example"}, {**OWN_PAGE, "Sec-Fetch-Site": "cross-site"}]
)
def test_the_form_of_another_page_signs_nobody_in(locked: Page, headers: dict[str, str]) -> None:
    response = locked.client.post("/_ui/sign-in", data={"key": "secret"}, headers=headers, environ_overrides=LOCAL)
    assert response.status_code == 403
    assert "Set-Cookie" not in response.headers


def test_too_many_wrong_keys_have_to_wait_and_the_right_one_never_does(locked: Page) -> None:
    def wrong() -> int:
        answer = locked.client.post("/_ui/sign-in", data={"key": "no"}, headers=OWN_PAGE, environ_overrides=LOCAL)
        assert "Set-Cookie" not in answer.headers
        assert (answer.status_code == 429) is ("Retry-After" in answer.headers)
        return answer.status_code

    tried = [wrong() for _ in range(SIGN_INS + 1)]
    assert tried[0] == 401 and tried[-1] == 429
    assert cookie(locked)
