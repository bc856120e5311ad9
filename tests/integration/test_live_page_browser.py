"""The live page in a real Chromium: its content, its use, and its defense against hostile text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect

from proxy.server.shared_file import FILE_NAME
from tests.conftest import Proxy, start
from tests.support.browser import PATIENCE, browser, opened
from tests.support.page_traffic import HOSTILE, TOOLS, USUAL, Agent, call_in_text, said
from tests.support.rows import rows
from tests.support.scripted import Upstream, answer

pytestmark = pytest.mark.once

expect.set_options(timeout=PATIENCE)
WIDTHS = (320, 390, 768, 1400, 1920)
# axe's names for the two levels of findings that fail the test.
SERIOUS = ("serious", "critical")
KEY = "the-admins-own-key"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as one:
        yield one


class Site:
    """A proxy with its page, a scripted model server, and an agent."""

    def __init__(self, upstream: Upstream, proxy: Proxy, stack: ExitStack) -> None:
        self.upstream = upstream
        self.proxy = proxy
        self.agent = Agent(proxy.port, stack)
        self.url = f"{proxy.url}/_ui"

    def play(self, *scripts: Any) -> None:
        """Set the next answers of the model server, which is healthy."""
        self.upstream.play(*scripts)
        self.upstream.paths["/health"] = [answer({})]


@contextmanager
def site(folder: Path, *flags: str) -> Iterator[Site]:
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream())
        started = Site(upstream, start(upstream.url, *flags, folder=folder, stack=stack), stack)
        started.play()
        yield started


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("shown"), "--audit-values") as one:
        one.play(*USUAL)
        for _ in USUAL:
            one.agent.ask()
        yield one


@pytest.fixture
def page(chromium: Browser, shown: Site) -> Iterator[Page]:
    with opened(chromium, shown.url) as one:
        expect(one.locator("#request-rows tr")).to_have_count(len(USUAL))
        yield one


def test_the_verdict_the_models_and_the_requests_are_shown(page: Page) -> None:
    expect(page.locator("#connection")).to_have_text("connected")
    expect(page.locator("#verdict")).to_have_text("5 requests, 2 rescued, 1 rejected, 1 failed")
    model = page.locator("#model-rows tr").all_inner_texts()
    assert [line.split("\t")[:6] for line in model] == [["tiny", "5", "2", "2", "1", "1"]]
    cells = [row.locator("td").all_inner_texts() for row in page.locator("#request-rows tr").all()]
    # A request may end shortly after the next one began.
    assert sorted((result, tools) for _, result, tools, *_ in cells) == [
        ("clean", ""),
        ("failed 503 upstream: server_error", ""),
        ("rejected no such tool is offered", ""),
        ("rescued", "bash"),
        ("rescued", "write_file"),
    ]
    assert not re.search("[0-9a-f]{32}", page.locator("main").inner_text())


def test_requests_can_be_searched_and_filtered_by_result(page: Page) -> None:
    rows = page.locator("#request-rows tr")
    page.get_by_label("Result").select_option("rescued")
    expect(rows).to_have_count(2)
    page.get_by_label("Search").fill("TINY bash")
    expect(rows).to_have_count(1)
    expect(page.locator("#count")).to_have_text("1 of 5")
    page.get_by_label("Result").select_option("failed")
    expect(rows).to_have_count(0)
    page.get_by_label("Search").fill("503")
    expect(rows).to_have_count(1)


def test_the_text_is_shown_next_to_the_call(page: Page) -> None:
    page.locator("#request-rows tr").filter(has_text="bash").get_by_role("button").click()
    cards = page.locator("#story-body article")
    call = cards.filter(has_text="text_call")
    expect(call.get_by_role("region", name="The model wrote")).to_contain_text("<tool_call>")
    expect(call.get_by_role("region", name="The client got")).to_contain_text('"timeout": 60')
    number = cards.filter(has=page.get_by_role("heading", name="literal, tool bash"))
    expect(number.locator("del").first).to_have_text('"')
    expect(number.locator(".sides pre")).to_have_count(2)


@pytest.mark.slow
@rows(__file__, "before,after,parts")
def test_differences_are_shown_word_by_word(page: Page, before: str, after: str, parts: list[Any] | None) -> None:
    script = "async ([a, b]) => (await import('/_ui/assets/diff.js')).compared(a, b)"
    found = page.evaluate(script, [before, after])
    assert parts is None or found == parts
    assert "".join(text for kind, text in found if kind != "added") == before
    assert "".join(text for kind, text in found if kind != "removed") == after


def test_a_request_opens_to_show_its_whole_story(page: Page) -> None:
    page.locator("#request-rows button").last.click()
    body = page.locator("#story-body")
    expect(body.locator("dl")).to_contain_text("/v1/chat/completions")
    titles = [
        *("What the client sent", "What was sent upstream, try 1", "What the model server answered, try 1"),
        "What the client got",
    ]
    assert body.locator("summary").all_text_contents() == titles
    body.locator("summary").nth(2).click()
    expect(body.get_by_role("region", name=titles[2])).to_contain_text("<tool_call>")


@pytest.mark.slow
def test_an_open_page_is_updated(chromium: Browser, tmp_path: Path) -> None:
    with site(tmp_path) as one, opened(chromium, one.url) as page:
        expect(page.locator("#verdict")).to_have_text("No request has ended.")
        expect(page.locator("#notes")).to_contain_text("--audit-values")
        one.play(said("a"))
        one.agent.ask("/for/openclaw/v1/chat/completions")
        expect(page.locator("#request-rows td").nth(4)).to_have_text("openclaw")
        page.locator("#request-rows button").click()
        expect(page.locator("#story-body")).to_contain_text("What was written is not kept")
        expect(page.locator("#story-body summary")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_requests_of_a_stopped_proxy_disappear(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Its file is removed with the runtime directory, and the next proxy starts a new one."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with site(tmp_path) as one, opened(chromium, one.url) as page:
        one.play(*[said("a")] * (2 + count))
        one.agent.ask()
        one.agent.ask()
        expect(page.locator("#request-rows tr")).to_have_count(2)
        page.context.set_offline(True)
        expect(page.locator("#connection")).to_have_text("not connected")
        for file in tmp_path.glob(f"{FILE_NAME}*"):
            file.unlink()
        for _ in range(count):
            one.agent.ask()
        page.context.set_offline(False)
        expect(page.locator("#verdict")).to_contain_text(f"{count} request")
        expect(page.locator("#request-rows tr")).to_have_count(count)


@pytest.mark.slow
def test_focus_survives_an_update(chromium: Browser, tmp_path: Path) -> None:
    with site(tmp_path) as one:
        one.play(said("a"), said("b"))
        one.agent.ask()
        with opened(chromium, one.url) as page:
            page.locator("#request-rows button").focus()
            one.agent.ask()
            expect(page.locator("#request-rows tr")).to_have_count(2)
            expect(page.locator("#request-rows button").last).to_be_focused()


@pytest.mark.slow
def test_selected_text_stays_selected_while_nothing_changes(page: Page) -> None:
    page.locator("#verdict").select_text()
    for _ in range(2):
        with page.expect_response(re.compile("/_ui/state")):
            pass
    assert page.evaluate("getSelection().toString()") == page.locator("#verdict").inner_text()


@pytest.mark.slow
def test_the_whole_page_can_be_used_by_keyboard(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    button = page.locator("#request-rows button").first
    for _ in range(200):
        page.keyboard.press("Tab")
        if button.evaluate("one => one === document.activeElement"):
            break
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#story")).to_be_visible()
    expect(page.locator("#story-body dl")).to_be_visible()
    assert page.evaluate("document.getElementById('story').contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(page.locator("#story")).to_be_hidden()
    expect(button).to_be_focused()


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_at_any_width(chromium: Browser, shown: Site, width: int) -> None:
    with opened(chromium, shown.url, width=width) as page:
        expect(page.locator("#request-rows tr")).to_have_count(len(USUAL))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("#request-rows button").last.click()
        expect(page.locator("#story-body dl")).to_be_visible()
        for details in page.locator("#story-body summary").all():
            details.click()
        assert page.evaluate("document.getElementById('story').scrollWidth") <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_no_serious_problem(chromium: Browser, shown: Site, dark: bool, width: int) -> None:
    with opened(chromium, shown.url, dark=dark, width=width) as page:
        expect(page.locator("#request-rows tr")).to_have_count(len(USUAL))
        assert serious(page) == []
        page.locator("#request-rows button").last.click()
        expect(page.locator("#story-body dl")).to_be_visible()
        for details in page.locator("#story-body summary").all():
            details.click()
        assert serious(page) == []


def serious(page: Page) -> list[str]:
    """Return axe's serious findings: rule and element."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in SERIOUS]


HIDDEN = re.compile("[\u202e\u2066\u061c\u00ad\U000e0041]")


@pytest.fixture(scope="module")
def harmful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three requests for each hostile text: in model output, tool name, arguments, model name and errors."""
    with site(tmp_path_factory.mktemp("harmful"), "--audit-values") as one:
        for hostile in HOSTILE:
            one.play(
                said(hostile, call_in_text("write_file", {"path": hostile, "content": hostile})),
                said(call_in_text(hostile, {hostile: hostile})),
                [answer({"error": {"message": hostile, "type": hostile, "code": hostile}}, 418)],
            )
            body: dict[str, Any] = {"model": hostile, "tools": [TOOLS[0], named(hostile)]}
            for _ in range(3):
                one.agent.ask(**body, messages=[{"role": "user", "content": hostile}])
        yield one


@pytest.mark.slow
def test_hostile_text_has_no_effect(chromium: Browser, harmful: Site) -> None:
    with opened(chromium, "about:blank") as page:
        complaints = watched(page, harmful.url)
        page.goto(harmful.url)
        rows = page.locator("#request-rows")
        expect(rows.locator("tr")).to_have_count(3 * len(HOSTILE))
        for hostile in HOSTILE:
            shown_as_text(rows.inner_text(), hostile)
        for at in range(3 * len(HOSTILE)):
            rows.locator("button").nth(at).click()
            expect(page.locator("#story-body dl")).to_be_visible()
            page.evaluate("document.querySelectorAll('#story-body details').forEach((one) => { one.open = true; })")
            shown_as_text(page.locator("#story-body").inner_text(), HOSTILE[-1 - at // 3])
            page.keyboard.press("Escape")
        assert page.evaluate("window.hit") is None
        assert page.locator("img, iframe, body b, body style, body script, a[href^=javascript]").count() == 0
        assert complaints == []


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def shown_as_text(shown: str, hostile: str) -> None:
    """Assert that the text is shown verbatim, with invisible and bidirectional characters escaped."""
    plain = HIDDEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", hostile)
    assert re.sub(r"\s+", " ", plain)[:60] in re.sub(r"\s+", " ", shown)
    assert HIDDEN.search(shown) is None


def watched(page: Page, url: str) -> list[str]:
    """Collect console errors, dialogs, and requests to other origins."""
    complaints: list[str] = []
    origin = url.removesuffix("/_ui")

    def asks(request: Request) -> None:
        if not request.url.startswith(origin):
            complaints.append(f"asked for {request.url}")

    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", asks)
    return complaints


def test_its_policy_blocks_all_other_scripts(page: Page) -> None:
    refused = page.evaluate(
        """() => ["onclick='window.hit = 1'", "<img src=x onerror='window.hit = 1'>"].map((said) => {
            const made = document.createElement("div");
            document.body.append(made);
            try { made.innerHTML = `<button ${said}>a</button>`; } catch (error) { return error.name; }
            return "taken";
        })"""
    )
    assert refused == ["TypeError", "TypeError"]
    inline = page.evaluate(
        "() => { const one = document.createElement('style'); one.textContent = 'body {display: none}';"
        " document.head.append(one); return getComputedStyle(document.body).display; }"
    )
    assert inline == "block"
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0


@pytest.mark.slow
def test_with_a_key_a_browser_asks_for_it_and_another_page_cannot_use_it(chromium: Browser, tmp_path: Path) -> None:
    """The other page is on another port, so a browser considers it the same site and would send the key."""
    (tmp_path / "key").write_text(KEY)
    with site(tmp_path, "--admin-key-file", str(tmp_path / "key")) as one:
        for key, status in (("not-it", 401), (KEY, 200)):
            credentials = {"username": "anybody", "password": key}
            with closing(chromium.new_context(http_credentials=credentials)) as context:  # type: ignore[arg-type]
                page = context.new_page()
                answered = page.goto(one.url)
                assert answered is not None and answered.status == status
                if status != 200:
                    continue
                expect(page.locator("#connection")).to_have_text("connected")
                assert serious(page) == [] and context.cookies() == []
                one.play(USUAL[0])
                one.agent.ask()
                page.locator("#request-rows button").click()
                expect(page.locator("#story-body dl")).to_be_visible()
                one.upstream.paths["/page"] = [answer(b"<p>Win a prize</p>", 200, {"Content-Type": "text/html"})]
                page.goto(f"{one.upstream.url}/page")
                ask = "url => fetch(url, {credentials: 'include'}).then(() => 'read', () => 'refused')"
                assert page.evaluate(ask, f"{one.url}/state") == "refused"
