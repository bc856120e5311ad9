"""Headless browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

# Flags for root, for containers, and for a small /dev/shm.
_FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
# Timeout in milliseconds, long enough for a busy machine.
PATIENCE = 60_000


def chromium() -> str:
    """Return Chromium's path. Without Chromium, the test fails in CI and is skipped elsewhere."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing = "Chromium is not installed (apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield a browser, which is closed when the block ends."""
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=chromium(), args=_FLAGS)
        try:
            yield one
        finally:
            one.close()


@contextmanager
def opened(browser: Browser, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Page]:
    """Yield a page in a new window."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
