"""The views of the live page: who gets what, and that nothing of what was said is ever part of a page."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from proxy.activity.record import Record
from proxy.codec.json_text import JsonObject
from tests.support.live_page import LOCAL, Page, live_page

URL = "http://127.0.0.1:9"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(name="page")
def _page() -> Iterator[Page]:
    """The page of a proxy without an admin's key, which shows values."""
    with live_page(URL, audit_values=True) as made:
        yield made


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


@pytest.mark.parametrize("name", ["page.html", "sign_in.html", "none.js", "..", "%2e%2e%2fviews.py", "page.js%00"])
def test_no_other_file_is_one_of_the_page(page: Page, name: str) -> None:
    assert get(page, f"/_ui/assets/{name}")[0] == 404


@pytest.mark.parametrize("behind", ["", "/capture"])
@pytest.mark.parametrize("name", ["2", "0", "x", "-1", "1" * 16, "\u0661"])
def test_a_request_that_is_not_there_is_told_so(page: Page, name: str, behind: str) -> None:
    keep(page)
    assert get(page, f"/_ui/requests/{name}{behind}")[0] == 404


def test_where_nothing_was_kept_of_an_answer_that_is_told(page: Page) -> None:
    keep(page, asked=b"a")
    code, data = get(page, f"/_ui/requests/{page.requests()[0]['number']}/capture")
    assert (code, b"audit_values" in data) == (404, True)
