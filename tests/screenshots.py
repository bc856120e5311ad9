"""`python -m tests.screenshots`: take the screenshots of the live page in `docs/images/`.

They show the real page of a proxy with a scripted model server.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.conftest import start
from tests.real.processes import ROOT
from tests.support.browser import PATIENCE, browser, opened
from tests.support.page_traffic import USUAL, Agent
from tests.support.scripted import Upstream, answer

FOLDER = ROOT / "docs" / "images"


def main() -> int:
    """Take all screenshots."""
    FOLDER.mkdir(exist_ok=True)
    expect.set_options(timeout=PATIENCE)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(Upstream())
        proxy = start(upstream.url, "--audit-values", folder=folder, stack=stack)
        agent = Agent(proxy.port, stack)
        upstream.play(*USUAL)
        upstream.paths["/health"] = [answer({})]
        for _ in USUAL:
            agent.ask("/for/opencode/v1/chat/completions")
        _draw(stack.enter_context(browser()), f"{proxy.url}/_ui")
    for file in sorted(FOLDER.glob("live-page*.png")):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size} bytes")
    return 0


def _draw(chromium: Browser, url: str) -> None:
    with opened(chromium, url, width=1400, height=850) as page:
        _await(page)
        page.screenshot(path=FOLDER / "live-page.png")
    with opened(chromium, url, width=1400, height=850, dark=True) as page:
        _await(page)
        page.locator("#request-rows button").last.click()
        expect(page.get_by_role("region", name="The client got")).to_be_visible()
        page.screenshot(path=FOLDER / "live-page-request.png")
    with opened(chromium, url, width=390, height=780) as page:
        _await(page)
        page.screenshot(path=FOLDER / "live-page-phone.png")


def _await(page: Page) -> None:
    """Wait until the page is complete."""
    expect(page.locator("#request-rows tr")).to_have_count(len(USUAL))


if __name__ == "__main__":
    sys.exit(main())
