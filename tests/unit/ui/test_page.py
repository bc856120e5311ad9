"""The live page as the application has it."""

from __future__ import annotations

from proxy.ui.page import PAGE
from proxy.ui.views import VIEWS
from proxy.web.routes import LIVE_PAGE
from tests.support.live_page import LOCAL, admin, live_page

URL = "http://127.0.0.1:9"


def test_each_path_of_the_page_has_its_view() -> None:
    assert set(PAGE.views) == set(VIEWS) == set(LIVE_PAGE)


def test_a_view_is_the_one_of_its_path_and_gets_what_the_path_says() -> None:
    with live_page(URL) as page:
        assert b"<!doctype html>" in page.client.get("/_ui", environ_overrides=LOCAL).data.lower()
        script = page.client.get("/_ui/assets/page.js", environ_overrides=LOCAL)
        assert script.content_type.startswith("text/javascript")


def test_a_browser_that_has_not_signed_in_is_asked_to() -> None:
    with live_page(URL, keys=admin("secret")) as page:
        asked = page.client.get("/_ui", environ_overrides=LOCAL)
        assert asked.status_code == 401 and b"/_ui/sign-in" in asked.data
